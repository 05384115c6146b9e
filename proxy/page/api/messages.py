"""Messages as heads: who said how much, and how it begins; the rest comes in slices.

Rules:

1. A preview has :data:`MAX_PREVIEW_CHARACTERS` at most, whatever the message holds.
2. A picture that is in the span is told by type and size, one that is elsewhere by its address.
   Nothing is fetched.
3. Two messages have the same digest where they say the same to a model: their role, texts, media,
   calls and results, without white space at the ends, reasoning and what is not compared of a
   text (:mod:`codec.compared_text`), and arguments as JSON. Their exact digests compare all that
   is recorded.
4. A call of a tool that stands among the parts is told once, among the calls.
"""

from __future__ import annotations

import json
import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from codec.compared_text import compare_as
from codec.text.jsontext import compact_text, decode_json
from proxy.page.api.pictures import describe_picture

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codec.parts import ToolCall
    from codec.text.jsontext import JsonObject
    from proxy.reading.flat_messages import ContentPart, RecordedMessage

MAX_PREVIEW_CHARACTERS: Final = 2_048
"""A screen or so: 200 messages are then at most some 400 KB, and mostly a tenth of that."""

TEXT_KINDS: Final = frozenset({"text", "reasoning", "refusal", "transcript"})
"""Kinds of parts that are texts; all others are media."""

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://")

_DIGEST_BYTES: Final = 8


def build_heads(messages: Sequence[RecordedMessage]) -> list[JsonObject]:
    """Build the heads of messages, each with its place in the list, by which it is asked for."""
    return [_build_head(at, message) for at, message in enumerate(messages)]


def list_parts(message: RecordedMessage) -> list[ContentPart]:
    """List the parts of a message that have a place of their own (rule 4)."""
    return [part for part in message.parts if part.call is None]


def measure_message(message: RecordedMessage) -> int:
    """Count the characters of a message: of its parts, and of the arguments of its calls."""
    parts = sum(len(part.text) for part in list_parts(message))
    return parts + sum(len(call.arguments) for call in message.tool_calls)


def digest_message(message: RecordedMessage) -> str:
    """Digest what a message says to a model (rule 3)."""
    texts: list[Any] = []
    for part in list_parts(message):
        if part.kind == "text":
            if text := compare_as(part.text, message.role).strip():
                texts.append(text)
        elif part.kind != "reasoning":
            texts.append((part.kind, part.text))
    calls = [(call.id, call.name, _read_arguments(call)) for call in message.tool_calls]
    return _digest([message.role, message.tool_call_id, texts, calls])


def digest_exactly(message: RecordedMessage) -> str:
    """Digest all that is recorded of a message but for its place."""
    parts = [(part.kind, part.text) for part in list_parts(message)]
    calls = [(call.id, call.name, call.arguments) for call in message.tool_calls]
    return _digest([message.role, message.name, message.tool_call_id, parts, calls])


def write_message(message: RecordedMessage) -> str:
    """Write a message as one text: its parts, then its calls."""
    lines = [part.text for part in list_parts(message)]
    lines += [f"{call.name or ''}({call.arguments})" for call in message.tool_calls]
    return "\n".join(lines)


def _build_head(at: int, message: RecordedMessage) -> JsonObject:
    return {
        "index": at,
        "place": message.index,
        "role": message.role,
        "name": message.name,
        "tool_call_id": message.tool_call_id,
        "chars": measure_message(message),
        "digest": digest_message(message),
        "parts": [*map(_build_part, list_parts(message))],
        "tool_calls": _build_calls(message.tool_calls),
    }


def _build_part(part: ContentPart) -> JsonObject:
    is_text = part.kind in TEXT_KINDS
    is_address = not is_text and _ADDRESS.match(part.text) is not None
    picture = None if is_text or is_address else describe_picture(part.text)
    is_bytes = not is_text and part.text.startswith("data:")
    return {
        "kind": part.kind,
        "chars": len(part.text),
        "preview": "" if is_address or is_bytes else part.text[:MAX_PREVIEW_CHARACTERS],
        "url": part.text[:MAX_PREVIEW_CHARACTERS] if is_address else None,
        "image": picture,
    }


def _build_calls(calls: Iterable[ToolCall]) -> list[JsonObject]:
    return [
        {
            "id": call.id,
            "name": call.name,
            "arguments": call.arguments[:MAX_PREVIEW_CHARACTERS],
            "chars": len(call.arguments),
        }
        for call in calls
    ]


def _read_arguments(call: ToolCall) -> Any:
    try:
        return decode_json(call.arguments)
    except ValueError:
        return call.arguments


def _digest(value: Any) -> str:
    try:
        text = json.dumps(value, sort_keys=True)
    except (ValueError, TypeError, RecursionError):  # of numbers with thousands of digits
        text = compact_text(value)
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()
