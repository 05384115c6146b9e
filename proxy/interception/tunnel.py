"""A blind tunnel: bytes both ways, of which only the number is known.

If one side is slow, the other is not read. The end of one direction is passed on while the other
continues, and a reset stays a reset.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.sockets import half_close, reset

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.interception.tally import BlindCount

IDLE_SECONDS = 3600.0
"""How long a tunnel may carry nothing. A program that still needs one sends something more often,
because many networks forget a connection sooner."""


class Tunnel:
    """Two connections that are joined.

    Args:
        near: the client's connection, whose reading is paused.
        far: the host's.
        count: what is carried is added to it.
        on_end: called when both are gone.
    """

    def __init__(
        self,
        near: asyncio.Transport,
        far: asyncio.Transport,
        count: BlindCount,
        on_end: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._count = count
        self._on_end = on_end
        self._last_at = self._loop.time()
        self._ends = _End(near, far, self), _End(far, near, self)
        self._open = len(self._ends)
        self._timer = self._loop.call_later(IDLE_SECONDS, self._look)

    def begin(self, early: bytes = b"") -> None:
        """Begin to carry, first what the client has sent already."""
        near, far = self._ends
        near.transport.set_protocol(near)
        far.transport.set_protocol(far)
        near.transport.resume_reading()
        if early:
            near.data_received(early)

    def note(self, size_bytes: int) -> None:
        """Note bytes that are carried."""
        self._count.total_bytes += size_bytes
        self._last_at = self._loop.time()

    def close_if_ended(self) -> None:
        """Close both connections if both directions have ended."""
        if all(end.has_ended for end in self._ends):
            for end in self._ends:
                end.transport.close()

    def note_lost(self) -> None:
        """Note that one of the connections is gone."""
        self._open -= 1
        if not self._open:
            self._timer.cancel()
            self._on_end()

    def _look(self) -> None:
        """End the tunnel if it was idle for too long, else look again later."""
        left = self._last_at + IDLE_SECONDS - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
            return
        for end in self._ends:
            end.transport.abort()


class _End(asyncio.Protocol):
    """A side of a tunnel: one of its two connections."""

    def __init__(
        self, transport: asyncio.Transport, other: asyncio.Transport, tunnel: Tunnel
    ) -> None:
        self.transport = transport
        self.has_ended = False
        self._other = other
        self._tunnel = tunnel

    def data_received(self, data: bytes) -> None:
        self._tunnel.note(len(data))
        self._other.write(data)

    def pause_writing(self) -> None:
        self._other.pause_reading()

    def resume_writing(self) -> None:
        self._other.resume_reading()

    def eof_received(self) -> bool:
        """Pass the end on; true keeps this connection open for the other direction."""
        self.has_ended = True
        half_close(self._other)
        self._tunnel.close_if_ended()
        return self.transport.can_write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None:
            self._other.close()
        else:
            reset(self._other)
        self._tunnel.note_lost()
