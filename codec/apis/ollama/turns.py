"""Messages and tools of Ollama's chats, as the record of a call has them.

See ``docs/contract/apis.md#ollama``. A message that is the result of a tool has the tool's name as
its name.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from codec.members import list_of, object_of, text_of
from codec.parts import MAX_READ_PARTS, Media, Message, Reasoning, ToolCall, ToolResult
from codec.text.base64_text import find_image_type
from codec.text.jsontext import compact_text, is_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codec.parts import Part
    from codec.text.jsontext import JsonObject

__all__ = ("has_bad_arguments", "read_message", "read_parts")

_TOOL: Final = "tool"
_URLS: Final = ("data:", "http://", "https://")
"""Beginnings of images that some clients send as a URL; Ollama's server refuses them."""


def read_message(value: Any) -> Message:
    """Read one message; anything but an object is one without a role."""
    if type(value) is not dict:
        return Message(None)
    role, name = text_of(value.get("role")), text_of(value.get("tool_name"))
    call_id = text_of(value.get("tool_call_id"))
    if role == _TOOL or call_id is not None:
        content = value.get("content")
        result = ToolResult(id=call_id, content=text_of(content), value=content)
        return Message(role, (result,), name)
    parts = read_parts(value, "content")
    if len(parts) == 1 and isinstance(parts[0], str):
        return Message(role, parts[0], name)
    unread = len(list_of(value.get("images"))) - MAX_READ_PARTS
    return Message(role, parts or None, name, len(parts) + unread if unread > 0 else 0)


def read_parts(value: Mapping[str, Any], member: str) -> tuple[Part, ...]:
    """Read what a message says: thinking, then the text in this member, images, and calls."""
    parts: list[Part] = []
    if thinking := text_of(value.get("thinking")):
        parts.append(Reasoning(text=thinking))
    if text := text_of(value.get(member)):
        parts.append(text)
    parts += map(_read_image, islice(list_of(value.get("images")), MAX_READ_PARTS))
    parts += _read_calls(value)
    return tuple(parts)


def has_bad_arguments(value: Mapping[str, Any]) -> bool:
    """Tell whether a call's arguments are text that is not JSON, as some gateways send them."""
    asked = (object_of(call.get("function")).get("arguments") for call in _calls_of(value))
    return any(isinstance(one, str) and not is_json(one) for one in asked)


def _read_image(value: Any) -> Media:
    """Read an image.

    It comes as bare base64 and becomes a ``data:`` URL; its type is known from its first bytes. If
    they are unknown, the image has no URL here; the body has it whole.
    """
    data = text_of(value) or ""
    if data.startswith(_URLS):
        return Media(kind="image", url=data)
    mime_type = find_image_type(data)
    url = None if mime_type is None else f"data:{mime_type};base64,{data}"
    return Media(kind="image", url=url, mime_type=mime_type)


def _calls_of(value: Mapping[str, Any]) -> Iterator[JsonObject]:
    return map(object_of, islice(list_of(value.get("tool_calls")), MAX_READ_PARTS))


def _read_calls(value: Mapping[str, Any]) -> Iterator[ToolCall]:
    """Read the calls; a value that is not a call keeps its place among them.

    Arguments are an object on the wire, and its compact text in the record. A call that came
    without an id has no id.
    """
    for call in _calls_of(value):
        called = object_of(call.get("function"))
        asked = called.get("arguments")
        text = asked if isinstance(asked, str) else "" if asked is None else compact_text(asked)
        yield ToolCall(
            id=text_of(call.get("id")),
            name=text_of(called.get("name")),
            arguments=text,
            type="function" if called else "",
        )
