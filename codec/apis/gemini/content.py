"""Contents, which are lists of parts, as messages of the record.

See ``docs/contract/apis.md#gemini-request``. A part is left out if the record has no word for it,
or if it is what a tool of the provider found; the body has it whole. Roles stay verbatim: ``model``
and ``user``, also for what a function answered. Names are read in either spelling, in answers as
well, where only one of them occurs.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from codec.apis.gemini.names import member_of, some_of
from codec.members import object_of, string_of, text_of
from codec.parts import MAX_READ_PARTS, Media, Message, Reasoning, Text, ToolCall, ToolResult
from codec.text.base64_text import use_plain_alphabet
from codec.text.jsontext import compact_text

if TYPE_CHECKING:
    from codec.parts import Part
    from codec.text.jsontext import JsonObject

__all__ = ("CODE_TOOL", "read_content")

CODE_TOOL: Final = "code_execution"
"""The name of a call that has the provider run code."""

_KINDS: Final = {"image": "image", "audio": "audio", "video": "video"}
"""Kinds of media by the first word of their MIME type; any other is a document."""


def read_content(content: Any, role: str) -> Message:
    """Read a content. It may also be a bare text, which SDKs accept.

    Args:
        content: an object with parts, or anything else.
        role: its role, if it does not name one.
    """
    if isinstance(content, str):
        return Message(role, content or None)
    members = object_of(content)
    role = text_of(members.get("role")) or role
    parts = some_of(members.get("parts"))
    read = [part for part in map(_read_part, islice(parts, MAX_READ_PARTS)) if part is not None]
    count = len(parts) if len(parts) > MAX_READ_PARTS else 0
    if len(parts) > 1 or not read:
        return Message(role, tuple(read) or None, None, count)
    [only] = read
    if isinstance(only, Text) and only.signature is None:
        # The only text of a content is the message's content; one with a signature is a part.
        return Message(role, only.text or None)
    name = text_of(object_of(member_of(object_of(parts[0]), "functionResponse")).get("name"))
    return Message(role, (only,), name)


def _read_part(value: Any) -> Part | None:
    part = object_of(value)
    signature = text_of(member_of(part, "thoughtSignature"))
    if isinstance(call := member_of(part, "functionCall"), dict):
        return _read_call(call, signature)
    if isinstance(result := member_of(part, "functionResponse"), dict):
        return _read_result(result)
    text = part.get("text")
    if part.get("transcript") is True:  # Live's session marks so what was spoken
        return _read_spoken(text, object_of(member_of(part, "inlineData")))
    if isinstance(blob := member_of(part, "inlineData"), dict):
        return _read_media(blob, data=text_of(blob.get("data")))
    if isinstance(file := member_of(part, "fileData"), dict):
        return _read_media(file, url=text_of(member_of(file, "fileUri")))
    if isinstance(code := member_of(part, "executableCode"), dict):
        return _read_code(code, signature)
    if part.get("thought") is True and (isinstance(text, str) or signature is not None):
        return Reasoning(text=text_of(text), signature=signature)
    return Text(text, signature) if isinstance(text, str) else None


def _read_spoken(words: Any, kept: JsonObject) -> Media:
    """Read what was spoken, and its sound if a session kept that."""
    return Media(
        kind="audio",
        data=text_of(kept.get("data")),
        mime_type=text_of(member_of(kept, "mimeType")),
        transcript=string_of(words),  # empty if only the sound is known
        is_of_session=bool(kept),
    )


def _read_call(call: JsonObject, signature: str | None) -> ToolCall:
    """Read a call; its arguments are the pieces themselves if they could not be joined."""
    asked = call.get("args")
    if asked is None:
        asked = member_of(call, "partialArgs")
    return ToolCall(
        id=text_of(call.get("id")),
        name=text_of(call.get("name")),
        arguments="" if asked is None else compact_text(asked),
        reasoning_signature=signature,
    )


def _read_code(code: JsonObject, signature: str | None) -> ToolCall:
    asked = {name: code[name] for name in ("language", "code") if name in code}
    return ToolCall(
        id=text_of(code.get("id")),
        name=CODE_TOOL,
        arguments=compact_text(asked),
        type=CODE_TOOL,
        reasoning_signature=signature,
    )


def _read_result(result: JsonObject) -> ToolResult:
    value = result.get("response")
    text = None if value is None else compact_text(value)
    failed = object_of(value).get("error") is not None  # its key for that (FunctionResponse)
    return ToolResult(
        id=text_of(result.get("id")),
        content=text,
        value=value,
        is_error=failed,
        name=text_of(result.get("name")),
    )


def _read_media(members: JsonObject, *, data: str | None = None, url: str | None = None) -> Media:
    mime_type = text_of(member_of(members, "mimeType"))
    kind = _KINDS.get((mime_type or "").partition("/")[0].lower(), "document")
    # ``data:`` URLs have the plain alphabet of base64. In bodies the data stays as it came.
    data = None if data is None else use_plain_alphabet(data)
    if kind == "image" and data is not None:
        url, data = f"data:{mime_type};base64,{data}", None
    return Media(
        kind=kind,
        url=url,
        data=data,
        mime_type=mime_type,
        name=text_of(member_of(members, "displayName")),
    )
