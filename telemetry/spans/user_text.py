"""Finds the user's newest text from the messages of a request and their attributes on the span.

Every text is taken from the span, where it is hidden, masked and cut; a hidden text is skipped. A
message with the role ``user`` that brings results of tools does not count as the user's
(``docs/contract/page.md#columns``). The callers leave out what programs put into the user's text
(:mod:`codec.compared_text`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from openinference.semconv.trace import (
    MessageAttributes,
    MessageContentAttributes,
    SpanAttributes,
)

from codec.parts import Other, ToolResult
from telemetry.privacy.json_strings import REDACTED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codec.parts import Message

    Get = Callable[[str], Any]
    """Takes an attribute's name; returns its value on the span, ``None`` if the span has none."""

MAX_LOOKED_BACK: Final = 1_000
"""The most messages that are searched for the user's newest text: in an agent's run some hundreds
follow it."""

MAX_READ_PARTS: Final = 64
"""The most parts of a message that are read: the text is before or after a few images."""

_MESSAGES: Final = SpanAttributes.LLM_INPUT_MESSAGES
_CONTENT: Final = MessageAttributes.MESSAGE_CONTENT
_CONTENTS: Final = MessageAttributes.MESSAGE_CONTENTS
_TEXT: Final = MessageContentAttributes.MESSAGE_CONTENT_TEXT


def find_user_text(
    messages: Sequence[Message], get: Get, show: Callable[[str], str | None]
) -> str | None:
    """Find the user's newest text.

    Args:
        messages: the messages of the request, as they were read.
        get: returns the span's attributes of them.
        show: turns a text into the result; if it returns ``None``, an older text is searched for.
    """
    last = len(messages) - 1
    for position in range(last, max(last - MAX_LOOKED_BACK, -1), -1):
        message = messages[position]
        if message.role == "user":
            prefix = f"{_MESSAGES}.{position}"
            text = get(f"{prefix}.{_CONTENT}")
            if type(message.content) is not str:
                text = _read_parts(prefix, message, get)
            if text and (shown := show(text)) is not None:
                return shown
    return None


def _read_parts(prefix: str, message: Message, get: Get) -> str:
    """Read the texts of a message from the span; nothing if it has results of tools."""
    parts = message.parts[:MAX_READ_PARTS]
    if any(isinstance(part, (ToolResult, Other)) for part in parts):  # not the user's words
        return ""
    if (text := get(f"{prefix}.{_CONTENT}")) is not None:
        return str(text)
    keys = (f"{prefix}.{_CONTENTS}.{position}.{_TEXT}" for position in range(len(parts)))
    return "\n".join([text for key in keys if (text := get(key)) and text != REDACTED])
