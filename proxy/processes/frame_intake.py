"""Telemetry's end of the sockets from workers: it reads frames and sends acknowledgements.

One thread reads all workers and the spool, feeds the service, and lets it commit; other threads
export.

Rules:

1. An exchange is acknowledged once it is settled (:mod:`telemetry.observing.source`), never before;
   so is what was read on a WebSocket, while that is open.
2. When a worker dies, its open exchanges end as ``worker_lost``, once everything that it had sent
   or spooled is read. A living worker that lost its connection, or was disconnected because of
   malformed bytes, connects again and sends everything again: what it had sent before is then
   forgotten, without a span.
3. The first call after a pause is committed at once. In traffic each call is committed within
   :data:`WAIT_SECONDS` (R8): many calls share a commit, which costs as much as five spans in it.
4. Nothing that a worker sends, and no failure of the store, ends the thread (R2).
5. Workers are read first, then the spool. Spans of both are made in the order in which calls ended
   (:mod:`proxy.processes.spool_turns`).
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import time
from typing import TYPE_CHECKING

from codec._version import __version__
from proxy.processes.frame_workers import FrameConnection, FrameWorker
from proxy.processes.scratch import life_path, list_living
from proxy.processes.selector_tasks import SelectorTasks
from proxy.processes.spool_turns import SpoolTurns
from telemetry.frames.records import (
    MalformedRecordError,
    decode_hello,
    decode_record,
    encode_acks,
)
from telemetry.observing.spool_reader import SpoolReader
from telemetry.own_files import is_held
from telemetry.rate_limit import RateLimit

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from telemetry.frames.records import Hello
    from telemetry.observing.open_call import OpenCall
    from telemetry.observing.source import FrameSource
    from telemetry.service import TelemetryService

_log = logging.getLogger("spantap.telemetry")

WAIT_SECONDS = 0.03
"""How long a call waits for others before it is committed. With the transport and the commit this
is less than the 50 ms of R8."""

PAUSE_SECONDS = 0.1
"""If the last commit was this long ago, a call does not wait for others."""

LOOK_SECONDS = 0.1
"""While exchanges end: how often limits of the store, runs, and the spool are checked. While the
store fails: how often a commit is tried."""

IDLE_SECONDS = 1.0
"""While nothing ends: how often limits of the store and the spool are checked."""

SPOOL_SECONDS = 2.0
"""How long the spool is read at the end; the rest waits for the next start."""

_READ_BYTES = 256 * 1024
"""The most that is read from one worker before the next one's turn."""


class FrameIntake:
    """Reads what all workers send, and everything in the spool's folder, from any worker.

    Workers connect to `listener`, which is closed at the end. Any thread may call :meth:`finish`.
    """

    def __init__(
        self,
        listener: socket.socket,
        service: TelemetryService,
        spool: Path,
    ) -> None:
        self._listener = listener
        self._frames_path = listener.getsockname()
        self._service = service
        self._spool = SpoolReader(spool, service.open_source, time.time_ns)
        self._spool.on_begin = self._forget_spooled
        self._workers: dict[str, FrameWorker] = {}  # by token
        self._selector = selectors.DefaultSelector()
        self._connections: set[FrameConnection] = set()
        self._finishing = False
        self._tasks = SelectorTasks()
        self._next_look = self._last_commit = 0.0
        self._commit_at: float | None = None  # while something waits for it
        self._has_news = False  # calls were committed since the last look
        self._is_drained = True  # the last step left nothing in a socket
        self._defects = RateLimit(time.monotonic_ns)
        self._turns = SpoolTurns(
            self._spool,
            service.ordering,
            has_room=lambda: service.has_room,
            read_spool=self._read_spool,
            read_workers=lambda: self._read_workers(0),
        )

    def finish(self) -> None:
        """Let :meth:`run` read what was sent, and return once no worker is connected."""
        self._finishing = True
        self.ask(lambda: None)

    def ask(self, task: Callable[[], None]) -> None:
        """Ask for a task on the thread that feeds frames; any thread may call this."""
        self._tasks.ask(task)

    def sources(self) -> list[FrameSource]:
        """Return the sources of all workers; any thread may call this."""
        # The tuple is made in one step of the interpreter, because the dictionary may change.
        return [worker.source for worker in tuple(self._workers.values())]

    def tell_open(self) -> list[OpenCall]:
        """List the calls that workers have open, oldest first; any thread may call this."""
        return self._service.tell_open(self.sources())

    def run(self) -> None:
        """Read, feed, commit and acknowledge, until :meth:`finish` is called."""
        self._listener.setblocking(False)  # noqa: FBT003 - its only parameter
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._tasks, selectors.EVENT_READ, self._tasks.run)
        self._turns.begin(list_living(self._frames_path))
        self._look()
        while not (self._finishing and not self._connections and not self._accept()):
            self._step()
        self._turns.end()
        self._finish_spool()
        for worker in tuple(self._workers.values()):
            self._lose(worker)
        self._look()
        for each in (self._listener, self._tasks, self._selector):
            each.close()

    def _step(self) -> None:
        """Read what has come, or from the spool, and commit when it is time."""
        self._is_drained = True
        is_ready = self._read_workers(self._wait_seconds())
        self._turns.take(is_ready=is_ready, is_drained=self._is_drained)
        self._commit_in_time()

    def _commit_in_time(self) -> None:
        """Commit what has waited long enough, and do the regular checks when it is time."""
        now = time.monotonic()
        if not self._commits_soon():
            self._commit_at = None
        elif self._commit_at is None:
            is_first = now >= self._last_commit + PAUSE_SECONDS
            self._commit_at = now if is_first else now + WAIT_SECONDS
        if self._commit_at is not None and now < self._commit_at:
            return
        if now >= self._next_look:
            self._look()
        elif self._commit_at is not None:
            self._service.commit_calls()
            self._last_commit, self._commit_at = time.monotonic(), None
            self._has_news = True
            self._acknowledge_all()

    def _commits_soon(self) -> bool:
        """Tell whether there is something to commit that the store takes."""
        return bool(self._service.waiting) and self._service.has_room

    def _read_workers(self, wait_seconds: float) -> bool:
        """Wait for frames, and feed them; calls that end with them are held."""
        ready = self._selector.select(wait_seconds)
        if ready:
            self._service.ordering.hold()
        for key, _ in ready:
            key.data()
        return bool(ready)

    def _wait_seconds(self) -> float:
        """Say how long to wait for frames."""
        if (wait_seconds := self._turns.wait_seconds()) is not None:
            return wait_seconds
        is_waited_for = len(self._connections) < len(self._workers) or not self._spool.is_empty
        if not (self._service.waiting or is_waited_for or self._is_watched()):
            return IDLE_SECONDS
        until = self._next_look if self._commit_at is None else self._commit_at
        return max(0.0, until - time.monotonic())

    def _is_watched(self) -> bool:
        """Tell whether somebody watches open or ended calls: each look sends them news."""
        if self._service.reporter is None:
            return False
        return self._has_news or any(map(len, self.sources()))

    def _read_spool(self) -> bool:
        """Feed a slice of the spool; return whether there was one."""
        try:
            return self._spool.read()
        except Exception as error:  # noqa: BLE001 - the thread must go on (rule 4)
            self._log_error("frames in the spool are lost: %s", type(error).__name__)
            return False

    def _finish_spool(self) -> None:
        """Read the spool for a while; the rest is for the next start."""
        until = time.monotonic() + SPOOL_SECONDS
        self._look()
        while time.monotonic() < until and self._service.has_room and self._read_spool():
            self._commit_in_time()
        self._look()
        if unread_bytes := self._spool.unread_bytes:
            _log.warning(
                "%d MiB of calls are still to be observed; they stay in the spool",
                -(-unread_bytes >> 20),
            )

    def _accept(self) -> bool:
        """Accept a worker that connects; return whether there was one."""
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return False
        sock.setblocking(False)  # noqa: FBT003 - its only parameter
        connection = FrameConnection(sock)
        self._connections.add(connection)
        self._selector.register(sock, selectors.EVENT_READ, lambda: self._read(connection))
        return True

    def _read(self, connection: FrameConnection) -> None:
        if connection not in self._connections:  # its worker has connected again meanwhile
            return
        try:
            data = connection.sock.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._disconnect(connection)
            return
        self._is_drained &= len(data) < _READ_BYTES
        try:
            self._feed(connection, data)
        except MalformedRecordError as error:
            self._log_error("a worker is disconnected, and will send again: %s", error)
            self._disconnect(connection)
        except Exception as error:  # noqa: BLE001 - the thread must go on (rule 4)
            self._log_error("frames of a worker are lost: %s", type(error).__name__)
        if connection.unsent_acks and connection in self._connections:
            self._acknowledge(connection)

    def _feed(self, connection: FrameConnection, data: bytes) -> None:
        """Feed what was read to the worker's source.

        Raises:
            MalformedRecordError: it holds no frames.
        """
        for record in connection.reader.feed(data):
            if (worker := connection.worker) is None:
                self._greet(connection, decode_hello(record))
            else:
                worker.source.feed(*decode_record(record))

    def _greet(self, connection: FrameConnection, hello: Hello) -> None:
        """Register a worker, or recognise it (rule 2).

        Raises:
            MalformedRecordError: another version was installed while spantap ran.
        """
        if hello.version != __version__:
            raise MalformedRecordError(
                f"the worker process {hello.pid} is spantap {hello.version}, this one is "
                f"{__version__}: another version was installed meanwhile; restart spantap"
            )
        source = self._service.open_source()
        worker = self._workers.get(hello.token)
        if worker is None:
            worker = self._workers[hello.token] = FrameWorker(hello, source, connection)
        else:
            former, worker.connection = worker.connection, connection
            if former is not None:
                former.worker = None
                self._disconnect(former)
            worker.source.forget_all()
            worker.source = source
        connection.worker = worker
        self._turns.greet(hello.token)

    def _forget_spooled(self, token: str, number: int) -> None:
        """Forget what a worker sent of an exchange: the spool has it from its beginning."""
        if (worker := self._workers.get(token)) is not None:
            worker.source.forget(number)

    def _log_error(self, what: str, why: object) -> None:
        if self._defects.admit() is not None:
            _log.error(what, why)

    def _disconnect(self, connection: FrameConnection) -> None:
        self._connections.remove(connection)
        self._selector.unregister(connection.sock)
        connection.sock.close()
        if (worker := connection.worker) is not None:
            worker.connection = None
            self._look_after(worker)

    def _look_after(self, worker: FrameWorker) -> None:
        """Lose a worker without a connection if its process has ended, else wait for it."""
        token = worker.hello.token
        if is_held(life_path(self._frames_path, token)):
            return
        self._spool.look()
        if not self._spool.has_unread(token):
            self._lose(worker)

    def _lose(self, worker: FrameWorker) -> None:
        """End what a worker had open (rule 2)."""
        del self._workers[worker.hello.token]
        with contextlib.suppress(OSError):
            life_path(self._frames_path, worker.hello.token).unlink(missing_ok=True)
        if self._spool.has_unread(worker.hello.token):
            # We are ending. Its open exchanges are in the spool, because workers end before us.
            worker.source.forget_all()
            return
        pid = worker.hello.pid
        if lost := worker.source.lose(time.time_ns(), f"the worker process {pid} ended"):
            _log.error("the worker process %d ended with %d exchanges open", pid, lost)

    def _look(self) -> None:
        """Commit, and check limits, runs, the spool and workers."""
        for source in self.sources():
            source.end_due(time.time_ns())
        has_calls = bool(self._service.waiting)
        self._service.commit()
        if has_calls:
            self._last_commit = time.monotonic()
        self._commit_at, self._has_news = None, False
        self._next_look = time.monotonic() + LOOK_SECONDS
        self._acknowledge_all()
        self._spool.look()
        for worker in tuple(self._workers.values()):
            if worker.connection is None:
                self._look_after(worker)

    def _acknowledge_all(self) -> None:
        for connection in tuple(self._connections):
            self._acknowledge(connection)

    def _acknowledge(self, connection: FrameConnection) -> None:
        """Send acknowledgements; what the socket does not accept is sent the next time."""
        if (worker := connection.worker) is not None and (acks := worker.source.pop_acks()):
            connection.unsent_acks += encode_acks(acks)
        if connection.unsent_acks:
            with contextlib.suppress(OSError):  # full or broken: the next read will show which
                sent = connection.sock.send(connection.unsent_acks)
                connection.unsent_acks = connection.unsent_acks[sent:]
