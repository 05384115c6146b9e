"""A proxy with an open interception port, and a TLS upstream under names that only exist here."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import ssl
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from proxy.interception.authority import Authority, make_authority
from proxy.interception.interception import Interception
from tests.proxy.harness import Connection, RunningProxy, ScriptedUpstream, running_proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from proxy.interception.port import InterceptPort
    from tests.proxy.raw_client import Address

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

HOST = "api.model.test"
OTHER_HOST = "packages.other.test"
SECRET = "s3cr3t-0123456789-of-this-run"
LABEL = "agent~~4f2a"


@cache
def upstream_authority() -> tuple[bytes, bytes]:
    """The authority of the world outside: certificate and key."""
    return make_authority(["test"])


@cache
def run_authority(*hosts: str) -> tuple[bytes, bytes]:
    """The authority of a run."""
    return make_authority(hosts)


@cache
def upstream_tls(*protocols: str) -> ssl.SSLContext:
    """The upstream's side of TLS, for both hosts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority = Authority(*upstream_authority())
    others = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for each, host in ((context, HOST), (others, OTHER_HOST)):
        with tempfile.NamedTemporaryFile() as file:
            file.write(authority.make_leaf(host))
            file.flush()
            each.load_cert_chain(file.name)
        if protocols:
            each.set_alpn_protocols(list(protocols))

    def choose(socket: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if name == OTHER_HOST:
            socket.context = others

    context.sni_callback = choose
    return context


def client_tls(*authorities: bytes, protocols: tuple[str, ...] = ()) -> ssl.SSLContext:
    """A client that trusts these authorities alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for authority in authorities:
        context.load_verify_locations(cadata=authority.decode())
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


def credentials(secret: str = SECRET) -> bytes:
    """The value of ``Proxy-Authorization`` that shows a secret."""
    return b"Basic " + base64.b64encode(f"spantap:{secret}".encode())


def connect_bytes(target: str, secret: str | None = SECRET, head: bytes = b"") -> bytes:
    """A CONNECT on the wire."""
    shown = b"" if secret is None else b"Proxy-Authorization: %b\r\n" % credentials(secret)
    name = target.encode()
    return b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n%b%b\r\n" % (name, name, shown, head)


@dataclass
class Intercepted:
    """A running proxy, its interception port, and the upstream that all names lead to."""

    upstream: ScriptedUpstream
    running: RunningProxy
    port: InterceptPort
    interception: Interception
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    @property
    def address(self) -> Address:
        return self.port.address

    @property
    def proxy_url(self) -> str:
        host, port = self.address
        return f"http://spantap:{SECRET}@{host}:{port}"

    def trust(self, *protocols: str) -> ssl.SSLContext:
        """A client that trusts the run, and the upstream's own authority."""
        outside, _ = upstream_authority()
        return client_tls(self.interception.ca_certificate, outside, protocols=protocols)

    async def connect(self, target: str = f"{HOST}:443") -> Streams:
        """A client behind a CONNECT that was answered with 200."""
        reader, writer = await asyncio.open_connection(*self.address)
        self.writers.append(writer)
        writer.write(connect_bytes(target))
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        return reader, writer

    async def secure(
        self,
        target: str = f"{HOST}:443",
        *,
        tls: ssl.SSLContext | None = None,
        name: str | None = None,
    ) -> Streams:
        """The same, after its handshake."""
        host, _, _ = target.partition(":")
        reader, writer = await self.connect(target)
        await writer.start_tls(tls or self.trust(), server_hostname=name or host)
        return reader, writer


@contextlib.contextmanager
def all_names_lead_to(address: Address) -> Any:
    """The system knows every name under ``.test``, and all lead to one port."""
    find = socket.getaddrinfo

    def find_here(host: str, *where: Any, **kind: Any) -> list[Any]:
        if host.endswith(".test") and not kind.get("flags", 0) & socket.AI_NUMERICHOST:
            return find(*address, type=socket.SOCK_STREAM)
        return find(host, *where, **kind)

    with patch.object(socket, "getaddrinfo", find_here):
        yield


@contextlib.asynccontextmanager
async def intercepting(
    script: Callable[[Connection], Awaitable[object]] = Connection.answer,
    *,
    hosts: tuple[str, ...] = (HOST,),
    alpn: tuple[str, ...] = (),
    own_ports: tuple[Address, ...] = (),
    tunnelled: Any = None,
    upstream_ca: bytes | None = None,
    authority: tuple[bytes, bytes] | None = None,
    **settings: Any,
) -> AsyncIterator[Intercepted]:
    """Run a proxy that opens these hosts, in front of a TLS upstream."""
    certificate, key = authority or run_authority(*hosts)
    interception = Interception(
        secret=SECRET,
        ca_certificate=certificate,
        ca_key=key,
        hosts=frozenset(hosts),
        label=LABEL,
        tunnelled=tunnelled or {},
        own_ports=own_ports,
    )
    with tempfile.TemporaryDirectory() as folder:
        ca_file = Path(folder) / "ca.pem"
        ca_file.write_bytes(upstream_ca or upstream_authority()[0])
        async with (
            ScriptedUpstream(script, tls=upstream_tls(*alpn)) as upstream,
            running_proxy(None, ca_file=ca_file, **settings) as running,
        ):
            with all_names_lead_to(upstream.address):
                port = await running.proxy.intercept(interception)
                it = Intercepted(upstream, running, port, interception)
                try:
                    yield it
                finally:
                    for writer in it.writers:
                        writer.transport.abort()
            await running.proxy.close()
            assert running.server.other_count == 0
            assert port._state.tunnel_count == 0
