"""A worker's end of the socket to telemetry: it sends frames and reads acknowledgements.

Rules:

1. Adding a frame appends and returns (R2). Frames are gathered for :data:`GATHER_SECONDS`, so that
   a thousand streams cost a few writes. But the end of an exchange is sent at once, because a
   worker may be killed once its client has the answer.
2. A telemetry process that is away, slow or stuck delays nobody: frames wait in the outbox, within
   its limits. After a reconnect everything that is not acknowledged is sent again (R8). New
   exchanges go to the spool in three cases: the end of an exchange has to wait; something has
   waited for :data:`DIVERT_SECONDS`; telemetry could acknowledge something, but has not for
   :data:`STUCK_SECONDS`.
3. A large body is sent without copying, in parts of :data:`_TURN_BYTES`, with a turn of the loop
   after each: while telemetry reads as fast as we write, one send would never pause.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from typing import TYPE_CHECKING

from proxy.processes.turns import Turns
from telemetry.frames.outbox import FrameOutbox
from telemetry.frames.records import AckReader, Hello, encode_hello
from telemetry.metrics.instruments import SPANS_DROPPED, TAP_QUEUE, TAP_SHED, DropReason
from telemetry.rate_limit import RateLimit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from telemetry.metrics.registry import Reading

_log = logging.getLogger("spantap.worker")

GATHER_SECONDS = 0.01
"""How long frames are gathered. No client notices this delay. The end of a call is sent at once."""

DIVERT_SECONDS = 0.1
"""How long frames may wait for the socket. Telemetry's commit takes less. If the worker is killed,
the frames that wait are lost."""

STUCK_SECONDS = 1.0
"""How long telemetry may acknowledge nothing. It commits some thirty times a second. If both
processes are killed, what is in the socket is lost."""

RECONNECT_SECONDS = 0.1
"""The time between two tries to connect. The listening end is always there, but its backlog may be
full."""

SPOOL_SECONDS = 1.0
"""How long the end waits for telemetry to store the rest, before the rest is written to the spool
for the next start. If telemetry keeps up, it needs a tenth of that."""

_WRITE_BYTES = 64 * 1024
"""Pieces are joined up to this size: some hundred frames, half a millisecond of the loop."""

_TURN_BYTES = 128 * 1024
"""How much is sent before others have their turn: some 0.1 ms. Larger pieces are not joined."""

_READ_BYTES = 64 * 1024


class FrameChannel:
    """Sends what a worker's taps emit to telemetry, for one event loop."""

    def __init__(self, path: str, hello: Hello, outbox: FrameOutbox | None = None) -> None:
        self._path = path
        self._hello = encode_hello(hello)
        self.outbox = FrameOutbox() if outbox is None else outbox
        self.outbox.to_telemetry.when_unsent = self._gather
        self.outbox.when_ended = self._send_now
        self.open_exchange = self.outbox.open_exchange
        self._reach_lines, self._shed_lines, self._defect_lines = (
            RateLimit(time.monotonic_ns) for _ in range(3)
        )
        self._logged_shed = (0, 0)
        self._to_send = asyncio.Event()
        self._gathering = False
        # Whether a check of telemetry is planned, and whether all was sent once since the last.
        self._waits = self._has_been_empty = False
        self._awaited = -1  # the exchange whose acknowledgement is awaited
        self._awaited_since_seconds = 0.0
        # Whether something was acknowledged since then, and whether nothing was for too long.
        self._is_answered = self._is_stuck = False
        self._turns = Turns()
        self._sock: socket.socket | None = None  # set while nobody is sending over it
        self._is_connected = False
        self._left: list[bytes] = []  # read from the outbox, and sent before anything else
        self._moved = asyncio.Event()  # something was sent, acknowledged, or written
        self.outbox.when_written = self._moved.set

    def _gather(self) -> None:
        """Send soon, so that more frames can be gathered until then."""
        if not self._gathering:
            self._gathering = True
            loop = asyncio.get_running_loop()
            loop.call_later(GATHER_SECONDS, self._to_send.set)
            if not self._waits:
                self._waits, self._has_been_empty = True, False
                loop.call_later(DIVERT_SECONDS, self._divert)

    def _divert(self) -> None:
        """Turn new exchanges to the spool while telemetry is behind or stuck (rule 2)."""
        loop = asyncio.get_running_loop()
        self._look_for_answers(loop.time())
        is_behind = self._sock is None or bool(self._left) or self.outbox.has_unsent
        if self._is_stuck or (is_behind and not self._has_been_empty):
            self.outbox.divert()
        elif not is_behind:
            self.outbox.spools = False
        self._has_been_empty = False
        self._waits = is_behind or self._awaited >= 0
        if self._waits:
            loop.call_later(DIVERT_SECONDS, self._divert)

    def _look_for_answers(self, now_seconds: float) -> None:
        """Find out whether telemetry is stuck, even if the socket accepts what is sent."""
        outbox = self.outbox
        if self._is_answered or not outbox.keeps(self._awaited):
            self._awaited = outbox.last_ended if outbox.keeps(outbox.last_ended) else -1
            self._awaited_since_seconds = now_seconds
            self._is_answered = False
        waited_seconds = now_seconds - self._awaited_since_seconds
        self._is_stuck = self._awaited >= 0 and waited_seconds >= STUCK_SECONDS

    def _send_now(self) -> None:
        """Send what the socket accepts at once; the rest is sent soon."""
        sock = self._sock
        if sock is not None and not self._left:
            self._left = self.outbox.read(_WRITE_BYTES)
            if len(self._left) == 1 and len(data := self._left[0]) <= _TURN_BYTES:
                with contextlib.suppress(OSError):  # full or broken: sending the rest will show
                    sent = sock.send(data)
                    self._left = [data[sent:]] if sent < len(data) else []
                    self._moved.set()
                if self._left:
                    self.outbox.divert()  # full: if we are killed, what waits here is lost
            if not self._left:
                self.outbox.note_sent()
                self._note_empty()
        if self._left or self.outbox.has_unsent:
            self._to_send.set()

    def _note_empty(self) -> None:
        """Note that telemetry keeps up, if nothing is unsent."""
        if not self.outbox.has_unsent:
            self._has_been_empty = True
            if not self._is_stuck:
                self.outbox.spools = False

    async def run(self) -> None:
        """Keep a connection and send over it, until cancelled."""
        while True:
            try:
                await self._connect_and_send()
            except OSError as error:
                if self._reach_lines.admit() is not None:
                    _log.warning(
                        "workers cannot reach telemetry (%s); calls are relayed, and wait to be "
                        "recorded",
                        error.strerror or type(error).__name__,
                    )
            except Exception:  # noqa: BLE001 - recording must not end with one defect
                if self._defect_lines.admit() is not None:
                    _log.exception("frames could not be sent, and are sent again")
            await asyncio.sleep(RECONNECT_SECONDS)

    async def finish(self, patience_seconds: float, max_seconds: float) -> int:
        """Wait until every exchange is acknowledged, or in the spool.

        Args:
            patience_seconds: how long there may be no progress.
            max_seconds: how long it may take even with progress.

        Returns:
            How many exchanges are in neither state, and may be lost.
        """
        outbox = self.outbox
        if len(outbox) and outbox.can_spool:
            await self._wait_until_empty(SPOOL_SECONDS, SPOOL_SECONDS)
            self._divert_rest()
        if await self._wait_until_empty(patience_seconds, max_seconds) and outbox.can_spool:
            outbox.note_sent()  # no more will be sent of what was read
            self._divert_rest()
            await self._wait_until_empty(SPOOL_SECONDS, SPOOL_SECONDS)
        return len(outbox)

    def _divert_rest(self) -> None:
        """Turn to the spool what was not sent, or everything if there is no connection."""
        if self._is_connected:
            self.outbox.divert_unsent()
        else:
            self.outbox.divert_all()

    async def _wait_until_empty(self, patience_seconds: float, max_seconds: float) -> int:
        """Wait as :meth:`finish` does; return how many exchanges are left."""
        loop = asyncio.get_running_loop()
        until = loop.time() + max_seconds
        while len(self.outbox) and (left_seconds := until - loop.time()) > 0:
            self._moved.clear()
            try:
                async with asyncio.timeout(min(patience_seconds, left_seconds)):
                    await self._moved.wait()
            except TimeoutError:
                break
        return len(self.outbox)

    def log_shedding(self) -> None:
        """Log if something was left out since the last such line."""
        shedding = self.outbox.shedding
        shed = shedding.shed_bytes, shedding.shed_exchanges
        if shed != self._logged_shed and self._shed_lines.admit() is not None:
            _log.error(
                "telemetry does not keep up: %d bytes of content and %d whole calls are in no "
                "span so far (max_waiting_bytes)",
                *shed,
            )
            self._logged_shed = shed

    def read_metrics(self) -> Iterator[Reading]:
        """Read how much waits, and how much was left out."""
        shedding = self.outbox.shedding
        yield SPANS_DROPPED, (DropReason.TAP_SHED,), shedding.shed_exchanges
        yield TAP_QUEUE, (), self.outbox.held_bytes
        yield TAP_SHED, (), shedding.shed_bytes

    async def _connect_and_send(self) -> None:
        """Send over one connection, until it ends.

        Raises:
            OSError: the connection cannot be made, or it broke.
        """
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.setblocking(False)  # noqa: FBT003 - its only parameter
            await loop.sock_connect(sock, self._path)
            await loop.sock_sendall(sock, self._hello)
            self._is_connected = True
            self.outbox.rewind()
            self._gather()
            self._to_send.set()
            steps = [asyncio.ensure_future(step(sock)) for step in (self._send, self._receive)]
            try:
                await asyncio.wait(steps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._sock = None
                self._is_connected = False
                for step in steps:
                    step.cancel()
                ends = await asyncio.gather(*steps, return_exceptions=True)
            for end in ends:
                if isinstance(end, Exception):
                    raise end

    async def _send(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._left = []
        while True:
            await self._to_send.wait()
            self._to_send.clear()
            self._gathering = False
            self._sock = None
            while pieces := self._left or self.outbox.read(_WRITE_BYTES):
                self._left = []
                for data in pieces if len(pieces) == 1 else _join_small(pieces):
                    if len(data) > _TURN_BYTES:
                        await self._send_large(sock, data)
                    else:
                        await loop.sock_sendall(sock, data)
                self.outbox.note_sent()
                self._moved.set()
                if self.outbox.has_unsent:
                    # Sends that do not wait would keep the loop busy, and others waiting.
                    await self._turns.pass_on()
            self._note_empty()
            self._sock = sock

    async def _send_large(self, sock: socket.socket, data: bytes) -> None:
        """Send a body in parts (rule 3)."""
        loop = asyncio.get_running_loop()
        view = memoryview(data)
        for start in range(0, len(view), _TURN_BYTES):
            await loop.sock_sendall(sock, view[start : start + _TURN_BYTES])
            self._moved.set()
            await self._turns.pass_on()

    async def _receive(self, sock: socket.socket) -> None:
        """Read acknowledgements until the other side closes.

        Raises:
            OSError: the connection broke.
        """
        # `sock_recv` would register and unregister the socket for each read.
        loop = asyncio.get_running_loop()
        acks = AckReader()
        ended = loop.create_future()

        def read() -> None:
            if ended.done():
                return
            try:
                if data := sock.recv(_READ_BYTES):
                    for each in acks.feed(data):
                        self.outbox.acknowledge(each)
                    self._is_answered = True
                    self._moved.set()
                else:
                    ended.set_result(None)
            except BlockingIOError:
                return
            except Exception as error:  # noqa: BLE001 - it ends the connection, whatever it is
                ended.set_exception(error)

        loop.add_reader(sock, read)
        try:
            await ended
        finally:
            loop.remove_reader(sock)


def _join_small(pieces: list[bytes]) -> Iterator[bytes]:
    """Join small pieces; leave large ones as they are (rule 3)."""
    small: list[bytes] = []
    for piece in pieces:
        if len(piece) <= _TURN_BYTES:
            small.append(piece)
            continue
        if small:
            yield b"".join(small)
            small = []
        yield piece
    if small:
        yield b"".join(small)
