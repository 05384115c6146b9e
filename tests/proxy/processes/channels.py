"""A worker's channel and an intake, over a real Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from opentelemetry.sdk.resources import Resource

from codec._version import __version__
from proxy.processes.frame_channel import FrameChannel
from proxy.processes.frame_intake import FrameIntake
from proxy.processes.news_server import NewsServer
from proxy.processes.scratch import life_path
from proxy.processes.spool_writer import SpoolWriter
from telemetry.frames.records import Hello
from telemetry.frames.spool import FrameSpool
from telemetry.own_files import hold
from telemetry.service import TelemetryService
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from tests.telemetry.service_bench import FailingStore
from tests.telemetry.tap_frames import WHOLE_STREAM, add_frame, exchange_frames

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from telemetry.frames.outbox import FrameOutbox
    from telemetry.observing.source import FrameSource

_tokens = itertools.count(1)


SPOOLED = "a1"
"""The token under which :func:`spooling` writes."""


def hello(version: str = __version__, token: str | None = None) -> Hello:
    """What a worker says; without a token one that nobody has heard of."""
    return Hello(worker=1, pid=4321, version=version, token=token or f"{next(_tokens):x}")


class _Service(TelemetryService):
    """A service that knows what it opened."""

    def __init__(self, store: FailingStore) -> None:
        self.sources: list[FrameSource] = []
        recorder = SpanRecorder(Resource.get_empty(), build_span_limits())
        super().__init__(recorder, store, now_ns=time.time_ns)  # type: ignore[arg-type]  # quacks

    def open_source(self) -> FrameSource:
        self.sources.append(super().open_source())
        return self.sources[-1]


class Intake:
    """An intake on a thread of its own, and the rows that came of it."""

    def __init__(self, listener: socket.socket) -> None:
        self.store = FailingStore()
        self._service = _Service(self.store)
        self.spool = Path(listener.getsockname()).parent / "spool"
        self._intake = FrameIntake(listener.dup(), self._service, self.spool)
        self._thread = threading.Thread(target=self._intake.run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def accept(self) -> None:
        """Take a worker that has connected, where it is not started."""
        self._intake._accept()

    def step(self) -> None:
        """Read what has come, where it is not started."""
        self._intake._step()
        self._intake._selector.select(0)  # what has nothing more is last in turn from now on

    def finish(self) -> None:
        """End it: whatever ended an exchange, nothing of it is open or held."""
        self._intake.finish()
        self._thread.join(10)
        assert not self._thread.is_alive()
        assert self.held_bytes == 0
        assert [len(source) for source in self._service.sources if len(source)] == []

    def open_news_server(self, path: str) -> NewsServer:
        """Open a server that gives news of it."""
        return NewsServer(path, self._service.report_to(self._intake.sources), self._intake.ask)

    @property
    def is_watched(self) -> bool:
        """Whether the service tells anybody news."""
        return self._service.reporter is not None

    @property
    def open_exchanges(self) -> int:
        workers = tuple(self._intake._workers.values())
        return sum(len(worker.source) for worker in workers if worker.connection is not None)

    @property
    def has_room(self) -> bool:
        return self._service.has_room

    @property
    def waiting(self) -> int:
        return self._service.waiting

    @property
    def held_bytes(self) -> int:
        return self._service.held_bytes

    def break_connections(self) -> None:
        """Break every connection, as a network would."""
        for connection in tuple(self._intake._connections):
            connection.sock.shutdown(socket.SHUT_RDWR)

    @property
    def outcomes(self) -> dict[int, str]:
        return {int(row.span_id, 16): row.outcome for row in self.store.rows}


@contextlib.asynccontextmanager
async def connected(
    listener: socket.socket, outbox: FrameOutbox | None = None, token: str | None = None
) -> AsyncIterator[FrameChannel]:
    """A channel that runs, of a worker that lives; both end with it."""
    said = hello(token=token)
    life = hold(life_path(listener.getsockname(), said.token))
    channel = FrameChannel(listener.getsockname(), said, outbox)
    running = asyncio.ensure_future(channel.run())
    try:
        yield channel
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        os.close(life)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


def emit(channel: FrameChannel, number: int, *, ended: bool = True) -> None:
    """A stream, or the first frames of it."""
    for frame in exchange_frames(*WHOLE_STREAM, number=number)[: None if ended else FIRST]:
        add_frame(channel.outbox, frame)


def emit_rest(channel: FrameChannel, number: int) -> None:
    """The rest of a stream that was begun."""
    for frame in exchange_frames(*WHOLE_STREAM, number=number)[FIRST:]:
        add_frame(channel.outbox, frame)


FIRST = 5
"""How many frames of a stream come before the rest: up to its first text."""


@contextlib.asynccontextmanager
async def spooling(channel: FrameChannel, folder: Path) -> AsyncIterator[None]:
    """The other way of a channel's outbox; its end lets go of the spool."""
    spool = FrameSpool(folder, SPOOLED)
    running = asyncio.ensure_future(SpoolWriter(channel.outbox, spool).run())
    try:
        yield
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        spool.close()
