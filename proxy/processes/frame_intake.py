"""Telemetry's end of the sockets from workers: frames in, acknowledgements out.

One thread reads all workers and the spool, feeds the service and tells it to commit; exporting is
on others.

Rules:

1. An exchange is acknowledged once it is settled (:mod:`telemetry.observing.source`), never before.
2. What a worker has open when it dies ends as ``worker_lost``, once all that it had sent or spooled
   is read. A living worker that lost its connection, or was disconnected for malformed bytes, comes
   back and sends all again: what it had sent before is then forgotten, without a span.
3. What waits is committed at most :data:`COMMIT_SECONDS` after it came (R8).
4. Nothing that a worker sends, and no failure of the store, ends the thread (R2).
5. Workers come first: the spool is read while none of them has sent anything, and the store has
   room. A little that lies there is read behind each of their turns, and spans of both are made in
   the order in which calls ended: a worker whose socket was full for a moment turned a call or two
   aside, and what goes on from these may end next.
6. After a start what ended before it, or meanwhile, is recorded in its order, whichever worker or
   spool has it: until all workers that live have come back and :data:`SETTLE_SECONDS` have passed,
   but :data:`MAX_SETTLE_SECONDS` at most (:mod:`telemetry.observing.arrivals`).
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import time
from typing import TYPE_CHECKING

from codec._version import __version__
from proxy.processes.errands import Errands
from proxy.processes.frame_workers import FrameConnection, FrameWorker
from proxy.processes.scratch import life_path, list_living
from telemetry.frames.records import (
    MalformedRecordError,
    decode_hello,
    decode_record,
    encode_acks,
)
from telemetry.held_file import is_held
from telemetry.observing.spool_reader import SpoolReader
from telemetry.rate_limit import RateLimit

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from telemetry.frames.records import Hello
    from telemetry.observing.open_call import OpenCall
    from telemetry.observing.source import FrameSource
    from telemetry.service import TelemetryService

__all__ = ("FrameIntake",)

_log = logging.getLogger("spantap.telemetry")

COMMIT_SECONDS = 0.1
"""The time between two commits while exchanges end: many spans share one."""

IDLE_SECONDS = 1.0
"""The time between two looks at the store's limits and at the spool while nothing ends."""

LOOK_SECONDS = 0.01
"""The time between two looks at the spool while workers send: the next call of an agent takes
longer, and a look 0.05 ms."""

MAX_TURNS = 4
"""Turns of the workers before a look at the spool; who has more to send is busy."""

LITTLE_BYTES = 1 << 20
"""What is little in the spool (rule 5), compressed. Where there is more telemetry is behind, and
workers are not to wait for it."""

SPOOL_SECONDS = 2.0
"""How long the end reads the spool; the rest waits for the next start."""

SETTLE_SECONDS = 0.2
"""How long workers may take to send again what they held; some take longer, and are not waited
for."""

MAX_SETTLE_SECONDS = 1.0
"""How long a start waits for workers that do not come: what a kill of all takes with it, too."""

_SETTLE_STEP_SECONDS = 0.02

_READ_BYTES = 256 * 1024
"""The most that is read of one worker before the next one's turn."""


class FrameIntake:
    """Reader of all workers, and of what is in the folder of the spool, whichever wrote it.

    It closes `listener`, where workers connect, at its end. :meth:`finish` may be called on any
    thread.
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
        self._finishing = self._reads_spool = False
        self._errands = Errands()
        self._next_commit = self._next_look = 0.0
        self._awaited: set[str] = set()  # workers, by token
        self._is_settling = False
        self._settles_at = self._settles_until = 0.0
        self._is_drained = True  # nothing was left in a socket by the last step
        self._defects = RateLimit(time.monotonic_ns)

    def finish(self) -> None:
        """Read what has been sent, and return from :meth:`run` once no worker is connected."""
        self._finishing = True
        self.ask(lambda: None)

    def ask(self, work: Callable[[], None]) -> None:
        """Ask for work to be done where frames are fed (:mod:`.errands`); any thread may."""
        self._errands.ask(work)

    def sources(self) -> list[FrameSource]:
        """Return the sources of all workers; any thread may ask."""
        # One step of the interpreter makes the tuple: the dictionary may change meanwhile.
        return [worker.source for worker in tuple(self._workers.values())]

    def tell_open(self) -> list[OpenCall]:
        """Tell of the calls that workers have open, oldest first; any thread may ask."""
        return self._service.tell_open(self.sources())

    def run(self) -> None:
        """Read, feed, commit, acknowledge; until :meth:`finish`."""
        self._listener.setblocking(False)  # noqa: FBT003 - its only parameter
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._errands, selectors.EVENT_READ, self._errands.run)
        self._begin_settling()
        self._commit()
        while not (self._finishing and not self._connections and not self._accept()):
            self._step()
        self._service.arrivals.release()
        self._finish_spool()
        for worker in tuple(self._workers.values()):
            self._lose(worker)
        self._commit()
        for each in (self._listener, self._errands, self._selector):
            each.close()

    def _step(self) -> None:
        """Read what has come, or of the spool, and commit when it is time."""
        self._is_drained = True
        ready = self._selector.select(self._wait_seconds())
        if ready:
            self._service.arrivals.hold()
        for key, _ in ready:
            key.data()
        if self._is_settling:
            self._settle(time.monotonic())
        else:
            self._follow(ready=bool(ready))
        if time.monotonic() >= self._next_commit:
            self._commit()

    def _wait_seconds(self) -> float:
        """Say how long to wait for something to come."""
        if self._reads_spool:
            return 0.0
        if self._is_settling:
            return 0.0 if time.monotonic() >= self._settles_at else _SETTLE_STEP_SECONDS
        is_waited_for = len(self._connections) < len(self._workers) or not self._spool.is_empty
        if not (self._service.waiting or is_waited_for or self._is_watched()):
            return IDLE_SECONDS
        return max(0.0, self._next_commit - time.monotonic())

    def _is_watched(self) -> bool:
        """Tell whether somebody watches calls grow, of which each commit looks for news."""
        return self._service.reporter is not None and any(map(len, self.sources()))

    def _follow(self, *, ready: bool) -> None:
        """Read of the spool, and let what was held be recorded (rule 5)."""
        if ready:
            if time.monotonic() >= self._next_look:
                self._read_little()
            self._service.arrivals.release()
        else:
            self._reads_spool = self._service.has_room and self._read_spool()

    def _read_little(self) -> None:
        """Feed what little there is in the spool, once all that was sent is read (rule 5).

        What changed over to the spool may have begun to be sent before.
        """
        self._next_look = time.monotonic() + LOOK_SECONDS
        for _ in range(MAX_TURNS):
            ready = self._selector.select(0)
            if not ready:
                break
            for key, _ in ready:
                key.data()
        else:
            return  # workers are busy, and come first
        self._spool.look()
        if 0 < self._spool.unread_bytes <= LITTLE_BYTES:
            # A worker may write more as quickly as it is read, and commits must not wait (rule 3).
            while time.monotonic() < self._next_commit and self._service.has_room:
                if not self._read_spool():
                    break

    def _begin_settling(self) -> None:
        """Hold what comes back, if something may (rule 6)."""
        self._awaited.update(list_living(self._frames_path))
        self._spool.look()
        if self._awaited or not self._spool.is_empty:
            now = time.monotonic()
            wait_seconds = MAX_SETTLE_SECONDS if self._awaited else SETTLE_SECONDS
            self._settles_at, self._settles_until = now + wait_seconds, now + MAX_SETTLE_SECONDS
            self._is_settling = True
            self._service.arrivals.hold()

    def _settle(self, now: float) -> None:
        """Read the spool, once workers have sent all; record what was held, once it is read.

        Workers come first here, too: what changed over to the spool is forgotten there (rule 2).
        """
        is_read = False
        if now >= self._settles_at and self._is_drained:
            is_read = not (self._service.has_room and self._read_spool())
        if is_read or now >= self._settles_until:
            self._is_settling = False
            self._service.arrivals.release()

    def _read_spool(self) -> bool:
        """Feed a slice of the spool; returns whether there was one."""
        try:
            return self._spool.read()
        except Exception as error:  # noqa: BLE001 - rule 4
            self._tell("frames in the spool are lost: %s", type(error).__name__)
            return False

    def _finish_spool(self) -> None:
        """Read the spool for a while; the rest is for the next start."""
        until = time.monotonic() + SPOOL_SECONDS
        self._commit()
        while time.monotonic() < until and self._service.has_room and self._read_spool():
            if time.monotonic() >= self._next_commit:
                self._commit()
        self._commit()
        if unread_bytes := self._spool.unread_bytes:
            _log.warning(
                "%d MiB of calls are still to be observed; they stay in the spool",
                -(-unread_bytes >> 20),
            )

    def _accept(self) -> bool:
        """Accept a worker that connects; returns whether there was one."""
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
        if connection not in self._connections:  # its worker has come back meanwhile
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
            self._tell("a worker is disconnected, and will send again: %s", error)
            self._disconnect(connection)
        except Exception as error:  # noqa: BLE001 - rule 4
            self._tell("frames of a worker are lost: %s", type(error).__name__)
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
        if hello.token in self._awaited:
            self._awaited.remove(hello.token)
            if not self._awaited:
                self._settles_at = time.monotonic() + SETTLE_SECONDS

    def _forget_spooled(self, token: str, number: int) -> None:
        """Forget an exchange that comes from the spool, which has it from its beginning."""
        if (worker := self._workers.get(token)) is not None:
            worker.source.forget(number)

    def _tell(self, what: str, why: object) -> None:
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
        """Lose a worker without a connection that has ended; one that lives comes back."""
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
            # At our own end. What it had open is there, for it ends before us.
            worker.source.forget_all()
            return
        pid = worker.hello.pid
        if lost := worker.source.lose(time.time_ns(), f"the worker process {pid} ended"):
            _log.error("the worker process %d ended with %d exchanges open", pid, lost)

    def _commit(self) -> None:
        self._service.commit()
        self._next_commit = time.monotonic() + COMMIT_SECONDS
        for connection in tuple(self._connections):
            self._acknowledge(connection)
        self._spool.look()
        for worker in tuple(self._workers.values()):
            if worker.connection is None:
                self._look_after(worker)

    def _acknowledge(self, connection: FrameConnection) -> None:
        """Send what is settled; what the socket does not accept waits for the next time."""
        if (worker := connection.worker) is not None:
            connection.unsent_acks += encode_acks(worker.source.pop_settled())
        if connection.unsent_acks:
            with contextlib.suppress(OSError):  # full, or broken: reading will tell which
                sent = connection.sock.send(connection.unsent_acks)
                connection.unsent_acks = connection.unsent_acks[sent:]
