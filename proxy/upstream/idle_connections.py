"""Connections to one origin that wait for their next request.

Rules:

1. A connection is kept :data:`KEEP_IDLE_SECONDS` at most.
2. It is looked at before it is used: what an upstream has ended, or sent something on, is dropped.
3. The one that was used last is used next, so that the others have their time and end.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.sockets import has_unread

if TYPE_CHECKING:
    from proxy.upstream.connection import UpstreamConnection

KEEP_IDLE_SECONDS = 4.0
"""Shorter than the 5 s after which common servers (Node, uvicorn) drop idle connections."""


class IdleConnections:
    """Idle connections to one origin, as many as there were requests at once in that time."""

    __slots__ = ("_loop", "_waiting")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        # With what ends them; the one that was used last is the last.
        self._waiting: dict[UpstreamConnection, asyncio.TimerHandle] = {}

    def pop(self) -> UpstreamConnection | None:
        """Remove and return one that is fit to be written to, if there is one."""
        while self._waiting:
            connection, timer = self._waiting.popitem()
            timer.cancel()
            # A loop that was busy for long has not ended what is too old.
            if timer.when() >= self._loop.time() and not has_unread(connection.transport):
                return connection
            connection.abort()
        return None

    def put(self, connection: UpstreamConnection) -> None:
        """Keep one whose exchange is over."""
        timer = self._loop.call_later(KEEP_IDLE_SECONDS, self._expire, connection)
        self._waiting[connection] = timer

    def _expire(self, connection: UpstreamConnection) -> None:
        del self._waiting[connection]
        connection.transport.close()

    def close(self) -> None:
        """Forget all, and their timers."""
        while self._waiting:
            self._waiting.popitem()[1].cancel()
