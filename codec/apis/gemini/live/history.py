"""The conversation of a Live session: contents in their order, within bounds.

If they do not fit, the oldest ones are forgotten first (R5). A content that would take most of the
room for itself loses its pictures and files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from codec.apis.gemini.live.sound import drop_data
from codec.apis.gemini.names import some_of
from codec.apis.session import MAX_SESSION_BYTES
from codec.budget import size_bytes

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = ("History",)

_CONTENT_BYTES: Final = 256
"""The cost of a content besides its value."""

_MAX_TRANSCRIPT_CHARS: Final = 64 * 1024
"""The longest transcript of what the user said without a pause."""


@dataclass(slots=True, eq=False)
class _Kept:
    """A content, and what it takes."""

    value: JsonObject
    size_bytes: int


class History:
    """The contents of one connection. Not safe for concurrent calls.

    Args:
        limit_bytes: the most that it takes, as an estimate.

    Attributes:
        is_partial: some contents are missing.
    """

    __slots__ = (
        *("_contents", "_dropped", "_held_bytes", "_limit_bytes", "_mark"),
        *("_size_bytes", "_spoken", "is_partial"),
    )

    def __init__(self, limit_bytes: int = MAX_SESSION_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._contents: list[_Kept] = []
        self._size_bytes = 0
        self._held_bytes = 0
        self._dropped = 0  # contents that were forgotten
        self._mark = 0  # the place of the answer of the open turn, counted from the first ever
        self._spoken: _Kept | None = None  # what the user is saying
        self.is_partial = False

    @property
    def state(self) -> list[Any]:
        """What a new history needs to continue between two turns."""
        values = [kept.value for kept in self._contents]
        spoken = next((at for at, it in enumerate(self._contents) if it is self._spoken), None)
        return [values, spoken, self.is_partial]

    def restore(self, state: list[Any]) -> None:
        """Take the contents of a history's state."""
        contents, spoken, is_partial = state
        for content in contents:
            self.add(content)
        if spoken is not None and spoken >= self._dropped:
            self._spoken = self._contents[spoken - self._dropped]
        self.is_partial |= is_partial

    def hold(self, value: JsonObject) -> bool:
        """Make room for a value that is kept for ever, or return false."""
        size = size_bytes(value)
        if self._held_bytes + size > self._limit_bytes:
            return False
        self._held_bytes += size
        self._forget()
        return True

    def add(self, content: JsonObject) -> None:
        """Add a content."""
        if (fitting := self._fit(content)) is not None:
            self._insert(len(self._contents), fitting)

    def _fit(self, content: JsonObject) -> JsonObject | None:
        """Return what can be kept of a content; ``None`` if it is too large without its data."""
        limit_bytes = self._limit_bytes // 4
        if size_bytes(content) <= limit_bytes:
            return content
        self.is_partial = True
        parts = [
            drop_data(part) for part in some_of(content.get("parts")) if isinstance(part, dict)
        ]
        content = content | {"parts": parts}
        return content if size_bytes(content) <= limit_bytes else None

    def hear(self, words: str, *, is_late: bool = False) -> None:
        """Add words to the transcript of what the user is saying.

        Late ones are about the open turn, so that they stand before its answer.
        """
        if self._spoken is None:
            at = len(self._contents)
            if is_late:
                at = max(0, self._mark - self._dropped)
                self._mark = self._dropped + at + 1
            self._spoken = self._insert(at, _write_spoken(""))
        spoken = self._spoken
        [part] = spoken.value["parts"]
        if len(part["text"]) + len(words) > _MAX_TRANSCRIPT_CHARS:
            self.is_partial = True
            return
        spoken.value = _write_spoken(part["text"] + words)
        spoken.size_bytes += len(words)
        self._size_bytes += len(words)
        self._forget()

    def pause(self) -> None:
        """Note that the user has said all; further words are another content."""
        self._spoken = None

    def begin(self) -> list[JsonObject]:
        """Begin a turn, and list the contents that it is about."""
        self._mark = self._dropped + len(self._contents)
        return self.list()

    def list(self) -> list[JsonObject]:
        """List the contents that the open turn is about."""
        return [kept.value for kept in self._contents[: max(0, self._mark - self._dropped)]]

    def end(self, content: JsonObject | None) -> None:
        """End a turn, and put its answer behind the contents that it had."""
        self.pause()
        fitting = None if content is None else self._fit(content)
        if fitting is not None:
            self._insert(max(0, self._mark - self._dropped), fitting)

    def _insert(self, at: int, content: JsonObject) -> _Kept:
        kept = _Kept(content, size_bytes(content) + _CONTENT_BYTES)
        self._contents.insert(at, kept)
        self._size_bytes += kept.size_bytes
        self._forget()
        return kept

    def _forget(self) -> None:
        while self._contents and self._size_bytes + self._held_bytes > self._limit_bytes:
            kept = self._contents.pop(0)
            self._size_bytes -= kept.size_bytes
            kept.size_bytes = 0
            self._dropped += 1
            self.is_partial = True
            if kept is self._spoken:
                self._spoken = None


def _write_spoken(words: str) -> JsonObject:
    """Write what the user spoke, as a new value: a call may have the one before."""
    return {"role": "user", "parts": [{"text": words, "transcript": True}]}
