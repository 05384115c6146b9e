"""Messages by their role, and images as ``data:`` URLs (``docs/contract/sources.md#s3-10``)."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from codec.errors import MalformedRequest
from codec.text.jsontext import compact_text

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = ("ROLES_WITH_IMAGES", "convert_message", "image_data_url")

_ROLES = {"system", "developer", "user", "assistant", "tool"}

ROLES_WITH_IMAGES = frozenset({"user"})
"""Roles that may send images: of the others a chat accepts text."""


def image_data_url(data: bytes, *, mime_type: str = "image/png") -> str:
    """Return an image as a URL that holds it (RFC 2397)."""
    return f"data:{mime_type};base64,{base64.b64encode(data).decode()}"


def convert_message(message: Any) -> JsonObject:
    """Return a message as a chat takes it.

    Content parts of type ``image`` with ``data`` in base64 become ``image_url`` parts; a tool's
    result keeps its ``call_id`` as ``tool_call_id``. A call of a builtin tool is one of a function
    of that name. Nothing else is changed.

    Raises:
        MalformedRequest: the role is missing or unknown, or has an image that it may not have.
    """
    role = message.get("role") if isinstance(message, dict) else None
    if not isinstance(role, str) or role not in _ROLES:
        raise MalformedRequest(f"message role {role!r}: not one of {', '.join(sorted(_ROLES))}")
    converted = {k: value for k, value in message.items() if k not in {"call_id", "tool_calls"}}
    content = message.get("content")
    if isinstance(content, list):
        converted["content"] = [_convert_part(part, role) for part in content]
    if "call_id" in message:
        converted["tool_call_id"] = message["call_id"]
    if "tool_calls" in message:
        calls = message["tool_calls"]
        converted["tool_calls"] = (
            [_convert_call(call) for call in calls] if isinstance(calls, list) else calls
        )
    return converted


def _convert_part(part: Any, role: str) -> Any:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind = part.get("type") if isinstance(part, dict) else None
    if kind not in ("image", "image_url"):
        return part
    if role not in ROLES_WITH_IMAGES:
        raise MalformedRequest(f"message role {role!r}: accepts no images")
    if kind == "image_url" or not isinstance(part.get("data"), str):
        return part
    mime_type = part.get("mime_type") or "image/png"
    return {"type": "image_url", "image_url": {"url": f"data:{mime_type};base64,{part['data']}"}}


def _convert_call(call: Any) -> Any:
    """Give a call in llama-stack's flat form (``tool_name``, ``arguments``) OpenAI's."""
    if not isinstance(call, dict) or "function" in call:
        return call
    return {
        "id": call.get("call_id", ""),
        "type": "function",
        "function": {"name": call.get("tool_name"), "arguments": _text(call.get("arguments"))},
    }


def _text(arguments: Any) -> str:
    if arguments is None:
        return "{}"
    return arguments if isinstance(arguments, str) else compact_text(arguments)
