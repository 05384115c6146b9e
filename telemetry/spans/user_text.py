"""Finds the user's newest text from the messages of a request and their attributes on the span.

Every text is taken from the span, where it is hidden, masked and cut; a hidden text is skipped. A
message with the role ``user`` that brings results of tools does not count as the user's
(``docs/contract/page.md#columns``). What agents put around the user's words is left out
(:mod:`telemetry.spans.wrappers`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from openinference.semconv.trace import (
    AudioAttributes,
    MessageAttributes,
    MessageContentAttributes,
    SpanAttributes,
)

from codec.observations import find_task, has_words
from codec.parts import Other, ToolResult
from telemetry.privacy.json_strings import REDACTED
from telemetry.spans.wrappers import Room, find_own_words

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
_WORDS: Final = (
    MessageContentAttributes.MESSAGE_CONTENT_TEXT,
    f"{MessageContentAttributes.MESSAGE_CONTENT_AUDIO}.{AudioAttributes.AUDIO_TRANSCRIPT}",
)
"""Attributes of a part that have its words: those of a text, or of the transcript of a sound."""

ANSWERERS: Final = frozenset({"assistant", "model"})
"""The roles of a model's messages."""


class UserText(NamedTuple):
    """The user's newest text.

    Attributes:
        shown: the text; ``None`` if there is none that may be shown.
        is_new: the user spoke after the last answer, perhaps in words that are hidden.
    """

    shown: str | None
    is_new: bool


def find_user_text(
    messages: Sequence[Message],
    parsed: Sequence[Message],
    get: Get,
    show: Callable[[str], str | None],
) -> UserText:
    """Find the user's newest text.

    Args:
        messages: the messages of the request.
        parsed: what :func:`codec.observations.read_observations` makes of them.
        get: returns the span's attributes of them.
        show: turns a text into the result; if it returns ``None``, an older text is searched for.
    """
    last = len(messages) - 1
    has_text_tools = parsed is not messages
    is_behind, is_new = True, False
    room = Room()
    for position in range(last, max(last - MAX_LOOKED_BACK, -1), -1):
        message = messages[position]
        if message.role == "user":
            if has_text_tools and not has_words(parsed[position]):
                continue
            texts = _read_texts(f"{_MESSAGES}.{position}", message, get)
            if has_text_tools and texts:
                texts = [*map(find_task, texts)]
            words = find_own_words(texts, room).text if texts else ""
            if words and (shown := show(words)) is not None:
                return UserText(shown, is_new or is_behind)
            is_new = is_new or (is_behind and texts is None)
        elif message.role in ANSWERERS:
            is_behind = False
    return UserText(None, is_new)


def _read_texts(prefix: str, message: Message, get: Get) -> list[str] | None:
    """Read the texts of a message from the span, those of results of tools left out.

    What was spoken is a text, too. ``None`` if it has something of the user's that is hidden, or
    that is no text.
    """
    content = message.content
    if type(content) is str:
        text = get(f"{prefix}.{_CONTENT}")
        return [text] if text and text != REDACTED else None if content else []
    parts = message.parts[:MAX_READ_PARTS]
    if any(isinstance(part, (ToolResult, Other)) for part in parts):  # not the user's words
        return []
    if (text := get(f"{prefix}.{_CONTENT}")) is not None:
        return None if text == REDACTED else [str(text)]
    places = (f"{prefix}.{_CONTENTS}.{position}" for position in range(len(parts)))
    keys = (f"{place}.{name}" for place in places for name in _WORDS)
    texts = [text for key in keys if (text := get(key)) and text != REDACTED]
    return texts or (None if parts else [])
