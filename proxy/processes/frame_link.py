"""A worker's end of the socket to telemetry: frames out, acknowledgements in.

Rules:

1. :meth:`FrameLink.emit` encodes, appends and returns (R2). What is to be sent is gathered for
   :data:`GATHER_SECONDS`, so that a thousand streams cost a few writes.
2. A telemetry process that is away, slow or stuck delays nobody: frames wait in the outbox, within
   its limits. After a reconnect all that is not acknowledged is sent again (R8).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

from telemetry.frame_outbox import FrameOutbox
from telemetry.frame_records import AckReader, Hello, encode_hello
from telemetry.metrics.instruments import SPANS_DROPPED, TAP_QUEUE, TAP_SHED, DropReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from telemetry.frames import Frame
    from telemetry.metrics.registry import Reading

__all__ = ("FrameLink",)

GATHER_SECONDS = 0.01
"""How long frames are gathered: no part of any delay that a client sees, little of R8's 250 ms."""

RECONNECT_SECONDS = 0.1
"""Between two tries to connect. The listening end is always there; this is for its backlog."""

_WRITE_BYTES = 256 * 1024
"""Pieces are joined up to here: about what the socket takes at once."""

_READ_BYTES = 64 * 1024


class FrameLink:
    """Where a worker's taps emit into. For one event loop.

    Args:
        path: of the Unix socket.
        hello: who we are.
        outbox: what is kept.
    """

    def __init__(self, path: str, hello: Hello, outbox: FrameOutbox | None = None) -> None:
        self._path = path
        self._hello = encode_hello(hello)
        self.outbox = outbox or FrameOutbox()
        self._to_send = asyncio.Event()
        self._gathering = False
        self._all_settled = asyncio.Event()

    def emit(self, frame: Frame) -> None:
        """Take one frame (rule 1)."""
        self.outbox.emit(frame)
        if not self._gathering:
            self._gathering = True
            asyncio.get_running_loop().call_later(GATHER_SECONDS, self._to_send.set)

    async def run(self) -> None:
        """Keep a connection and send over it; ends when it is cancelled."""
        while True:
            with contextlib.suppress(OSError):
                await self._connect_and_send()
            await asyncio.sleep(RECONNECT_SECONDS)

    async def finish(self, timeout_seconds: float) -> int:
        """Wait until everything is acknowledged; how many exchanges are not after the time-out.

        What was sent is not lost with us: telemetry reads the socket to its end.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while len(self.outbox):
                    self._all_settled.clear()
                    await self._all_settled.wait()
        return len(self.outbox)

    def read_metrics(self) -> Iterator[Reading]:
        """What waits, and what was left out."""
        shedding = self.outbox.shedding
        yield SPANS_DROPPED, (DropReason.TAP_SHED,), shedding.shed_exchanges
        yield TAP_QUEUE, (), self.outbox.held_bytes
        yield TAP_SHED, (), shedding.shed_bytes

    async def _connect_and_send(self) -> None:
        """One connection, until it ends.

        Raises:
            OSError: there is none, or it broke.
        """
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.setblocking(False)  # noqa: FBT003 - its only parameter
            await loop.sock_connect(sock, self._path)
            await loop.sock_sendall(sock, self._hello)
            self.outbox.rewind()
            self._to_send.set()
            sending = asyncio.ensure_future(self._send(sock))
            try:
                await self._receive(sock)
            finally:
                sending.cancel()
                with contextlib.suppress(asyncio.CancelledError, OSError):
                    await sending

    async def _send(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._to_send.wait()
            self._to_send.clear()
            self._gathering = False
            while pieces := self.outbox.take(_WRITE_BYTES):
                data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
                await loop.sock_sendall(sock, data)

    async def _receive(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        acks = AckReader()
        while data := await loop.sock_recv(sock, _READ_BYTES):
            for number in acks.feed(data):
                self.outbox.acknowledge(number)
            if not len(self.outbox):
                self._all_settled.set()
