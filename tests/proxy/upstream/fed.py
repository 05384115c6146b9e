"""A connection to an upstream that is fed by hand, without a socket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.upstream.connection import UpstreamConnection
from proxy.upstream.idle_connections import IdleConnections

if TYPE_CHECKING:
    from proxy.upstream.response import UpstreamResponse

__all__ = ("HEAD", "FedConnection", "chunk")

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(body: bytes) -> bytes:
    """A chunk that has this in it."""
    return b"%x\r\n%b\r\n" % (len(body), body)


class FedConnection(asyncio.Transport):
    """Keeps what comes while reading is paused, as the kernel does.

    Attributes:
        connection: waits for an answer.
        waiting: reads that have not been taken yet.
    """

    def __init__(self, *, head_only: bool = False, max_header_bytes: int = 1024) -> None:
        super().__init__()
        self.connection = UpstreamConnection(
            IdleConnections().put, set(), max_header_bytes=max_header_bytes, stall_seconds=0
        )
        self.waiting: list[bytes] = []
        self._is_paused = False
        self._is_closed = False
        self.connection.connection_made(self)
        self._head = self.connection.begin(head_only=head_only)

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False

    def is_closing(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        self._is_closed = True

    abort = close

    def deliver(self, *reads: bytes) -> None:
        """Give the connection what it takes of these, and of what waited before."""
        self.waiting += reads
        while self.waiting and not (self._is_paused or self._is_closed):
            self.connection.data_received(self.waiting.pop(0))

    async def answer(self) -> UpstreamResponse:
        """The answer whose head has come."""
        async with asyncio.timeout(5):
            return await self._head
