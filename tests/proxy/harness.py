"""A scripted upstream and a running proxy: real sockets, bytes under control."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from proxy import app
from proxy.app import Proxy
from proxy.configure import build_upstream_tls
from proxy.downstream.listening import listen
from proxy.relay.handler import Handler
from proxy.settings.settings import Settings
from telemetry.frames.frame import End, Frame, decode_frames, encode_frames
from telemetry.in_process import FrameByFrame
from telemetry.observing.observer import Observer
from telemetry.observing.open_bodies import OpenBodies
from tests.proxy.raw_client import Address, Fields, find_field, reset, split_fields

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from proxy.clock import Clock
    from proxy.downstream.server import DownstreamServer
    from proxy.request_body import BodyBudget
    from proxy.settings.worker import RelaySettings
    from proxy.upstream.client import UpstreamClient
    from telemetry.observing.exchange import Exchange

CHAT = b'{"model":"m-1","messages":[{"role":"user","content":"hi"}]}'
STREAMED_CHAT = b'{"model":"m-1","stream":true,"messages":[{"role":"user","content":"hi"}]}'
USAGE_OPTION = b',"stream_options":{"include_usage":true}'
ASKING_CHAT = STREAMED_CHAT[:-1] + USAGE_OPTION + b"}"
"""A streamed chat that asks for its usage itself."""
ANSWER = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m-1","choices":'
    b'[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}'
)


def chunk_event(delta: str = "", finish: str | None = None, extra: str = "") -> bytes:
    """One chunk of a stream as an event."""
    finish_text = "null" if finish is None else f'"{finish}"'
    return (
        'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m-1",'
        f'"choices":[{{"index":0,"delta":{{{delta}}},"finish_reason":{finish_text}}}]{extra}}}\n\n'
    ).encode()


USAGE_EVENT = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m-1",'
    b'"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'
)
DONE = b"data: [DONE]\n\n"
STREAM = [
    chunk_event('"role":"assistant","content":""'),
    chunk_event('"content":"Hel"'),
    chunk_event('"content":"lo"'),
    chunk_event(finish="stop"),
]


@dataclass
class Connection:
    """One request at the scripted upstream, and the means to answer it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    head: bytes = b""
    body: bytes = b""
    number: int = 0

    @property
    def request_line(self) -> bytes:
        return self.head.split(b"\r\n", 1)[0]

    @property
    def fields(self) -> Fields:
        return split_fields(self.head.split(b"\r\n")[1:-2])

    def field(self, name: bytes) -> bytes | None:
        return find_field(self.fields, name)

    async def send(self, *data: bytes) -> None:
        for piece in data:
            self.writer.write(piece)
            await self.writer.drain()

    async def send_chunks(self, *data: bytes, end: bool = True) -> None:
        for piece in data:
            await self.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        if end:
            await self.send(b"0\r\n\r\n")

    async def answer(
        self, body: bytes = ANSWER, *, status: bytes = b"200 OK", head: bytes = b""
    ) -> None:
        await self.send(
            b"HTTP/1.1 %b\r\nContent-Type: application/json\r\n%bContent-Length: %d\r\n\r\n%b"
            % (status, head, len(body), body)
        )

    async def begin_stream(self, head: bytes = b"") -> None:
        await self.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"%bTransfer-Encoding: chunked\r\n\r\n" % head
        )

    async def stream(self, *events: bytes) -> None:
        await self.begin_stream()
        await self.send_chunks(*events)

    async def stall_after(self, *events: bytes) -> float:
        """Stream these, and wait until the other side is gone; the seconds that took."""
        await self.begin_stream()
        await self.send_chunks(*events, end=False)
        return await self.wait_closed_by_peer()

    def reset(self) -> None:
        """End with RST."""
        reset(self.writer)

    async def wait_closed_by_peer(self, seconds: float = 5.0) -> float:
        """Seconds until the other side is gone."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(seconds):
                while await self.reader.read(65536):
                    pass
        return loop.time() - start


@dataclass
class ScriptedUpstream:
    """Accepts connections, reads requests, and lets a script answer each."""

    script: Callable[[Connection], Awaitable[object]]
    reads_body: bool = True
    requests: list[Connection] = field(default_factory=list)
    connections: int = 0
    tls: Any = None
    address: Address = ("127.0.0.1", 0)

    @property
    def url(self) -> str:
        scheme = "https" if self.tls is not None else "http"
        return f"{scheme}://{self.address[0]}:{self.address[1]}"

    @property
    def last(self) -> Connection:
        return self.requests[-1]

    async def __aenter__(self) -> ScriptedUpstream:
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", 0, ssl=self.tls, limit=1 << 22
        )
        self.address = self._server.sockets[0].getsockname()[:2]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                connection = Connection(reader, writer, head, number=len(self.requests) + 1)
                self.requests.append(connection)
                if self.reads_body:
                    connection.body = await _read_body(connection)
                await self.script(connection)
                if writer.transport.is_closing():
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return
        finally:
            self._tasks.discard(task)
            writer.transport.abort()


async def _read_body(connection: Connection) -> bytes:
    if (length := connection.field(b"content-length")) is not None:
        return await connection.reader.readexactly(int(length))
    if connection.field(b"transfer-encoding") is None:
        return b""
    pieces = []
    while size := int((await connection.reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        pieces.append(await connection.reader.readexactly(size))
        await connection.reader.readexactly(2)
    await connection.reader.readexactly(2)
    return b"".join(pieces)


class ObservingSink:
    """A sink that observes at once, in line, what went through the frames' byte form."""

    def __init__(self) -> None:
        self.bodies = OpenBodies()
        self.observer = Observer(bodies=self.bodies)
        self.frames: list[Frame] = []
        self.exchanges: list[Exchange] = []

    def emit(self, frame: Frame) -> None:
        [frame] = decode_frames(encode_frames([frame]))
        self.frames.append(frame)
        if (exchange := self.observer.feed(frame)) is not None:
            self.exchanges.append(exchange)

    def open_exchange(self, number: int) -> FrameByFrame:
        del number  # every frame has it
        return FrameByFrame(self.emit)

    async def wait_for(self, count: int = 1, seconds: float = 20.0) -> Exchange:
        """The last of so many exchanges."""
        async with asyncio.timeout(seconds):
            while len(self.exchanges) < count:
                await asyncio.sleep(0.002)
        assert len(self.exchanges) == count, self.exchanges
        return self.exchanges[-1]


@dataclass
class RunningProxy:
    """A proxy on loopback, and what it observed."""

    proxy: Proxy
    sink: ObservingSink

    @property
    def address(self) -> Address:
        return self.proxy.address

    @property
    def url(self) -> str:
        return "http://{}:{}".format(*self.address)

    @property
    def server(self) -> DownstreamServer:
        return self.proxy._server

    @property
    def client(self) -> UpstreamClient:
        return self.proxy._client

    @property
    def bodies(self) -> BodyBudget:
        handler = self.server.handler
        assert isinstance(handler, Handler)
        return handler.bodies

    async def wait_for_end(self) -> End:
        """The one ``end`` of the one exchange."""
        await self.sink.wait_for()
        [end] = frames_of(self, End)
        assert isinstance(end, End)
        return end


_build_default_tls = functools.cache(ssl.create_default_context)


def _build_upstream_tls(settings: RelaySettings) -> ssl.SSLContext:
    """Read the machine's authorities once, and not for each of a thousand proxies: 30 ms of CPU."""
    is_default = settings.ca_file is None and settings.client_cert is None
    return _build_default_tls() if is_default else build_upstream_tls(settings)


@contextlib.asynccontextmanager
async def running_proxy(
    upstream: str | None,
    *,
    clock: Clock | None = None,
    sink: Any = None,
    send_buffer_bytes: int | None = None,
    **settings: Any,
) -> AsyncIterator[RunningProxy]:
    """Run a proxy in front of an upstream; whatever ended its calls, nothing of them stays held.

    For each client the kernel holds megabytes, or `send_buffer_bytes`.
    """
    listener = None
    if send_buffer_bytes is not None:  # connections have it from their listener
        listener = listen("traffic", "127.0.0.1", 0)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
    defaults: dict[str, Any] = {"port": 0, "admin_port": 0, "linger_seconds": 0}
    chosen = Settings(upstream=upstream, **(defaults | settings))
    sink = sink if sink is not None else ObservingSink()
    with patch.object(app, "build_upstream_tls", _build_upstream_tls):
        proxy = Proxy(chosen, sink, clock=clock)
    await proxy.start(listener)
    running = RunningProxy(proxy, sink)
    try:
        yield running
    finally:
        await proxy.close()
    held = running.bodies.held_bytes
    assert held == 0, f"{held} bytes of requests are held by the worker"
    if isinstance(sink, ObservingSink):
        left = len(sink.observer), sink.bodies.held_bytes
        assert left == (0, 0), f"{left[0]} calls without a record, {left[1]} bytes held"


@contextlib.asynccontextmanager
async def relaying(
    script: Callable[[Connection], Awaitable[object]] = Connection.answer,
    *,
    reads_body: bool = True,
    tls: Any = None,
    **settings: Any,
) -> AsyncIterator[tuple[ScriptedUpstream, RunningProxy]]:
    """Run a proxy in front of a scripted upstream, which answers everything where not told."""
    async with (
        ScriptedUpstream(script, reads_body, tls=tls) as upstream,
        running_proxy(upstream.url, **settings) as running,
    ):
        yield upstream, running


def request_bytes(
    body: bytes = CHAT,
    *,
    target: bytes = b"/v1/chat/completions",
    method: bytes = b"POST",
    head: bytes = b"",
    close: bool = True,
    content_type: bytes = b"application/json",
) -> bytes:
    """A plain request on the wire."""
    closing = b"Connection: close\r\n" if close else b""
    return (
        b"%b %b HTTP/1.1\r\nHost: client.example\r\n%bContent-Type: %b\r\n"
        b"Content-Length: %d\r\n%b\r\n%b"
        % (method, target, closing, content_type, len(body), head, body)
    )


def frames_of(running: RunningProxy, kind: type[Any]) -> list[Any]:
    """The tap frames of one kind, in order."""
    return [frame for frame in running.sink.frames if isinstance(frame, kind)]
