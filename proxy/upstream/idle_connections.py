"""Connections to one origin whose exchange is over, kept for the next one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.sockets import has_unread

if TYPE_CHECKING:
    from proxy.upstream.connection import UpstreamConnection

KEEP_IDLE_SECONDS = 4.0
"""How long a connection is kept: common servers (Node, uvicorn) drop idle ones after 5 s."""


class IdleConnections:
    """Idle connections to one origin: as many as there were requests at a time in the last seconds.

    Each waits for :data:`KEEP_IDLE_SECONDS` at most. The one that was used last is used next, so
    that the others use up their time and end.
    """

    __slots__ = ("_loop", "_waiting")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        # Each with the timer that ends it; the one that was used last comes last.
        self._waiting: dict[UpstreamConnection, asyncio.TimerHandle] = {}

    def pop(self) -> UpstreamConnection | None:
        """Remove and return a connection that can be written to, if there is one.

        A connection that the upstream has ended, or has sent something on, is dropped.
        """
        while self._waiting:
            connection, timer = self._waiting.popitem()
            timer.cancel()
            # After a long turn of the loop, connections that are too old may not have ended yet.
            if timer.when() >= self._loop.time() and not has_unread(connection.transport):
                return connection
            connection.abort()
        return None

    def put(self, connection: UpstreamConnection) -> None:
        """Keep a connection whose exchange is over."""
        timer = self._loop.call_later(KEEP_IDLE_SECONDS, self._expire, connection)
        self._waiting[connection] = timer

    def _expire(self, connection: UpstreamConnection) -> None:
        del self._waiting[connection]
        connection.transport.close()

    def close(self) -> None:
        """Forget all connections, and cancel their timers."""
        while self._waiting:
            self._waiting.popitem()[1].cancel()
