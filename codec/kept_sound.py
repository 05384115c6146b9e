"""Sound of a session that is kept for its spans, if the operator asks for that.

It comes in the base64 of many messages, and is joined as it is: nothing is converted. Of a sound
that is too long one end is kept, and how much was left out is known (R5).
"""

from __future__ import annotations

from base64 import b64encode
from binascii import a2b_base64
from typing import TYPE_CHECKING, Final

from codec.text.base64_text import use_plain_alphabet

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("MAX_SOUND_BYTES", "KeptSound")

MAX_SOUND_BYTES: Final = 576 * 1024
"""The most of one sound: 12 seconds of 24,000 samples. A span has each sound twice, in a message
and in a body. So those of a request and of an answer fit in the usual limits of a span."""


class KeptSound:
    """A sound under way. Not safe for concurrent calls.

    Args:
        keeps_end: of a sound that is too long the end is kept, not the beginning. What a user says
            ends where it is sent off, and mostly begins with silence.
        limit_bytes: the most that is kept.
        reserve: reserves what a piece takes until the span is made, or returns false.
        missing_bytes: how much came before, and is lost.
    """

    __slots__ = ("_data", "_keeps_end", "_limit_bytes", "_reserve", "missing_bytes")

    def __init__(
        self,
        *,
        keeps_end: bool = False,
        limit_bytes: int = MAX_SOUND_BYTES,
        reserve: Callable[[int], bool] = lambda _: True,
        missing_bytes: int = 0,
    ) -> None:
        self._data = bytearray()
        self._keeps_end = keeps_end
        self._limit_bytes = limit_bytes
        self._reserve = reserve
        self.missing_bytes = missing_bytes

    def __len__(self) -> int:
        """How many bytes are kept."""
        return len(self._data)

    def add(self, base64: str) -> None:
        """Add a piece; one that is not base64 is left out."""
        try:
            data = a2b_base64(use_plain_alphabet(base64))
        except ValueError:
            return
        if not self._keeps_end:
            kept = data[: max(0, self._limit_bytes - len(self._data))]
            if self.missing_bytes or not self._reserve(3 * len(kept)):  # base64 and JSON as well
                kept = b""
            self._data += kept
            self.missing_bytes += len(data) - len(kept)
            return
        self._data += data
        if (over := len(self._data) - self._limit_bytes) > 0:
            over += over % 2  # a sample may have two bytes
            del self._data[:over]
            self.missing_bytes += over

    def forget(self) -> None:
        """Forget what is kept; it is missing then."""
        self.missing_bytes += len(self._data)
        self._data.clear()

    def pop(self) -> tuple[str, int]:
        """Return the sound in base64 and how many bytes it misses; another sound begins."""
        popped = b64encode(self._data).decode(), self.missing_bytes
        self._data.clear()
        self.missing_bytes = 0
        return popped
