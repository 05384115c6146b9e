"""Notices a peer that reads nothing of what is written to it.

Rules:

1. What counts is what the peer's system acknowledges: bytes that wait here or in the kernel's
   send queue. So a peer that reads, however slowly, is never given up, as far as TCP tells: it
   tells of new room in steps, not byte by byte (RFC 9293 section 3.8.6.2.2), of a few KiB over a
   network, of up to 128 KiB seen on Linux's loopback.
2. Nothing is watched while nothing waits here: what the kernel holds costs us nothing.
3. One timer at most, which looks a few times in the limit; a stall lasts the limit or up to a
   quarter more before it is told. A writer waits while the buffer is full, so that what waits
   then only becomes less.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.sockets import count_buffered, count_unacknowledged

if TYPE_CHECKING:
    from collections.abc import Callable

LOOKS_IN_LIMIT = 4
"""Looks in the time after which a peer is given up."""


class StallWatch:
    """Watches over one connection's writing.

    Args:
        limit_seconds: how long a peer may take nothing; 0 means for ever.
        on_stall: called once when it has read nothing for that time.
    """

    __slots__ = ("_limit_seconds", "_on_stall", "_since", "_timer", "_waiting")

    def __init__(self, limit_seconds: float, on_stall: Callable[[], None]) -> None:
        self._limit_seconds = limit_seconds
        self._on_stall = on_stall
        self._since = 0.0
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, transport: asyncio.Transport) -> None:
        """Watch until nothing waits in the transport's buffer; does nothing if that is done."""
        if self._limit_seconds and self._timer is None:
            self._note(count_unacknowledged(transport))
            self._look_later(transport)

    def stop(self) -> None:
        """Stop watching: the connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _note(self, waiting: int) -> None:
        self._waiting = waiting
        self._since = asyncio.get_running_loop().time()

    def _look_later(self, transport: asyncio.Transport) -> None:
        delay = self._limit_seconds / LOOKS_IN_LIMIT
        self._timer = asyncio.get_running_loop().call_later(delay, self._look, transport)

    def _look(self, transport: asyncio.Transport) -> None:
        self._timer = None
        if not count_buffered(transport):
            return
        waiting = count_unacknowledged(transport)
        if waiting != self._waiting:
            self._note(waiting)
        elif asyncio.get_running_loop().time() - self._since >= self._limit_seconds:
            self._on_stall()
            return
        self._look_later(transport)
