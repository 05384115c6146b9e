"""What a dial may meet on loopback: servers that fail in each phase, and a small forward proxy."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import socket
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.proxy.harness import ANSWER
from tests.proxy.raw_client import Address, reset

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    import pytest
    import trustme

    Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]

LOOPBACK = "127.0.0.1"


def server_tls(authority: trustme.CA, *names: str, expired: bool = False) -> ssl.SSLContext:
    """A server's side of TLS, with a certificate for these names (without any: the loopback)."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    past = dt.datetime.now(dt.UTC) - dt.timedelta(days=2) if expired else None
    issued = authority.issue_cert(*(names or (LOOPBACK,)), not_after=past)
    issued.configure_cert(context)
    return context


@contextlib.asynccontextmanager
async def serving(
    serve: Serve, tls: ssl.SSLContext | None = None, host: str = LOOPBACK
) -> AsyncIterator[int]:
    """A server; gives its port."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
                await serve(reader, writer)
        finally:
            writer.transport.abort()

    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(talk(reader, writer)))

    server = await asyncio.start_server(accept, host, 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def closed_port(host: str = LOOPBACK) -> Iterator[int]:
    """A port where nobody listens, and nobody else will."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as sock:
        sock.bind((host, 0))
        yield sock.getsockname()[1]


@contextlib.contextmanager
def full_port(host: str = LOOPBACK, port: int = 0) -> Iterator[int]:
    """A port whose backlog is full: connecting to it hangs."""
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind((host, port))
        listener.listen(0)
        for _ in range(4):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                sock.connect(listener.getsockname())
        yield listener.getsockname()[1]


async def stay_silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Read all, and say nothing."""
    while await reader.read(65536):
        pass


async def hang_up(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """End the connection once something has come."""
    await reader.read(1 << 16)


async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Likewise, with RST."""
    await reader.read(1)
    reset(writer)


async def speak_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer in HTTP, whatever comes."""
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    await writer.drain()
    await stay_silent(reader, writer)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request."""
    await reader.readuntil(b"}]}")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER))
    await writer.drain()
    await stay_silent(reader, writer)


@dataclass
class TinyProxy:
    """A forward proxy: CONNECT tunnels, and absolute-form requests are noted and answered.

    Attributes:
        heads: what it was asked.
        reply: answers CONNECT, whatever it is asked; ``None`` does not answer.
    """

    heads: list[bytes] = field(default_factory=list)
    reply: bytes | None = b"HTTP/1.1 200 Connected\r\n\r\n"
    address: Address = ("", 0)

    @property
    def url(self) -> str:
        return "http://{}:{}".format(*self.address)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        method, target, _ = head.split(b" ", 2)
        if self.reply is None:
            await stay_silent(reader, writer)
        elif method != b"CONNECT":
            await reader.readuntil(b"}]}")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi!")
        elif b" 200 " not in self.reply:
            writer.write(self.reply)
        else:
            writer.write(self.reply)
            host, _, port = target.decode().rpartition(":")
            far_reader, far_writer = await asyncio.open_connection(host.strip("[]"), int(port))
            try:
                await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
            finally:
                far_writer.transport.abort()
        if not writer.transport.is_closing():
            writer.close()
            await writer.wait_closed()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def tiny_proxy(
    reply: bytes | None = TinyProxy.reply, tls: ssl.SSLContext | None = None
) -> AsyncIterator[TinyProxy]:
    """A forward proxy, where `tls` is given one of https."""
    tiny = TinyProxy(reply=reply)
    async with serving(tiny.serve, tls) as port:
        tiny.address = LOOPBACK, port
        yield tiny


def know_names(monkeypatch: pytest.MonkeyPatch, **hosts: tuple[str, ...] | None) -> None:
    """The system knows these names under ``.test``, and no others; ``None`` is never found out."""

    async def find(host: str, port: int, **_: object) -> list[Any]:
        addresses = hosts.get(host.rstrip(".").removesuffix(".test"), ())
        if addresses is None:
            await asyncio.Event().wait()
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            info
            for address in addresses
            for info in socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
        ]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", find)
