"""Connections to one upstream that wait for their next request.

Rules:

1. A connection is kept :data:`KEEP_IDLE_SECONDS` at most.
2. It is looked at before it is used: what an upstream has ended, or sent something on, is dropped.
3. The one that was used last is used next, so that the others have their time and end.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.readable import has_unread

if TYPE_CHECKING:
    from proxy.upstream.connection import UpstreamConnection

__all__ = ("KEEP_IDLE_SECONDS", "IdleConnections")

KEEP_IDLE_SECONDS = 4.0
"""Shorter than the 5 s after which common servers (Node, uvicorn) drop idle connections."""


class IdleConnections:
    """Idle connections of one upstream, as many as there were requests at once in that time."""

    __slots__ = ("_loop", "_timer", "_waiting")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[UpstreamConnection, float]] = []  # longest first
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many there are."""
        return len(self._waiting)

    def take(self) -> UpstreamConnection | None:
        """One that is fit to be written to, if there is one."""
        while self._waiting:
            connection, since = self._waiting.pop()
            is_young = self._loop.time() - since <= KEEP_IDLE_SECONDS
            if is_young and not has_unread(connection.transport):
                return connection
            connection.abort()
        return None

    def put(self, connection: UpstreamConnection) -> None:
        """Keep one whose exchange is over."""
        self._waiting.append((connection, self._loop.time()))
        if self._timer is None:
            self._timer = self._loop.call_later(KEEP_IDLE_SECONDS, self._expire)

    def _expire(self) -> None:
        """End those whose time is over."""
        self._timer = None
        until = self._loop.time() - KEEP_IDLE_SECONDS
        expired = [connection for connection, since in self._waiting if since <= until]
        del self._waiting[: len(expired)]
        for connection in expired:
            connection.transport.close()
        if self._waiting:
            self._timer = self._loop.call_at(self._waiting[0][1] + KEEP_IDLE_SECONDS, self._expire)

    def close(self) -> None:
        """Keep none any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting.clear()
