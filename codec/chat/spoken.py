"""A spoken answer: the ``audio`` of a chat's message, folded from deltas or read whole.

The pieces of the transcript become one text, and so do those of the data, as SDKs join them. Other
members (``id``, ``expires_at``) are replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.growing_text import GrowingText, TextKind
from codec.media import read_spoken
from codec.members import merge_members, object_of, text_of, without_empty
from codec.text.base64_text import MAX_KEPT_CHARS
from codec.text.jsontext import join_text

if TYPE_CHECKING:
    from collections.abc import Hashable

    from codec.budget import Budget
    from codec.parts import Media
    from codec.text.jsontext import JsonObject

__all__ = ("SpokenFold", "shorten_sound")

_PIECES = ("transcript", "data")


class SpokenFold:
    """The sound of one choice, as far as it has come.

    Args:
        budget: the room from which its growth is taken.
    """

    __slots__ = ("_budget", "_data", "_data_chars", "_others", "_transcript")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._transcript: list[str] = []
        self._data: list[str] = []
        self._data_chars = 0
        self._others: JsonObject = {}

    def feed(self, audio: JsonObject) -> bool:
        """Fold the member of a delta, or of a message, and tell whether it says something."""
        transcript, data = text_of(audio.get("transcript")), text_of(audio.get("data"))
        if transcript is not None and self._budget.reserve_text(transcript):
            self._transcript.append(transcript)
        if data is not None:
            self._data_chars += len(data)
            if self._data_chars > MAX_KEPT_CHARS:
                self._data.clear()
            elif self._budget.reserve_text(data):
                self._data.append(data)
        said = {"transcript": transcript, "data": data}
        skip = without_empty(said)
        merge_members(self._others, audio, skip=skip, budget=self._budget, extend_lists=True)
        return transcript is not None or data is not None

    def look(self, key: Hashable) -> GrowingText:
        """Look at the transcript so far."""
        return GrowingText(key, TextKind.TEXT, self._transcript)

    def read(self) -> Media | None:
        """Read it as a part of the message."""
        return read_spoken(self.body())

    def body(self) -> JsonObject:
        """Return the member of the message."""
        is_long = self._data_chars > MAX_KEPT_CHARS
        data = _describe(self._data_chars) if is_long else "".join(self._data)
        return self._others | without_empty(
            {"transcript": join_text(self._transcript), "data": data}
        )


def shorten_sound(choice: JsonObject) -> JsonObject:
    """Return a choice without long sound in its message; the choice itself if it has none.

    Sound of more than :data:`~codec.text.base64_text.MAX_KEPT_CHARS` characters says nothing to the
    reader of a span: ``<N base64 characters>`` replaces it, as in pictures.
    """
    message = object_of(choice.get("message"))
    audio = object_of(message.get("audio"))
    data = text_of(audio.get("data"))
    if data is None or len(data) <= MAX_KEPT_CHARS:
        return choice
    return choice | {"message": message | {"audio": audio | {"data": _describe(len(data))}}}


def _describe(count: int) -> str:
    return f"<{count} base64 characters>"
