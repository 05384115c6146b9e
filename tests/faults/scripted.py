"""A scripted upstream on a thread of its own, and a ``spantap serve`` in front of it.

What the upstream does, the first segment of a call's path says, so that one stage serves every row
of a file, whatever the rows before did to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from codec.text.jsontext import encode_json
from tests.e2e.processes import find_free_port
from tests.faults.raw import ASK_SECONDS, ask_all, make_call, seen_alike, wait_for_spans
from tests.faults.stage import RunningSpantap, running_spantap
from tests.proxy.harness import DONE, STREAM, USAGE_EVENT, Connection, ScriptedUpstream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.faults.raw import Call

__all__ = (
    "EVENTS",
    "TIMEOUT_SECONDS",
    "Script",
    "Stage",
    "UpstreamThread",
    "asks_usage",
    "hang_mid_stream",
    "impatient_stage",
    "in_chunks",
    "running_stage",
    "sends",
    "trace_of",
    "whole_stream",
)

TIMEOUT_SECONDS = 1.0
"""To the first byte and between two, on an impatient stage: as short as a busy machine allows."""

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
"""How the head of a stream begins."""


class UpstreamThread:
    """A scripted upstream on a thread of its own; the first segment of a path names the script.

    Attributes:
        gone_at: when the peer of a call was gone, on the monotonic clock, by trace id: of calls
            whose script waits for that.
    """

    def __init__(self, scripts: Mapping[str, Script]) -> None:
        self._scripts = {name.encode(): script for name, script in scripts.items()}
        self._scripted = ScriptedUpstream(self._answer)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),))
        self._asked: set[str] = set()
        self._released: set[str] = set()
        self.gone_at: dict[str, float] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    @property
    def port(self) -> int:
        """On loopback."""
        return self._scripted.address[1]

    @property
    def url(self) -> str:
        """Its base URL."""
        return self._scripted.url

    @property
    def connection_count(self) -> int:
        """How many connections it has seen."""
        return self._scripted.connections

    async def wait_asked(self, call: Call) -> None:
        """Wait until a call is here."""
        async with asyncio.timeout(ASK_SECONDS):
            while call.trace_id not in self._asked:
                await asyncio.sleep(0.001)

    async def wait_gone(self, call: Call) -> float:
        """Wait until the peer of a call is gone; when that was, on the monotonic clock."""
        async with asyncio.timeout(ASK_SECONDS):
            while call.trace_id not in self.gone_at:
                await asyncio.sleep(0.001)
        return self.gone_at[call.trace_id]

    def release(self, trace_id: str) -> None:
        """Let a script that waits in :meth:`wait_released` go on; or for scripts: say how far."""
        self._released.add(trace_id)

    def is_released(self, call: Call) -> bool:
        """Whether :meth:`release` was called for it."""
        return call.trace_id in self._released

    async def wait_released(self, connection: Connection) -> None:
        """Wait until the call is released."""
        trace_id = trace_of(connection)
        async with asyncio.timeout(ASK_SECONDS):
            while trace_id not in self._released:
                await asyncio.sleep(0.001)

    async def hang(self, connection: Connection) -> None:
        """Do nothing until the peer is gone."""
        await connection.wait_closed_by_peer(ASK_SECONDS)
        self.gone_at[trace_of(connection)] = time.monotonic()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with self._scripted:
            self._ready.set()
            await self._stop.wait()

    async def _answer(self, connection: Connection) -> None:
        self._scripted.requests.clear()  # of 10,000 none is looked at again
        self._asked.add(trace_of(connection))
        name = connection.request_line.split(b"/")[1]
        await self._scripts[name](self, connection)
        writer = connection.writer
        if connection.field(b"connection") == b"close":
            writer.close()
        if writer.transport.is_closing():
            # What follows drops what is not sent yet.
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


Script = Callable[[UpstreamThread, Connection], Awaitable[None]]
"""Answers one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A proxy in front of the scripted upstream."""

    spantap: RunningSpantap
    upstream: UpstreamThread

    async def assert_healthy(self) -> None:
        """The next calls, over whatever connections are left, are ordinary ones."""
        calls = [make_call("healthy") for _ in range(4)]
        direct = await ask_all(self.upstream.port, calls)
        assert seen_alike(direct, await ask_all(self.spantap.port, calls)) == len(calls)
        spans = wait_for_spans(self.spantap.store, calls)
        assert [spans[call.trace_id].outcome for call in calls] == ["completed"] * len(calls)


@contextmanager
def running_stage(
    folder: Path, scripts: Mapping[str, Script], environment: Mapping[str, str] | None = None
) -> Iterator[Stage]:
    """A stage; at its end the processes must be those of its beginning, and have told no error.

    There is a script ``healthy`` besides.
    """
    with (
        UpstreamThread({"healthy": healthy, **scripts}) as upstream,
        running_spantap(folder, upstream=upstream.url, environment=environment) as spantap,
    ):
        pids = spantap.pids()
        yield Stage(spantap=spantap, upstream=upstream)
        assert spantap.pids() == pids
        assert "Traceback" not in spantap.log, spantap.log
        assert " ERROR " not in spantap.log, spantap.log


@contextmanager
def impatient_stage(folder: Path, scripts: Mapping[str, Script]) -> Iterator[Stage]:
    """A stage with short timeouts, and an upstream ``refuses`` where nobody listens."""
    url = f"http://127.0.0.1:{find_free_port()}"
    environment = {
        "SPANTAP_FIRST_BYTE_TIMEOUT_SECONDS": str(TIMEOUT_SECONDS),
        "SPANTAP_IDLE_TIMEOUT_SECONDS": str(TIMEOUT_SECONDS),
        "SPANTAP_UPSTREAMS": encode_json([{"name": "refuses", "prefix": "/refuses", "url": url}]),
    }
    with running_stage(folder, scripts, environment) as running:
        yield running


def in_chunks(*pieces: bytes) -> bytes:
    """The pieces, each as a chunk."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


def sends(*pieces: bytes) -> Script:
    """A script of constant bytes, and the end of the connection."""

    async def script(_: UpstreamThread, connection: Connection) -> None:
        await connection.send(*pieces)
        connection.writer.close()

    return script


async def healthy(_: UpstreamThread, connection: Connection) -> None:
    """A stream that is whole."""
    await connection.stream(whole_stream(connection))


async def hang_mid_stream(upstream: UpstreamThread, connection: Connection) -> None:
    """Three events, and silence."""
    await connection.begin_stream()
    await connection.send_chunks(*STREAM[:3], end=False)
    await upstream.hang(connection)


def whole_stream(connection: Connection) -> bytes:
    """A stream as a provider makes it: with usage where the request asks for it."""
    usage = [USAGE_EVENT] if asks_usage(connection) else []
    return b"".join([*STREAM, *usage, DONE])


def asks_usage(connection: Connection) -> bool:
    """Whether the request asks for a stream's usage."""
    return b'"include_usage":true' in connection.body


def trace_of(connection: Connection) -> str:
    """The trace id of the call that reached the upstream."""
    value = connection.field(b"traceparent") or b""
    return value.split(b"-")[1].decode()
