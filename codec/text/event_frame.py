"""Events of one line that differ in one place only, recognised by the bytes around it.

What stands in that place is cut from an event only if every other byte is the frame's; callers
decide what may stand there. The work is linear in the bytes, and one comparison checks a run of
events.
"""

from __future__ import annotations

from io import BytesIO
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ("EventFrame",)

_LF = b"\n"


class EventFrame:
    r"""The bytes before and behind the place; neither is empty. Immutable.

    >>> frame = EventFrame(b"data: <", b">\n\n")
    >>> frame.cut_run([b"data: <a>\n\n", b"data: <b>\n\n", b"data: c\n\n"])
    [b'a', b'b']
    >>> frame.cut_read(b"data: <a>\n\ndata: <b>\n\ndata: <c")
    [b'a', b'b']
    """

    __slots__ = ("_before", "_behind", "_blank", "_cut", "_cut_row", "_row_behind", "_seam")

    def __init__(self, before: bytes, behind: bytes) -> None:
        self._before = before
        self._behind = behind
        self._seam = behind + before  # what is between two places
        line_end = behind.find(_LF) + 1
        # The blank line behind an event; none if the event is not one line.
        self._blank = behind[line_end:] if line_end and self._seam.count(_LF) == 2 else b""
        self._row_behind = behind[:line_end]
        self._cut: Callable[[bytes], bytes] = itemgetter(slice(len(before), -len(behind)))
        self._cut_row: Callable[[bytes], bytes] = itemgetter(slice(len(before), -line_end or None))

    def size_bytes(self, pieces: Sequence[bytes]) -> int:
        """Return the size of the events from which these pieces were cut."""
        return len(pieces) * len(self._seam) + sum(map(len, pieces))

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

    def cut_read(self, data: bytes) -> list[bytes]:
        """Cut from the events at the beginning of a read the bytes in their places.

        It stops at the first event that does not fit, or is not whole.
        """
        if not (self._blank and data.startswith(self._before)):
            return []
        rows = BytesIO(data).readlines()[::2]  # nothing finds lines as quickly
        while rows and self._before + self._cut_row(rows[-1]) + self._row_behind != rows[-1]:
            rows.pop()
        pieces = [*map(self._cut_row, rows)]
        if pieces and not data.startswith(self._join(pieces)):
            pieces = [*_until_none(map(self.cut, self._find_events(rows, data)))]
        return pieces

    def _join(self, pieces: Sequence[bytes]) -> bytes:
        return self._before + self._seam.join(pieces) + self._behind

    def _find_events(self, rows: Sequence[bytes], data: bytes) -> Iterator[bytes]:
        """Yield the events at the beginning of `data` that are one line and a blank line."""
        at = 0
        for row in rows:
            event = row + self._blank
            if not data.startswith(event, at):
                return
            at += len(event)
            yield event


def _until_none(pieces: Iterator[bytes | None]) -> Iterator[bytes]:
    for piece in pieces:
        if piece is None:
            return
        yield piece
