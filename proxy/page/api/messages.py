"""Heads of messages: who said how much, and how it begins. The rest comes in slices.

A picture in the span is described by type and size, one elsewhere by its address; nothing is
fetched. A picture is Base64 in a ``data:`` URL whose first bytes are one of :data:`_MARKS`, because
its URL, which a stranger wrote, may say anything about its type. No other bytes are served.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from codec.compared_text import compare_as
from codec.text.jsontext import compact_text, decode_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codec.parts import ToolCall
    from codec.text.jsontext import JsonObject
    from proxy.reading.flat_messages import ContentPart, RecordedMessage

MAX_PREVIEW_CHARACTERS: Final = 2_048
"""The longest preview, about a screen: 200 messages are then at most some 400 KB, and usually a
tenth of that."""

TEXT_KINDS: Final = frozenset({"text", "reasoning", "refusal", "transcript"})
"""Kinds of parts that are texts; all others are media."""

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://")

_DIGEST_BYTES: Final = 8


def build_heads(messages: Sequence[RecordedMessage]) -> list[JsonObject]:
    """Build the heads of messages; each has its place in the list, to ask for the rest."""
    return [_build_head(at, message) for at, message in enumerate(messages)]


def list_parts(message: RecordedMessage) -> list[ContentPart]:
    """List the parts of a message except calls of tools, which are among the message's calls."""
    return [part for part in message.parts if part.call is None]


def measure_message(message: RecordedMessage) -> int:
    """Count the characters of a message's parts, and of the arguments of its calls."""
    parts = sum(len(part.text) for part in list_parts(message))
    return parts + sum(len(call.arguments) for call in message.tool_calls)


def digest_message(message: RecordedMessage) -> str:
    """Digest what a message says to a model: messages that say the same have the same digest.

    That is its role, texts, media, calls and results. White space at the ends, reasoning, and what
    is not compared of a text (:mod:`codec.compared_text`) do not count; arguments count as JSON.
    """
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
    """Digest everything that is recorded of a message, except its place."""
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
    picture = None if is_text or is_address else _describe_picture(part.text)
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
    except (ValueError, TypeError, RecursionError):  # for example a number of thousands of digits
        text = compact_text(value)
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


_MARKS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)

_MARK_CHARACTERS: Final = 16
"""How many characters of Base64 are read for the type: twelve bytes are enough for each."""


def _describe_picture(url: str) -> JsonObject | None:
    """Find type and size of a picture in a ``data:`` URL; ``None`` if it is not a picture."""
    found = _find_base64(url)
    if found is None:
        return None
    kind = _find_type(_decode(found[:_MARK_CHARACTERS]))
    if kind is None:
        return None
    return {"type": kind, "bytes": len(found.rstrip("=")) * 3 // 4}


def read_picture(url: str) -> tuple[str, bytes] | None:
    """Read type and bytes of a picture; ``None`` if it is not a picture."""
    found = _find_base64(url)
    data = None if found is None else _decode(found)
    kind = None if data is None else _find_type(data)
    return None if data is None or kind is None else (kind, data)


def _find_base64(url: str) -> str | None:
    if not url.startswith("data:"):
        return None
    head, comma, text = url.partition(",")
    return text.strip() if comma and head.endswith(";base64") else None


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return b""


def _find_type(data: bytes) -> str | None:
    for mark, kind in _MARKS:
        if data.startswith(mark):
            return kind
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None
