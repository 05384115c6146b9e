"""A tunnel: bytes both ways, of which only the number is known."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.splice import Splice

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.interception.tally import TunnelCount
    from proxy.splice import SplicedEnd

IDLE_SECONDS = 3600.0
"""How long a tunnel may carry nothing. A program that still needs one sends something more often,
because many networks forget a connection sooner."""


class Tunnel(Splice):
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
        count: TunnelCount,
        on_end: Callable[[], None],
    ) -> None:
        super().__init__(near, far)
        self._loop = asyncio.get_running_loop()
        self._count = count
        self._on_end = on_end
        self._last_at = self._loop.time()
        self._timer = self._loop.call_later(IDLE_SECONDS, self._look)

    def note(self, end: SplicedEnd, data: bytes) -> None:
        """Note bytes that are carried."""
        del end
        self._count.total_bytes += len(data)
        self._last_at = self._loop.time()

    def note_gone(self) -> None:
        """Note that both connections are gone."""
        self._timer.cancel()
        self._on_end()

    def _look(self) -> None:
        """End the tunnel if it was idle for too long, else look again later."""
        left = self._last_at + IDLE_SECONDS - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
            return
        for end in (self.near, self.far):
            end.transport.abort()
