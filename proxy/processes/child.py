"""Starts a child of the supervisor, listens to it, and restarts it if it ends unasked.

A child that has never been ready is not started again: it cannot follow the settings, and has
logged why. A child that has been ready is always restarted, because traffic needs it, the first
time without a wait. When a child ends, the numbers that it counted are kept, except those of its
last second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from enum import StrEnum
from typing import TYPE_CHECKING

from proxy.processes.control import FAILED_TO_START
from proxy.processes.intercept_orders import InterceptNews
from proxy.processes.messages import (
    Counters,
    Finished,
    MessageReader,
    Ready,
    encode_message,
)
from proxy.processes.open_calls import OpenCalls
from proxy.processes.store_orders import Undone
from telemetry.metrics.snapshot import merge, without_gauges
from telemetry.store.rows import CompactStep, DeleteStep

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.processes.intercept_orders import InterceptOrder
    from proxy.processes.messages import Cut, Drain, Finish, Linger, Message, Serve, Start
    from proxy.processes.open_calls import AskOpen
    from proxy.processes.store_orders import StoreAnswer, StoreOrder
    from telemetry.metrics.snapshot import Snapshot

_log = logging.getLogger("spantap.supervisor")

STEADY_SECONDS = 1.0
"""If a child lived this long after it was ready, it did not end because of its start."""

FIRST_WAIT_SECONDS = 0.25
"""The wait before the second restart in a row; each further wait is twice as long."""

MAX_WAIT_SECONDS = 15.0
"""The longest wait, because what made the child end may have been repaired."""

LOUD_AFTER = 3
"""After this many restarts in a row the log calls it a crash loop."""

TELEMETRY_NICENESS = 5
"""Added to our own niceness, which workers have. When both want a processor, telemetry gets a third
of a worker's share: observing must not slow relaying (R2), least of all while it starts."""

HANG_SECONDS = 5.0
"""How long a child may live after it has closed its channel."""

SILENT_SECONDS = 10.0
"""A child sends its numbers each second. If none come for this long, it has stopped working."""

_LOOK_SECONDS = 1.0
"""How often it is checked whether a child has sent something."""

MAX_UNSENT_BYTES = 1024 * 1024
"""If this many bytes wait for a child that does not read, we send it no more numbers."""

_READ_BYTES = 64 * 1024


class Role(StrEnum):
    """The task of a child; also the name of its module in this package."""

    WORKER = "worker"
    TELEMETRY = "telemetry"


_CONSEQUENCES = {
    Role.WORKER: "its calls stand still",
    Role.TELEMETRY: "calls are relayed, and wait to be recorded",
}


class Child:
    """A place for one process after another; each gets `start` as its first message.

    Attributes:
        ready: set while the present process does its work.
        finished: the last message of a process that ended when asked; sets ``has_finished``.
        restarts: how often a process was started again.
        notes: lines for the operator, from the first process that was ready.
        on_answer: called with each answer to a question.
        on_intercept: called with all news of interceptions.
    """

    def __init__(self, role: Role, start: Start, inherited: Sequence[socket.socket]) -> None:
        self.role = role
        self.name = f"{role} {start.number}" if start.number else str(role)
        self.ready = asyncio.Event()
        self.finished: Finished | None = None
        self.has_finished = asyncio.Event()
        self.restarts = 0
        self.notes: tuple[tuple[int, str], ...] = ()
        self.on_answer: Callable[[OpenCalls], None] = lambda _: None
        self.on_intercept: Callable[[InterceptNews], None] = lambda _: None
        self._start = start
        self._inherited = inherited
        # The numbers of ended processes, and of the present one: one value, for other threads.
        self._counted: tuple[Snapshot | None, Snapshot | None] = (None, None)
        self._has_been_ready = False
        self._failures = 0
        self._orders: list[tuple[Message, socket.socket | None]] = []
        self._hand: socket.socket | None = None  # to the present worker, for sockets
        self._heard = 0  # how many messages
        self._ending = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._asking = asyncio.Lock()
        self._answer: asyncio.Future[StoreAnswer | None] | None = None
        self.status: int | None = None

    @property
    def lost(self) -> int | None:
        """The number of spans or exchanges lost at its end; ``None`` if it could not say."""
        return self.finished.lost if self.finished is not None else None

    @property
    def pid(self) -> int | None:
        """The id of the present process."""
        return self._process.pid if self._process is not None else None

    def numbers(self) -> list[Snapshot]:
        """Get the numbers of all its processes; any thread may call this."""
        return [snapshot for snapshot in self._counted if snapshot is not None]

    def past_numbers(self) -> list[Snapshot]:
        """Get the numbers of its processes that have ended."""
        past, _ = self._counted
        return [past] if past is not None else []

    def order(
        self,
        message: Serve | Linger | Drain | Cut | Finish | InterceptOrder,
        sock: socket.socket | None = None,
    ) -> None:
        """Send an order to the present process, and to each later one; a worker's with a socket."""
        self._orders.append((message, sock))
        self._give(message, sock)

    def replace_order(self, message: InterceptOrder, later: InterceptOrder | None = None) -> None:
        """Send later processes another order, or none, in place of one that was given."""
        kept: list[tuple[Message, socket.socket | None]] = []
        for given, sock in self._orders:
            if given != message:
                kept.append((given, sock))
            elif later is not None:
                kept.append((later, sock))
        self._orders = kept

    async def carry_out(self, order: StoreOrder) -> StoreAnswer | None:
        """Let the present process do something, and wait for its answer.

        It gets one order at a time. The answer is ``None`` if no process is ready, or if it ends
        before it has answered.
        """
        async with self._asking:
            if self._writer is None or not self.ready.is_set():
                return None
            self._answer = asyncio.get_running_loop().create_future()
            self._write(order)
            try:
                return await self._answer
            finally:
                self._answer = None

    def send_numbers(self, snapshot: Snapshot) -> None:
        """Send numbers to the present process, unless too many earlier bytes still wait."""
        if self._writer and self._writer.transport.get_write_buffer_size() < MAX_UNSENT_BYTES:
            self._write(Counters(snapshot=snapshot))

    def ask(self, question: AskOpen) -> bool:
        """Ask the present process, unless too many bytes wait for it; return whether it was asked.

        ``on_answer`` gets the answer.
        """
        writer = self._writer
        if not (writer and writer.transport.get_write_buffer_size() < MAX_UNSENT_BYTES):
            return False
        self._write(question)
        return True

    def _give(self, message: Message, sock: socket.socket | None) -> None:
        if sock is not None and self._hand is not None:
            with contextlib.suppress(OSError):  # it is gone, and the next process gets the order
                socket.send_fds(self._hand, [b"\0"], [sock.fileno()])
        self._write(message)

    def _write(self, message: Message) -> None:
        if self._writer is not None:
            self._writer.write(encode_message(message))

    def expect_end(self) -> None:
        """Expect the process to end from now on, because it was asked to."""
        self._ending.set()

    def kill(self) -> None:
        """End the process with SIGKILL."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def run(self) -> None:
        """Start the process, again and again, until its end is expected or it cannot start."""
        loop = asyncio.get_running_loop()
        while not self._ending.is_set():
            try:
                since = await self._live()
            except OSError as error:
                _log.error("the %s process cannot be started: %s", self.name, error)
                since = None
            if self._ending.is_set():
                return
            if not self._has_been_ready:
                if self.status != FAILED_TO_START:
                    _log.error("the %s process %s", self.name, describe_status(self.status))
                return
            steady = since is not None and loop.time() - since >= STEADY_SECONDS
            self._failures = 1 if steady else self._failures + 1
            self.restarts += 1
            wait_seconds = self._wait_seconds()
            self._log_end(wait_seconds)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_seconds):
                    await self._ending.wait()

    async def _live(self) -> float | None:
        """Run one process to its end; return when it was ready, on the loop's clock."""
        ours, hand = await self._spawn()
        reader, self._writer = await asyncio.open_unix_connection(sock=ours)
        self._hand = hand  # not sooner: a socket belongs to the order that follows it
        self._write(self._start)
        for message, sock in self._orders:
            self._give(message, sock)
        watching = asyncio.ensure_future(self._log_silence())
        since = await self._hear(reader)
        watching.cancel()
        self._writer.transport.abort()
        self._writer = None
        if self._hand is not None:
            self._hand.close()
            self._hand = None
        self.ready.clear()
        self._settle(None)
        self.status = await self._wait_for_exit()
        if numbers := self.numbers():
            self._counted = (without_gauges(merge(numbers)), None)
        return since

    async def _spawn(self) -> tuple[socket.socket, socket.socket | None]:
        """Start a process; return our end of its channel, and of a worker's for sockets.

        Raises:
            OSError: no process can be made.
        """
        ours, theirs = socket.socketpair()
        hand = None
        with theirs, contextlib.ExitStack() as stack:
            inherited = [theirs, *self._inherited]
            if self.role is Role.WORKER:
                hand, their_hand = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
                inherited.append(stack.enter_context(their_hand))
            descriptors = [sock.fileno() for sock in inherited]
            try:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-P",  # a folder `proxy` in the working directory must not be imported
                    "-m",
                    f"proxy.processes.{self.role}",
                    *map(str, descriptors),
                    pass_fds=descriptors,
                    stdin=asyncio.subprocess.DEVNULL,
                    start_new_session=True,  # a terminal's Ctrl-C is only for the supervisor
                )
            except BaseException:
                ours.close()
                if hand is not None:
                    hand.close()
                raise
        if self.role is Role.TELEMETRY:
            niceness = os.getpriority(os.PRIO_PROCESS, 0) + TELEMETRY_NICENESS
            with contextlib.suppress(OSError):  # it is gone already
                os.setpriority(os.PRIO_PROCESS, self._process.pid, niceness)
        return ours, hand

    async def _hear(self, reader: asyncio.StreamReader) -> float | None:
        """Read messages until the channel ends; return when the child was ready."""
        since = None
        messages = MessageReader()
        try:
            while data := await reader.read(_READ_BYTES):
                for message in messages.feed(data):
                    if isinstance(message, Ready):
                        since = asyncio.get_running_loop().time()
                    self._note(message)
        except ValueError as error:  # msgspec's errors are such too
            _log.error("the %s process sent something that is not a message: %s", self.name, error)
            self.kill()
        except OSError:
            pass  # it is gone
        return since

    async def _log_silence(self) -> None:
        """Log when the child goes silent, and when it responds again.

        It is not ended: it may have work that takes long, and the next process would have the same
        work.
        """
        heard, silent_seconds = 0, 0.0
        while not self._ending.is_set():
            # Not the clock's time: if we stood still ourselves, the child need not be silent.
            await asyncio.sleep(_LOOK_SECONDS)
            was_silent = silent_seconds >= SILENT_SECONDS
            if self._heard != heard or not self.ready.is_set():
                heard, silent_seconds = self._heard, 0.0
                if was_silent:
                    _log.warning("the %s process %s responds again", self.name, self.pid)
                continue
            silent_seconds += _LOOK_SECONDS
            if silent_seconds >= SILENT_SECONDS and not was_silent:
                _log.error(
                    "the %s process %s has said nothing for %g s: %s. If that continues, end it by "
                    "`kill -9 %s`: it is started again",
                    self.name,
                    self.pid,
                    silent_seconds,
                    _CONSEQUENCES[self.role],
                    self.pid,
                )

    def _note(self, message: Message) -> None:
        self._heard += 1
        if isinstance(message, Ready):
            self.notes = self.notes or message.notes
            self._has_been_ready = True
            self.ready.set()
        elif isinstance(message, Counters):
            self._counted = (self._counted[0], message.snapshot)
        elif isinstance(message, Finished):
            self.finished = message
            self.has_finished.set()
        elif isinstance(message, OpenCalls):
            self.on_answer(message)
        elif isinstance(message, InterceptNews):
            self.on_intercept(message)
        elif isinstance(message, DeleteStep | CompactStep | Undone):
            self._settle(message)

    def _settle(self, answer: StoreAnswer | None) -> None:
        """Give the answer to the question that waits for it."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    async def _wait_for_exit(self) -> int:
        process = self._process
        if process is None:
            raise AssertionError("it was started")
        try:
            async with asyncio.timeout(HANG_SECONDS):
                return await process.wait()
        except TimeoutError:
            self.kill()
            return await process.wait()

    def _wait_seconds(self) -> float:
        if self._failures <= 1:
            return 0.0
        return min(FIRST_WAIT_SECONDS * 2.0 ** min(self._failures - 2, 16), MAX_WAIT_SECONDS)

    def _log_end(self, wait_seconds: float) -> None:
        how = describe_status(self.status)
        when = f"in {wait_seconds:g} s" if wait_seconds else "now"
        if self._failures >= LOUD_AFTER:
            _log.error(
                "crash loop: the %s process %s %s, %d times in a row; it is started again %s. "
                "See its lines above this one, and `spantap check`",
                self.name,
                self.pid,
                how,
                self._failures,
                when,
            )
        else:
            _log.error(
                "the %s process %s %s; it is started again %s", self.name, self.pid, how, when
            )


def describe_status(status: int | None) -> str:
    """Say in words how a process ended."""
    if status is None or status >= 0:
        return f"ended with status {status}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-status).name}"
    return f"was ended by signal {-status}"
