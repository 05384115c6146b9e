"""How long a message is, and whether two messages say the same.

:mod:`proxy.reading.growth` finds by this what a call added to the one before, and the page shows
the difference between two requests.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from codec.compared_text import compare_as
from codec.text.jsontext import compact_text, decode_json

if TYPE_CHECKING:
    from codec.parts import ToolCall
    from proxy.reading.flat_messages import ContentPart, RecordedMessage

_DIGEST_BYTES: Final = 8


def list_parts(message: RecordedMessage) -> list[ContentPart]:
    """List the parts of a message except calls of tools, which are among the message's calls."""
    return [part for part in message.parts if part.call is None]


def measure_message(message: RecordedMessage) -> int:
    """Count the characters of a message's parts, and of the arguments of its calls."""
    parts = sum(len(part.text) for part in list_parts(message) if part.picture is None)
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
        elif part.kind != "reasoning" and part.text:
            texts.append((part.kind, part.text))
    calls = [(call.id, call.name, _read_arguments(call)) for call in message.tool_calls]
    return _digest([message.role, message.tool_call_id, texts, calls])


def digest_exactly(message: RecordedMessage) -> str:
    """Digest everything that is recorded of a message, except its place."""
    parts = [(part.kind, part.text) for part in list_parts(message)]
    calls = [(call.id, call.name, call.arguments) for call in message.tool_calls]
    return _digest([message.role, message.name, message.tool_call_id, parts, calls])


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
