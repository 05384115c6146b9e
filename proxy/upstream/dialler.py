"""Dialling one origin: names, TCP, TLS and forward proxies.

A burst of calls asks for a name once and goes to all of its addresses in turn. If an address does
not answer soon (RFC 8305), or TLS fails there, the next one is tried. The upstream is never blamed
for what a forward proxy does.

The number of connections has no limit: there is at most one per open request of a client, and
nobody would see a queue here.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from typing import TYPE_CHECKING

import aiohappyeyeballs

from proxy.tasks import spawn
from proxy.upstream.client_certificate import wants_certificate
from proxy.upstream.connection import UpstreamConnection
from proxy.upstream.errors import (
    ConnectTimeoutError,
    ForwardProxyError,
    UpstreamError,
    UpstreamTlsError,
    UpstreamUnreachableError,
    UpstreamWantsCertificateError,
)
from proxy.upstream.forward_proxy import encode_credentials
from proxy.upstream.idle_connections import IdleConnections

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from aiohappyeyeballs import AddrInfoType
    from yarl import URL

    from proxy.upstream.request import UpstreamTimeouts

KEEP_NAME_SECONDS = 10.0
"""How long the addresses of a name are kept: long enough for a burst of calls, short enough for an
upstream whose addresses change."""

NEXT_ADDRESS_SECONDS = 0.25
"""When the next address is tried: the delay that RFC 8305 recommends (section 5)."""


class Dialler:
    """Makes connections to one origin, and keeps them between two exchanges.

    Args:
        origin: scheme, host and port.
        proxy: the forward proxy on the way; ``None`` without one.
        tls: the TLS context for the origin and the proxy, if their URLs begin with https.
        threads: look up names; ``None`` for those of the loop.

    Attributes:
        idle: the idle connections.
        authorization: the ``Proxy-Authorization`` of a plain HTTP request: ``b""`` without
            credentials, ``None`` without a proxy (or with TLS, which is tunnelled).
    """

    def __init__(
        self,
        origin: URL,
        proxy: URL | None,
        *,
        tls: ssl.SSLContext,
        timeouts: UpstreamTimeouts,
        max_header_bytes: int,
        threads: Executor | None = None,
    ) -> None:
        self.idle = IdleConnections()
        self._origin = origin
        self._proxy = proxy
        self._is_tunnelled = proxy is not None and origin.scheme == "https"
        self._tls = tls
        self._threads = threads
        self._connect_seconds = timeouts.connect_seconds or None
        self._credentials = b"" if proxy is None else encode_credentials(proxy)
        self.authorization = None if proxy is None or self._is_tunnelled else self._credentials
        self._open: set[UpstreamConnection] = set()
        self._make_connection = functools.partial(
            UpstreamConnection,
            self.idle.put,
            self._open,
            max_header_bytes=max_header_bytes,
            stall_seconds=timeouts.stall_seconds,
        )
        self._lookup: asyncio.Task[list[AddrInfoType]] | None = None
        self._lookup_until = 0.0

    async def dial(self, *, may_switch: bool = False) -> UpstreamConnection:
        """Make a new connection.

        One that may switch protocols is tunnelled even without TLS, because a forward proxy passes
        no ``Upgrade`` on (RFC 6455 section 4.1).

        Raises:
            UpstreamError: no connection could be made.
        """
        try:
            async with asyncio.timeout(self._connect_seconds):
                if self._proxy is None:
                    return await self._connect(self._origin)
                if may_switch and not self._is_tunnelled:
                    return self._take_over(await self._tunnel_through(self._proxy))
                return await self._connect_through(self._proxy)
        except TimeoutError as error:
            raise ConnectTimeoutError from error

    async def dial_for_tunnel(self) -> asyncio.Transport:
        """Make a connection that carries somebody else's bytes, through the proxy as a tunnel.

        The origin's URL begins with ``http``, because whatever TLS there is is not ours. The
        caller gives the transport its protocol before the loop reads from it.

        Raises:
            UpstreamError: no connection could be made.
        """
        try:
            async with asyncio.timeout(self._connect_seconds):
                if self._proxy is None:
                    return (await self._connect(self._origin)).transport
                return (await self._tunnel_through(self._proxy)).transport
        except TimeoutError as error:
            raise ConnectTimeoutError from error
        finally:
            if self._lookup is not None:
                self._lookup.cancel()  # nobody else waits for it

    async def close(self) -> None:
        """End all connections at once."""
        self.idle.close()
        while self._open:
            for connection in tuple(self._open):
                connection.transport.abort()
            await asyncio.sleep(0)

    async def _connect(self, url: URL) -> UpstreamConnection:
        """Connect directly, to the first address of the host that accepts."""
        try:
            addresses = await self._find_addresses(url)
            while True:
                try:
                    return await self._connect_to(addresses, url)
                except OSError:
                    aiohappyeyeballs.pop_addr_infos_interleave(addresses)
                    if not addresses:
                        raise
        except OSError as error:
            raise _explain(error) from error

    async def _find_addresses(self, url: URL) -> list[AddrInfoType]:
        """Find the addresses of a host; each time another one comes first."""
        lookup, now = self._lookup, asyncio.get_running_loop().time()
        if lookup is None or (lookup.done() and (now >= self._lookup_until or lookup.exception())):
            asking = _look_up(url.raw_host, url.port, self._threads)
            lookup = self._lookup = spawn(asking, name="look up")
            lookup.add_done_callback(_drop_failure)
            self._lookup_until = now + KEEP_NAME_SECONDS
        found = await asyncio.shield(lookup)
        found.append(found.pop(0))
        return [found[-1], *found[:-1]]

    async def _connect_to(self, addresses: list[AddrInfoType], url: URL) -> UpstreamConnection:
        sock = await aiohappyeyeballs.start_connection(
            addresses, happy_eyeballs_delay=NEXT_ADDRESS_SECONDS
        )
        is_tls = url.scheme == "https"
        _, connection = await asyncio.get_running_loop().create_connection(
            self._make_connection,
            sock=sock,
            ssl=self._tls if is_tls else None,
            server_hostname=_name(url) if is_tls else None,
        )
        return connection

    async def _connect_through(self, proxy: URL) -> UpstreamConnection:
        """Connect to a forward proxy, and for TLS also through it to the origin."""
        if self._is_tunnelled:
            return await self._start_tls(await self._tunnel_through(proxy))
        try:
            return await self._connect(proxy)
        except UpstreamError as error:
            raise ForwardProxyError from error

    async def _tunnel_through(self, proxy: URL) -> UpstreamConnection:
        """Make a tunnel to the origin through a forward proxy."""
        try:
            connection = await self._connect(proxy)
            status = await self._ask_for_tunnel(connection)
        except UpstreamError as error:
            raise ForwardProxyError from error
        if status != 200:
            connection.abort()
            raise ForwardProxyError(str(status))
        return connection

    async def _ask_for_tunnel(self, connection: UpstreamConnection) -> int:
        """Ask for a tunnel by CONNECT (RFC 9110 section 9.3.6); return the answer's status."""
        authority = f"{self._origin.host_subcomponent}:{self._origin.port}".encode("ascii")
        head = b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n" % (authority, authority)
        if self._credentials:
            head += b"Proxy-Authorization: %b\r\n" % self._credentials
        try:
            answer = connection.begin(head_only=True)
            connection.transport.write(head + b"\r\n")
            return (await answer).status
        except BaseException:
            connection.abort()
            raise

    def _take_over(self, tunnel: UpstreamConnection) -> UpstreamConnection:
        """Let a connection that has answered nothing yet take a tunnel's place."""
        connection = self._make_connection()
        tunnel.transport.set_protocol(connection)
        self._open.discard(tunnel)
        connection.connection_made(tunnel.transport)
        return connection

    async def _start_tls(self, tunnel: UpstreamConnection) -> UpstreamConnection:
        """Begin TLS in a tunnel, with a connection that takes the tunnel's place."""
        connection = self._make_connection()
        try:
            transport = await asyncio.get_running_loop().start_tls(
                tunnel.transport, connection, self._tls, server_hostname=_name(self._origin)
            )
        except OSError as error:
            raise _explain(error) from error
        finally:
            self._open.discard(tunnel)
        if transport is None:
            raise UpstreamUnreachableError("the tunnel was closed")
        connection.connection_made(transport)
        return connection


def _name(url: URL) -> str:
    """Return the name that the certificate must have."""
    return (url.raw_host or "").rstrip(".")


async def _look_up(
    host: str | None, port: int | None, threads: Executor | None
) -> list[AddrInfoType]:
    loop, kind = asyncio.get_running_loop(), socket.SOCK_STREAM
    try:  # a numeric address needs no lookup on a thread
        return [*socket.getaddrinfo(host, port, type=kind, flags=socket.AI_NUMERICHOST)]
    except socket.gaierror:
        pass
    flags = socket.AI_ADDRCONFIG
    if threads is None:
        return [*await loop.getaddrinfo(host, port, type=kind, flags=flags)]
    find = functools.partial(socket.getaddrinfo, host, port, type=kind, flags=flags)
    return [*await loop.run_in_executor(threads, find)]


def _drop_failure(lookup: asyncio.Task[list[AddrInfoType]]) -> None:
    """Look at the error of a lookup; asyncio logs it if everybody who asked has left."""
    if not lookup.cancelled():
        lookup.exception()


def _explain(error: OSError) -> UpstreamError:
    """Make our error, in the system's own words."""
    kind: type[UpstreamError] = UpstreamUnreachableError
    if isinstance(error, ssl.SSLError):
        kind = UpstreamWantsCertificateError if wants_certificate(error) else UpstreamTlsError
    return kind(error.strerror or str(error))
