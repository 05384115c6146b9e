"""The bytes to one client: written, waited for, and watched.

Writing to a client that is gone raises a ``ConnectionError``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.sockets import count_buffered, reset
from proxy.stall_watch import StallWatch

if TYPE_CHECKING:
    from proxy.downstream.port_state import PortState


class ClientStream:
    """The bytes written to one client.

    Attributes:
        writing_paused: write nothing more now, because enough bytes wait for the client.
        stalled: we cut it because the client read nothing of its answer.
    """

    __slots__ = ("_drained", "_watch", "stalled", "state", "transport", "writing_paused")

    def __init__(self, transport: asyncio.Transport, state: PortState) -> None:
        self.transport = transport
        self.state = state
        self.writing_paused = False
        self.stalled = False
        self._drained: asyncio.Future[None] | None = None
        self._watch = StallWatch(state.limits.stall_seconds, self._cut_stalled)

    def write(self, data: bytes) -> None:
        """Write now, even if other bytes wait."""
        if self.transport.is_closing():
            raise ConnectionResetError("the client is gone")
        self.transport.write(data)

    async def send(self, data: bytes) -> None:
        """Write after the bytes that wait, and wait while the client is slow."""
        if self.writing_paused:
            await self._drain()
        self.write(data)
        if self.writing_paused:
            await self._drain()

    async def _drain(self) -> None:
        if self._drained is None or self._drained.done():
            self._drained = asyncio.get_running_loop().create_future()
        await self._drained

    def pause(self) -> None:
        """Stop writing while the client is slower than its answer; cut it if it reads nothing."""
        self.writing_paused = True
        self.watch()

    def resume(self) -> None:
        """Write again."""
        self.writing_paused = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def watch(self) -> None:
        """Watch the client while bytes wait, even after the end of an answer or a close."""
        if count_buffered(self.transport):
            self._watch.begin(self.transport)

    def _cut_stalled(self) -> None:
        self.stalled = True
        self.state.count_stalled()
        reset(self.transport)

    def lose(self) -> None:
        """End all waiting, because the connection is gone; the next write fails."""
        self._watch.stop()
        self.resume()
