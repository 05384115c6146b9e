"""One child of the supervisor: started, heard, and started again when it ends unasked.

Rules:

1. A child that has never been ready is not started again: it cannot follow the settings, and has
   said why. One that has been is started again without end: traffic needs it.
2. The first restart comes at once; a child that keeps ending is waited for longer each time, up to
   :data:`MAX_WAIT_SECONDS`, and that is said loudly.
3. What a child counted is not lost with it, but for its last second.
4. One that was ready and goes silent is told of, and not ended: it may have work that takes long,
   which its successor would have, too.
5. A process is asked one thing at a time, and each question has an answer, or that there is none.
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

    from proxy.processes.messages import Cut, Drain, Finish, Linger, Message, Serve, Start
    from proxy.processes.open_calls import AskOpen
    from proxy.processes.store_orders import StoreAnswer, StoreOrder
    from telemetry.metrics.snapshot import Snapshot

_log = logging.getLogger("spantap.supervisor")

STEADY_SECONDS = 1.0
"""A child that lived this long, once ready, has not ended because of how it was started."""

FIRST_WAIT_SECONDS = 0.25
"""Before the second restart in a row; each further one waits twice as long."""

MAX_WAIT_SECONDS = 15.0
"""The longest wait: whatever made a child end may have been mended by then."""

LOUD_AFTER = 3
"""Restarts in a row after which it is called a crash loop."""

TELEMETRY_NICENESS = 5
"""Added to ours, which workers have: a third of their share of a processor that both want.
Observing must not slow relaying (R2), least of all while it starts."""

HANG_SECONDS = 5.0
"""How long a child may live that has closed its channel."""

SILENT_SECONDS = 10.0
"""A child tells its numbers each second; this long without them, it does nothing else either."""

_LOOK_SECONDS = 1.0
"""The time between two looks at whether a child said something."""

MAX_UNSENT_BYTES = 1024 * 1024
"""How much may wait for a child that does not read before it is sent no more numbers."""

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
    """A place for one process after the other, each of which is told `start` first.

    Attributes:
        ready: the present one does its work.
        finished: the last word of one that ended as it was asked to; ``has_finished`` tells.
        restarts: how often a process was started again.
        notes: lines for the operator, of the first process that was ready.
        on_answer: called with each answer to a question.
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
        self._start = start
        self._inherited = inherited
        # Of those that ended, and of the present one; one value, for other threads read it.
        self._counted: tuple[Snapshot | None, Snapshot | None] = (None, None)
        self._has_been_ready = False
        self._failures = 0
        self._orders: list[Message] = []
        self._heard = 0  # messages
        self._ending = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._asking = asyncio.Lock()
        self._answer: asyncio.Future[StoreAnswer | None] | None = None
        self.status: int | None = None

    @property
    def lost(self) -> int | None:
        """The number of spans or exchanges lost at its end; ``None`` where it could not say."""
        return self.finished.lost if self.finished is not None else None

    @property
    def pid(self) -> int | None:
        """The id of the present process."""
        return self._process.pid if self._process is not None else None

    def numbers(self) -> list[Snapshot]:
        """Get the numbers of all its processes; any thread may ask."""
        return [snapshot for snapshot in self._counted if snapshot is not None]

    def past_numbers(self) -> list[Snapshot]:
        """Get the numbers of its processes that have ended."""
        past, _ = self._counted
        return [past] if past is not None else []

    def order(self, message: Serve | Linger | Drain | Cut | Finish) -> None:
        """Send an order to the present process, and to each that comes after it."""
        self._orders.append(message)
        self._write(message)

    async def carry_out(self, order: StoreOrder) -> StoreAnswer | None:
        """Have the present process do something, and wait for its answer (rule 5).

        ``None`` where there is no process that does its work, or it ends before it has answered.
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

    def tell_numbers(self, snapshot: Snapshot) -> None:
        """Send numbers to the present process, unless earlier ones wait still."""
        if self._writer and self._writer.transport.get_write_buffer_size() < MAX_UNSENT_BYTES:
            self._write(Counters(snapshot=snapshot))

    def ask(self, question: AskOpen) -> bool:
        """Ask the present process, unless numbers wait for it still; returns whether it is asked.

        What it answers is given to ``on_answer``.
        """
        writer = self._writer
        if not (writer and writer.transport.get_write_buffer_size() < MAX_UNSENT_BYTES):
            return False
        self._write(question)
        return True

    def _write(self, message: Message) -> None:
        if self._writer is not None:
            self._writer.write(encode_message(message))

    def expect_end(self) -> None:
        """Expect an end of the process from now on: it was asked for."""
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
            self._tell_end(wait_seconds)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_seconds):
                    await self._ending.wait()

    async def _live(self) -> float | None:
        """Run one process to its end; returns when it was ready, on the loop's clock."""
        ours = await self._spawn()
        reader, self._writer = await asyncio.open_unix_connection(sock=ours)
        for message in (self._start, *self._orders):
            self._write(message)
        watching = asyncio.ensure_future(self._tell_silence())
        since = await self._hear(reader)
        watching.cancel()
        self._writer.transport.abort()
        self._writer = None
        self.ready.clear()
        self._settle(None)
        self.status = await self._wait_for_exit()
        if numbers := self.numbers():
            self._counted = (without_gauges(merge(numbers)), None)
        return since

    async def _spawn(self) -> socket.socket:
        """Start a process; returns our end of its channel.

        Raises:
            OSError: no process can be made.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            descriptors = [theirs.fileno(), *(sock.fileno() for sock in self._inherited)]
            try:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-P",  # a folder `proxy` where we are started must not be taken for ours
                    "-m",
                    f"proxy.processes.{self.role}",
                    *map(str, descriptors),
                    pass_fds=descriptors,
                    stdin=asyncio.subprocess.DEVNULL,
                    start_new_session=True,  # a terminal's Ctrl-C is for the supervisor alone
                )
            except BaseException:
                ours.close()
                raise
        if self.role is Role.TELEMETRY:
            niceness = os.getpriority(os.PRIO_PROCESS, 0) + TELEMETRY_NICENESS
            with contextlib.suppress(OSError):  # it is gone already
                os.setpriority(os.PRIO_PROCESS, self._process.pid, niceness)
        return ours

    async def _hear(self, reader: asyncio.StreamReader) -> float | None:
        """Read messages until the channel ends; returns when the child was ready."""
        since = None
        messages = MessageReader()
        try:
            while data := await reader.read(_READ_BYTES):
                for message in messages.feed(data):
                    if isinstance(message, Ready):
                        since = asyncio.get_running_loop().time()
                    self._note(message)
        except ValueError as error:  # of msgspec, too
            _log.error("the %s process sent something that is not a message: %s", self.name, error)
            self.kill()
        except OSError:
            pass  # it is gone
        return since

    async def _tell_silence(self) -> None:
        """Log that the child has gone silent, and that it is heard again (rule 4)."""
        heard, silent_seconds = 0, 0.0
        while not self._ending.is_set():
            # Not the clock's time: where we stood still, too, it need not have been silent.
            await asyncio.sleep(_LOOK_SECONDS)
            was_silent = silent_seconds >= SILENT_SECONDS
            if self._heard != heard or not self.ready.is_set():
                heard, silent_seconds = self._heard, 0.0
                if was_silent:
                    _log.warning("the %s process %s is heard again", self.name, self.pid)
                continue
            silent_seconds += _LOOK_SECONDS
            if silent_seconds >= SILENT_SECONDS and not was_silent:
                _log.error(
                    "the %s process %s has said nothing for %g s: %s. If that goes on, end it by "
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
        elif isinstance(message, DeleteStep | CompactStep | Undone):
            self._settle(message)

    def _settle(self, answer: StoreAnswer | None) -> None:
        """Answer what was asked, if anything was."""
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

    def _tell_end(self, wait_seconds: float) -> None:
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
