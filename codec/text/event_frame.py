"""Recognises events that differ in only one place, by the bytes around it.

The bytes in that place are cut from an event only if every other byte equals the frame's; callers
decide which bytes may be there. The work is linear in the bytes, and one comparison checks a run of
events.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ("EventFrame",)


class EventFrame:
    r"""The bytes before and behind the place; neither is empty. Immutable.

    >>> frame = EventFrame(b"data: <", b">\n\n")
    >>> frame.cut_run([b"data: <a>\n\n", b"data: <b>\n\n", b"data: c\n\n"])
    [b'a', b'b']
    """

    __slots__ = ("_before", "_behind", "_cut", "_seam")

    def __init__(self, before: bytes, behind: bytes) -> None:
        self._before = before
        self._behind = behind
        self._seam = behind + before  # what is between two places
        self._cut: Callable[[bytes], bytes] = itemgetter(slice(len(before), -len(behind)))

    def cut(self, event: bytes) -> bytes | None:
        """Cut from an event the bytes in its place; ``None`` if the event does not fit."""
        piece = event.removeprefix(self._before).removesuffix(self._behind)
        return piece if len(event) - len(piece) == len(self._seam) else None

    def cut_run(self, events: Sequence[bytes]) -> list[bytes]:
        """Cut from events the bytes in their places, up to the first that does not fit."""
        last = len(events)
        while last and self.cut(events[last - 1]) is None:  # most others are at a stream's end
            last -= 1
        run = events[:last]
        pieces = [*map(self._cut, run)]
        # Joined again they must equal the events: this proves the bytes between the places.
        if pieces and self._join(pieces) != b"".join(run):
            pieces = [*_until_none(map(self.cut, run))]
        return pieces

    def _join(self, pieces: Sequence[bytes]) -> bytes:
        return self._before + self._seam.join(pieces) + self._behind


def _until_none(pieces: Iterator[bytes | None]) -> Iterator[bytes]:
    for piece in pieces:
        if piece is None:
            return
        yield piece
