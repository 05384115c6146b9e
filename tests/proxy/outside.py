"""The world outside: a forward proxy on loopback, by which every name leads to the demo upstream.

What a process of ours reaches by ``HTTPS_PROXY`` ends here. So its calls can go to the names of
real providers, and none leaves the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tempfile
import threading
from typing import TYPE_CHECKING

from proxy.interception.authority import Authority, make_authority

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ("Outside", "outside")

_NAMES = ("ai", "com", "test")
"""The authority may sign for all names below."""


class Outside:
    """The forward proxy.

    Args:
        upstream_port: where the plain upstream listens to which all connections lead.

    Attributes:
        ca: the certificate of its authority, as PEM.
        hosts: the names of all connections so far, in their order.
        port: where it listens.
    """

    def __init__(self, upstream_port: int) -> None:
        self._upstream_port = upstream_port
        self.ca, key = make_authority(_NAMES)
        self._authority = Authority(self.ca, key)
        self._contexts: dict[str, ssl.SSLContext] = {}
        self.hosts: list[str] = []
        self.port = 0
        self.is_open = threading.Event()
        self._over = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self) -> None:
        """Serve until the end."""
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._lead, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self.is_open.set()
        await self._over.wait()
        server.close()

    def end(self) -> None:
        """End from another thread."""
        self._loop.call_soon_threadsafe(self._over.set)

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            host = head.split()[1].decode().rpartition(":")[0]
            self.hosts.append(host)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await writer.start_tls(self._find_context(host))
            far, near = await asyncio.open_connection("127.0.0.1", self._upstream_port)
            await asyncio.gather(_pump(reader, near), _pump(far, writer))

    def _find_context(self, host: str) -> ssl.SSLContext:
        if host not in self._contexts:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            with tempfile.NamedTemporaryFile() as file:
                file.write(self._authority.make_leaf(host))
                file.flush()
                context.load_cert_chain(file.name)
            self._contexts[host] = context
        return self._contexts[host]


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.contextmanager
def outside(upstream_port: int, folder: Path) -> Iterator[tuple[Outside, dict[str, str]]]:
    """Run the forward proxy; yield it, and the variables of a user behind it."""
    it = Outside(upstream_port)
    ca = folder / "outside.pem"
    ca.write_bytes(it.ca)
    thread = threading.Thread(target=lambda: asyncio.run(it.serve()))
    thread.start()
    assert it.is_open.wait(10)
    try:
        yield it, {"HTTPS_PROXY": it.url, "SSL_CERT_FILE": str(ca)}
    finally:
        it.end()
        thread.join(10)
