"""Notices a peer that reads nothing of what is written to it.

A peer reads if the number of bytes that wait here and in the kernel's send queue changes. It is
never given up while it reads, however slowly, as far as TCP reports that: TCP reports new room in
steps (RFC 9293 section 3.8.6.2.2) of a few KiB over a network, and of up to 128 KiB on Linux's
loopback.

Nothing is watched while nothing waits here, because bytes in the kernel cost us nothing. There is
one timer at most, which looks a few times within the limit: so a stall is reported after the limit
or up to a quarter later. A writer waits while the buffer is full, so the number only falls then.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.sockets import count_buffered, count_unacknowledged

if TYPE_CHECKING:
    from collections.abc import Callable

LOOKS_IN_LIMIT = 4
"""How often we look within the limit."""


class StallWatch:
    """Watches the writing of one connection.

    Args:
        limit_seconds: how long a peer may read nothing; 0 means no limit.
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
        """Watch until nothing waits in the transport's buffer; a second call changes nothing."""
        if self._limit_seconds and self._timer is None:
            self._note(count_unacknowledged(transport))
            self._look_later(transport)

    def stop(self) -> None:
        """Stop watching, because the connection is gone."""
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
