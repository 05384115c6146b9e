"""Converts a request in llama-stack's words to a chat's (``docs/contract/sources.md#s3-10``).

It converts messages by their role, images to ``data:`` URLs, sampling options, and tables of
parameters to tool definitions.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codec.errors import MalformedRequest
from codec.text.jsontext import compact_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codec.text.jsontext import JsonObject

__all__ = (
    "ROLES_WITH_IMAGES",
    "ToolParameter",
    "build_tool_definition",
    "convert_message",
    "greedy_options",
    "image_data_url",
    "top_k_options",
    "top_p_options",
)


_ROLES = {"system", "developer", "user", "assistant", "tool"}

ROLES_WITH_IMAGES = frozenset({"user"})
"""Roles that may send images; from the others a chat accepts only text."""


def image_data_url(data: bytes, *, mime_type: str = "image/png") -> str:
    """Return an image as a URL that holds it (RFC 2397)."""
    return f"data:{mime_type};base64,{base64.b64encode(data).decode()}"


def convert_message(message: Any) -> JsonObject:
    """Return a message in a chat's form.

    Content parts of type ``image`` with ``data`` in base64 become ``image_url`` parts; a tool's
    result keeps its ``call_id`` as ``tool_call_id``. A call of a builtin tool becomes a call of a
    function with that name. Nothing else is changed.

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
    """Convert a call from llama-stack's flat form (``tool_name``, ``arguments``) to OpenAI's."""
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


_TYPES = {
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "str": "string",
    "list": "array",
    "dict": "object",
}
"""Python's names of types; a name of JSON Schema stays as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolParameter:
    """A parameter of a tool.

    Attributes:
        type: a type by Python's name or by JSON Schema's.
        description: left out if it is empty.
        default: left out if it is false in Python's sense, as in llama-stack.
    """

    type: str
    description: str = ""
    required: bool = True
    default: Any = None


def build_tool_definition(
    name: str, parameters: Mapping[str, ToolParameter], *, description: str = ""
) -> JsonObject:
    """Build the definition of a tool in OpenAI's form."""
    function: JsonObject = {"name": name}
    if description:
        function["description"] = description
    function["parameters"] = {
        "type": "object",
        "properties": {name: _schema(parameter) for name, parameter in parameters.items()},
        "required": [name for name, parameter in parameters.items() if parameter.required],
    }
    return {"type": "function", "function": function}


def _schema(parameter: ToolParameter) -> JsonObject:
    schema: JsonObject = {"type": _TYPES.get(parameter.type, parameter.type)}
    if parameter.description:
        schema["description"] = parameter.description
    if parameter.default:
        schema["default"] = parameter.default
    return schema


def greedy_options(
    *,
    max_tokens: int = 0,
    repetition_penalty: float = 1.0,
    stop: Sequence[str] | None = None,
) -> JsonObject:
    """Parameters that always take the likeliest token: temperature 0."""
    return {"temperature": 0.0} | _common(max_tokens, repetition_penalty, stop)


def top_p_options(
    *,
    temperature: float,
    top_p: float,
    max_tokens: int = 0,
    repetition_penalty: float = 1.0,
    stop: Sequence[str] | None = None,
) -> JsonObject:
    """Parameters that sample among the likeliest tokens of a total probability."""
    common = _common(max_tokens, repetition_penalty, stop)
    return {"temperature": temperature, "top_p": top_p} | common


def top_k_options(
    *,
    top_k: int,
    max_tokens: int = 0,
    repetition_penalty: float = 1.0,
    stop: Sequence[str] | None = None,
) -> JsonObject:
    """Parameters that sample among a number of likeliest tokens (OpenAI has no such member)."""
    return {"top_k": top_k} | _common(max_tokens, repetition_penalty, stop)


def _common(max_tokens: int, repetition_penalty: float, stop: Sequence[str] | None) -> JsonObject:
    """Write the common parameters, without a limit of 0 and a penalty of 1, which mean nothing."""
    options: JsonObject = {}
    if max_tokens:
        options["max_tokens"] = max_tokens
    if repetition_penalty != 1.0:
        options["repeat_penalty"] = repetition_penalty
    if stop:
        options["stop"] = list(stop)
    return options
