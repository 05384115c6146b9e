r"""Streams of JSON lines (NDJSON): bytes to lines, one value in each.

A line ends at LF, and a CR before it is not part of the line. No other character ends a line: JSON
strings contain no raw line ends, and may contain any other character. White space around a line is
removed, and empty lines are left out. The lines are the same however the bytes are cut. They stay
bytes, so that a character cut in two by the network is whole again before it is decoded.

A line never holds more than its limit (R5). The work is linear in the bytes, even if they come one
by one.
"""

from __future__ import annotations

from typing import Final

from codec.errors import LimitExceeded
from codec.text.sse import ServerSentEvent

__all__ = ("LineDecoder",)

_END: Final = b"\n"
_WHITE: Final = b" \t\r"


class LineDecoder:
    r"""Turns pieces of a stream into lines. Not safe for concurrent calls.

    Args:
        limit_bytes: the limit of a line, including its end and white space.

    >>> decoder = LineDecoder(limit_bytes=100)
    >>> decoder.split(b'{"a": 1}\n{"b"')
    [b'{"a": 1}']
    >>> decoder.finish().data
    b'{"b"'
    """

    __slots__ = ("_exceeded", "_limit_bytes", "_pending")

    def __init__(self, *, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._pending = bytearray()  # the line under way
        self._exceeded = False

    def split(self, data: bytes) -> list[bytes]:
        """Split one read and return the lines that it completes.

        Raises:
            LimitExceeded: a line passes its limit. Lines that were complete before it are returned
                first, and the next call raises. The decoder is finished.
        """
        self._check_limit()
        *ended, rest = data.split(_END)
        if ended and self._pending:
            ended[0] = bytes(self._pending) + ended[0]
            self._pending.clear()
        lines = []
        for line in ended:
            if len(line) > self._limit_bytes:
                self._exceeded = True
                break
            if stripped := line.strip(_WHITE):
                lines.append(stripped)
        else:
            self._pending += rest
            self._exceeded = len(self._pending) > self._limit_bytes
        if not lines:
            self._check_limit()
        return lines

    @property
    def is_between_events(self) -> bool:
        """Whether the next byte begins a line."""
        return not (self._pending or self._exceeded)

    @property
    def pending_bytes(self) -> int:
        """The size of the line under way."""
        return len(self._pending)

    def finish(self) -> ServerSentEvent | None:
        """Return the line that was under way when the stream ended, if any; it may be whole.

        Raises:
            LimitExceeded: as :meth:`split`.
        """
        self._check_limit()
        raw = bytes(self._pending)
        self._pending.clear()
        line = raw.strip(_WHITE)
        return ServerSentEvent(data=line, raw=raw) if line else None

    def _check_limit(self) -> None:
        if self._exceeded:
            self._pending.clear()
            raise LimitExceeded("MAX_LINE_BYTES", self._limit_bytes)
