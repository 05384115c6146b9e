"""Two connections that are joined: what comes on one is written to the other.

If one side is slow, the other is not read. The end of one direction is passed on while the other
continues, and a reset stays a reset. TLS cannot end one direction alone: its connection ends whole.
"""

from __future__ import annotations

import asyncio

from proxy.sockets import half_close, reset


class Splice:
    """Joins two connections; what it notes is for its subclasses.

    Args:
        near: the client's connection.
        far: the upstream's.
    """

    def __init__(self, near: asyncio.Transport, far: asyncio.Transport) -> None:
        self.near = SplicedEnd(near, far, self)
        self.far = SplicedEnd(far, near, self)
        self._open = 2

    def begin(self, from_near: bytes = b"", from_far: bytes = b"") -> None:
        """Take both connections over; begin with what has come on each of them already."""
        ends = (self.near, self.far)
        gone = [end for end in ends if end.transport.get_protocol() is None]
        for end in ends:
            if end not in gone:
                end.transport.set_protocol(end)
        near, far = ends
        for end, other, early in ((near, far, from_near), (far, near, from_far)):
            if early:
                end.data_received(early)
            if end in gone:
                end.connection_lost(None)
            elif not other.is_full:  # what came early may have filled it
                end.transport.resume_reading()

    def note(self, end: SplicedEnd, data: bytes) -> None:
        """Note bytes that came on one end, before they are passed on."""

    def note_full(self, end: SplicedEnd) -> None:
        """Note that too many bytes wait for one end."""

    def note_last(self, end: SplicedEnd) -> None:
        """Note that nothing more comes on one end, so the other one gets nothing more."""

    def note_gone(self) -> None:
        """Note that both connections are gone."""

    def lose(self, end: SplicedEnd, exc: Exception | None) -> None:
        """Note that a connection is gone."""
        del end, exc
        self._open -= 1
        if not self._open:
            self.note_gone()

    def close_if_ended(self) -> None:
        """Close both connections if both directions have ended."""
        ends = (self.near, self.far)
        if all(end.has_ended for end in ends):
            for end in ends:
                end.transport.close()


class SplicedEnd(asyncio.Protocol):
    """A connection of a splice, and what passes from it to the other.

    Attributes:
        has_ended: nothing more comes on it.
        is_full: too many bytes wait for it.
        passes_on: what comes is written to the other one; otherwise it is dropped.
    """

    __slots__ = ("_other", "_splice", "has_ended", "is_full", "passes_on", "transport")

    def __init__(
        self, transport: asyncio.Transport, other: asyncio.Transport, splice: Splice
    ) -> None:
        self.transport = transport
        self.has_ended = self.is_full = False
        self.passes_on = True
        self._other = other
        self._splice = splice

    def data_received(self, data: bytes) -> None:
        """Pass bytes on."""
        if self.passes_on:
            self._splice.note(self, data)
            self._other.write(data)

    def pause_writing(self) -> None:
        """Do not read the other side, because this one reads too slowly."""
        self.is_full = True
        self._other.pause_reading()
        self._splice.note_full(self)

    def resume_writing(self) -> None:
        """Read the other side again."""
        self.is_full = False
        self._other.resume_reading()

    def eof_received(self) -> bool:
        """Pass the end on; true keeps this connection open for the other direction."""
        self.has_ended = True
        end_writing(self._other)
        self._splice.note_last(self)
        self._splice.close_if_ended()
        return self.transport.can_write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the other connection in the same way."""
        if exc is None:
            self._other.close()
        else:
            reset(self._other)
        self._splice.lose(self, exc)
        self._splice.note_last(self)


def end_writing(transport: asyncio.Transport) -> None:
    """End what we write, after the bytes that wait; over TLS that ends the connection."""
    if transport.can_write_eof():
        half_close(transport)
    else:
        transport.close()
