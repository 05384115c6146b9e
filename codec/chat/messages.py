"""Messages and tools of a chat completion request, as the record of a call has them.

A part of a content list keeps its place; a part of unknown type is an ``Other``. A content list
that holds anything but objects is one ``Other``, not a list of parts. A message of a tool is one
result, and its ``tool_call_id`` names the call.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from codec.chat.reasoning import read_reasoning
from codec.media import read_audio, read_file, read_made_images, read_spoken
from codec.members import list_of, object_of, text_of
from codec.parts import (
    MAX_READ_PARTS,
    Media,
    Message,
    Other,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)
from codec.text.jsontext import encode_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.parts import Part
    from codec.text.jsontext import JsonObject

__all__ = ("read_message",)

_NOTHING = Message(None)
_PLAIN = {"role", "content"}
_TOOL_ROLES = frozenset({"tool", "function"})
_NOT_PLAIN = _TOOL_ROLES | {""}
"""Roles whose messages always go the general way: a tool's result may lack the id of its call."""
_LINKED = {"image_url": "image", "audio_url": "audio", "video_url": "video"}
"""Parts that point to something: the last two are vLLM's."""


def read_message(value: Any) -> Message:
    """Read one message of a request; anything but an object is a message without a role."""
    if type(value) is not dict:
        return _NOTHING
    role, content = value.get("role"), value.get("content")
    is_text = type(content) is str and type(role) is str and role not in _NOT_PLAIN
    if is_text and value.keys() == _PLAIN:
        return Message(role, content or None)  # most messages are only this
    return _read_any(value, text_of(role), content)


def _read_any(value: JsonObject, role: str | None, content: Any) -> Message:
    name, call_id = text_of(value.get("name")), text_of(value.get("tool_call_id"))
    refusal = text_of(value.get("refusal"))
    said, count = _read_content(content)
    if role in _TOOL_ROLES or call_id is not None:
        result = ToolResult(id=call_id, content=said or refusal, value=content)
        return Message(role, (result,), name, count)
    reasoning = read_reasoning(value)
    parts: list[Part] = [*_read_calls(value)]
    if "images" in value:
        parts[:0] = read_made_images(value["images"])
    if "audio" in value and (spoken := read_spoken(object_of(value["audio"]))) is not None:
        parts.insert(0, spoken)
    if refusal is not None:
        parts.insert(0, Refusal(refusal))
    if reasoning is None and not parts:
        return Message(role, said, name, count)
    if said:
        parts[:0] = [said] if isinstance(said, str) else said
    if reasoning is not None:
        parts.insert(0, Reasoning(text=reasoning))
    return Message(role, tuple(parts), name, count)


def _read_content(content: Any) -> tuple[str | tuple[Part, ...] | None, int]:
    """Read a message's content, and the number of its parts if not all of them are read."""
    if isinstance(content, str):
        return content or None, 0
    if isinstance(content, dict):
        return (_read_part(content),), 0
    if not isinstance(content, list) or not content:
        return None, 0
    if not all(isinstance(part, dict) for part in content):
        return (Other(content),), 0
    count = len(content) if len(content) > MAX_READ_PARTS else 0
    return tuple([_read_part(part) for part in islice(content, MAX_READ_PARTS)]), count


def _read_part(part: JsonObject) -> Part:
    kind = part.get("type")
    said = part.get(kind) if isinstance(kind, str) else None
    match kind:
        case "text" | "refusal":
            return Text(text_of(said) or "")
        case "image_url" | "audio_url" | "video_url":
            url = said if isinstance(said, str) else object_of(said).get("url")
            return Media(kind=_LINKED[kind], url=text_of(url))
        case "input_audio":
            return read_audio(object_of(said))
        case "file":
            return read_file(object_of(said))
        case _:
            return Other(part)


def _read_calls(message: JsonObject) -> Iterator[ToolCall]:
    for call in islice(list_of(message.get("tool_calls")), MAX_READ_PARTS):
        # Another value keeps its place among the calls.
        yield _read_call(call) if isinstance(call, dict) else ToolCall(type="")
    if isinstance(function := message.get("function_call"), dict):
        yield _call(None, "function_call", function, "arguments")


def _read_call(call: JsonObject) -> ToolCall:
    """Read a call of a function, or of a custom tool with its free input."""
    call_id = call.get("id")
    call_id = call_id if isinstance(call_id, str) else None
    if isinstance(custom := call.get("custom"), dict):
        return _call(call_id, "custom", custom, "input")
    return _call(call_id, "function", object_of(call.get("function")), "arguments")


def _call(call_id: str | None, kind: str, called: JsonObject, member: str) -> ToolCall:
    arguments = called.get(member)
    if isinstance(arguments, dict):  # Ollama sends the object, OpenAI its text
        try:
            arguments = encode_json(arguments)
        except ValueError:
            arguments = None
    name = text_of(called.get("name"))
    return ToolCall(id=call_id, name=name, arguments=text_of(arguments) or "", type=kind)
