"""Telemetry's end of the sockets from workers: frames in, acknowledgements out.

One thread reads all workers, feeds the service and tells it to commit; exporting is on others.

Rules:

1. An exchange is acknowledged once it is settled (:mod:`telemetry.frame_source`), never before.
2. A worker that ends its connection with exchanges open has died: they end as ``worker_lost``. One
   that sent what is no frame is disconnected and forgotten, for it will send all of it again.
3. What waits is committed at most :data:`COMMIT_SECONDS` after it came (R8).
4. Nothing that a worker sends, and no failure of the store, ends the thread (R2).
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import time
from typing import TYPE_CHECKING

from codec._version import __version__
from telemetry.frame_records import (
    MalformedRecordError,
    RecordReader,
    decode_hello,
    decode_record,
    encode_acks,
)
from telemetry.rate_limit import RateLimit

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.frame_records import Hello
    from telemetry.frame_source import FrameSource
    from telemetry.service import TelemetryService

__all__ = ("FrameIntake",)

_log = logging.getLogger("spantap.telemetry")

COMMIT_SECONDS = 0.1
"""Between two commits while exchanges end: many spans share one."""

IDLE_SECONDS = 1.0
"""Between two looks at the store's limits while nothing ends."""

_LOG_SECONDS = 60.0
"""Between two log lines about defects: a worker that is disconnected comes back at once."""

_READ_BYTES = 256 * 1024
"""Of one worker before the next one's turn."""


class _Connection:
    """One worker's connection."""

    def __init__(self, sock: socket.socket, source: FrameSource) -> None:
        self.sock = sock
        self.source = source
        self.reader = RecordReader()
        self.hello: Hello | None = None
        self.unsent_acks = b""

    def feed(self, data: bytes) -> None:
        """Take a read.

        Raises:
            MalformedRecordError: it holds no frames.
        """
        for record in self.reader.feed(data):
            if self.hello is None:
                self.hello = _check_version(decode_hello(record))
            else:
                self.source.feed(*decode_record(record))


def _check_version(hello: Hello) -> Hello:
    """The same, of a worker that speaks as we do.

    Raises:
        MalformedRecordError: another version was installed while spantap ran.
    """
    if hello.version != __version__:
        raise MalformedRecordError(
            f"the worker process {hello.pid} is spantap {hello.version}, this one is "
            f"{__version__}: another version was installed meanwhile; restart spantap"
        )
    return hello


class FrameIntake:
    """Reads workers until it is told to finish. :meth:`finish` may be called on any thread.

    Args:
        listener: the Unix socket where workers connect; listening already, and closed at the end.
        service: makes and stores the spans.
        now_ns: nanoseconds since the epoch.
    """

    def __init__(
        self,
        listener: socket.socket,
        service: TelemetryService,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._listener = listener
        self._service = service
        self._now_ns = now_ns
        self._selector = selectors.DefaultSelector()
        self._connections: set[_Connection] = set()
        self._finishing = False
        self._woken, self._waker = socket.socketpair()
        self._next_commit = 0.0
        self._defects = RateLimit(time.monotonic_ns, interval_seconds=_LOG_SECONDS)

    def finish(self) -> None:
        """Read what has been sent, and return from :meth:`run` once no worker is connected."""
        self._finishing = True
        with contextlib.suppress(OSError):
            self._waker.send(b"!")

    def run(self) -> None:
        """Read, feed, commit, acknowledge; until :meth:`finish`."""
        for sock, takes in ((self._listener, self._accept), (self._woken, self._wake_up)):
            sock.setblocking(False)  # noqa: FBT003 - its only parameter
            self._selector.register(sock, selectors.EVENT_READ, takes)
        while not (self._finishing and not self._connections and not self._accept()):
            for key, _ in self._selector.select(self._wait_seconds()):
                key.data()
            if time.monotonic() >= self._next_commit:
                self._commit()
        self._commit()
        for sock in (self._listener, self._woken, self._waker):
            sock.close()
        self._selector.close()

    def _wait_seconds(self) -> float:
        """Until something is to be done even if nothing comes."""
        if not self._service.waiting:
            return IDLE_SECONDS
        return max(0.0, self._next_commit - time.monotonic())

    def _accept(self) -> bool:
        """Take a worker that connects; whether there was one."""
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return False
        sock.setblocking(False)  # noqa: FBT003 - its only parameter
        connection = _Connection(sock, self._service.open_source())
        self._connections.add(connection)
        self._selector.register(sock, selectors.EVENT_READ, lambda: self._read(connection))
        return True

    def _wake_up(self) -> None:
        self._woken.recv(1)

    def _read(self, connection: _Connection) -> None:
        try:
            data = connection.sock.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end(connection)
            return
        try:
            connection.feed(data)
        except MalformedRecordError as error:
            self._tell("a worker is disconnected, and will send again: %s", error)
            self._forget(connection)
        except Exception as error:  # noqa: BLE001 - rule 4
            self._tell("frames of a worker are lost: %s", type(error).__name__)
        if connection.unsent_acks and connection in self._connections:
            self._acknowledge(connection)

    def _tell(self, what: str, why: object) -> None:
        if self._defects.admit() is not None:
            _log.error(what, why)

    def _end(self, connection: _Connection) -> None:
        """The worker closed its connection (rule 2)."""
        pid = connection.hello.pid if connection.hello is not None else 0
        lost = connection.source.lose(self._now_ns(), f"the worker process {pid} ended")
        if lost:
            _log.error("the worker process %d ended with %d exchanges open", pid, lost)
        self._forget(connection)

    def _forget(self, connection: _Connection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
            self._selector.unregister(connection.sock)
            connection.sock.close()

    def _commit(self) -> None:
        self._service.commit()
        self._next_commit = time.monotonic() + COMMIT_SECONDS
        for connection in tuple(self._connections):
            self._acknowledge(connection)

    def _acknowledge(self, connection: _Connection) -> None:
        """Tell what is settled; what the socket does not take waits for the next time."""
        data = connection.unsent_acks + encode_acks(connection.source.take_settled())
        if not data:
            return
        try:
            sent = connection.sock.send(data)
        except OSError:
            # Full, or broken: reading will tell which.
            sent = 0
        connection.unsent_acks = data[sent:]
