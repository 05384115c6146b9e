"""Makes connections to upstreams: names, TCP, TLS and forward proxies.

Rules:

1. A name is asked for once at a time, and its addresses are used for :data:`KEEP_NAME_SECONDS`, in
   turn: a burst of calls asks once, and goes to all of them.
2. Where an upstream has several addresses the next is tried when one does not answer soon (RFC
   8305), and when TLS fails at one.
3. Nothing of a forward proxy's doing is blamed on the upstream.
4. There is no limit of the number of connections: there is at most one per open request of a
   client, and queueing here would be waiting nobody sees.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import socket
import ssl
from typing import TYPE_CHECKING

import aiohappyeyeballs

from proxy.tasks import spawn
from proxy.upstream.connection import UpstreamConnection
from proxy.upstream.errors import (
    ConnectTimeoutError,
    ForwardProxyError,
    UpstreamError,
    UpstreamTlsError,
    UpstreamUnreachableError,
)
from proxy.upstream.forward_proxy import encode_credentials

if TYPE_CHECKING:
    from aiohappyeyeballs import AddrInfoType
    from yarl import URL

    from proxy.upstream.forward_proxy import ForwardProxy

__all__ = ("Dialler",)

KEEP_NAME_SECONDS = 10.0
"""Long enough for a burst, short enough for an upstream that moves."""

NEXT_ADDRESS_SECONDS = 0.25
"""The connection attempt delay that RFC 8305 recommends (section 5)."""


class Dialler:
    """Makes connections.

    Args:
        tls: for origins of https, and for forward proxies of https.
        connect_seconds: how long it may take to make a connection; 0 means for ever.
        forward_proxy: what is between us and the upstreams.
        max_header_bytes: of one field of a forward proxy's answer.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext,
        connect_seconds: float,
        forward_proxy: ForwardProxy,
        max_header_bytes: int,
    ) -> None:
        self._tls = tls
        self._connect_seconds = connect_seconds
        self._forward_proxy = forward_proxy
        self._max_header_bytes = max_header_bytes
        self._open: set[UpstreamConnection] = set()
        self._make_connection = functools.partial(UpstreamConnection, self._open)
        self._lookups: dict[URL, tuple[asyncio.Task[list[AddrInfoType]], float]] = {}

    async def dial(self, origin: URL) -> UpstreamConnection:
        """A new connection to an origin.

        Raises:
            UpstreamError: there is none to be had.
        """
        proxy = self._forward_proxy.find(origin)
        try:
            async with asyncio.timeout(self._connect_seconds or None):
                if proxy is None:
                    return await self._connect(origin)
                return await self._connect_through(proxy, origin)
        except TimeoutError as error:
            raise ConnectTimeoutError from error

    async def close(self) -> None:
        """End all connections at once."""
        while self._open:
            for connection in tuple(self._open):
                connection.abort()
            await asyncio.sleep(0)

    async def _connect(self, origin: URL) -> UpstreamConnection:
        """Connect directly, by each address of the name (rule 2)."""
        try:
            addresses = await self._find_addresses(origin)
        except OSError as error:
            raise UpstreamUnreachableError(_words(error)) from error
        while True:
            try:
                return await self._connect_to(addresses, origin)
            except UpstreamError:
                aiohappyeyeballs.pop_addr_infos_interleave(addresses)
                if not addresses:
                    raise

    async def _connect_to(self, addresses: list[AddrInfoType], origin: URL) -> UpstreamConnection:
        tls, loop = origin.scheme == "https", asyncio.get_running_loop()
        try:
            sock = await aiohappyeyeballs.start_connection(
                addresses, happy_eyeballs_delay=NEXT_ADDRESS_SECONDS
            )
            _, connection = await loop.create_connection(
                self._make_connection,
                sock=sock,
                ssl=self._tls if tls else None,
                server_hostname=_host(origin) if tls else None,
            )
        except OSError as error:
            raise _explain(error) from error
        return connection

    async def _find_addresses(self, origin: URL) -> list[AddrInfoType]:
        """The addresses of a host, another one first each time (rule 1).

        Raises:
            OSError: it has none.
        """
        if (addresses := _read_address(origin)) is not None:
            return addresses
        now = asyncio.get_running_loop().time()
        lookup, until = self._lookups.get(origin, (None, now))
        if lookup is None or (lookup.done() and (now >= until or lookup.exception())):
            lookup = spawn(_look_up(origin), name="look up")
            self._lookups[origin] = lookup, now + KEEP_NAME_SECONDS
        found = await asyncio.shield(lookup)
        found.append(found.pop(0))
        return [found[-1], *found[:-1]]

    async def _connect_through(self, proxy: URL, origin: URL) -> UpstreamConnection:
        """Connect to a forward proxy, and for TLS through it to the origin (rule 3)."""
        try:
            connection = await self._connect(proxy)
            if origin.scheme != "https":
                return connection
            try:
                await self._ask_for_tunnel(connection, proxy, origin)
            except BaseException:
                connection.abort()
                raise
        except ForwardProxyError:
            raise
        except UpstreamError as error:
            raise ForwardProxyError from error
        return await self._start_tls(connection, origin)

    async def _ask_for_tunnel(
        self, connection: UpstreamConnection, proxy: URL, origin: URL
    ) -> None:
        """Ask by CONNECT (RFC 9110 section 9.3.6); what follows the answer's head is no body."""
        connection.begin(head_only=True, max_header_bytes=self._max_header_bytes, stall_seconds=0)
        authority = f"{origin.host_subcomponent}:{origin.port}".encode("ascii")
        head = b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n" % (authority, authority)
        if credentials := encode_credentials(proxy):
            head += b"Proxy-Authorization: %b\r\n" % credentials
        connection.transport.write(head + b"\r\n")
        response = await connection.read_head()
        if response.status != 200:
            raise ForwardProxyError(str(response.status))

    async def _start_tls(self, tunnel: UpstreamConnection, origin: URL) -> UpstreamConnection:
        connection = self._make_connection()
        try:
            transport = await asyncio.get_running_loop().start_tls(
                tunnel.transport, connection, self._tls, server_hostname=_host(origin)
            )
        except OSError as error:
            raise _explain(error) from error
        finally:
            self._open.discard(tunnel)
        if transport is None:
            raise UpstreamUnreachableError("the tunnel was closed")
        connection.connection_made(transport)
        return connection


def _host(origin: URL) -> str:
    """The name that a certificate has to hold."""
    return (origin.raw_host or "").rstrip(".")


def _read_address(origin: URL) -> list[AddrInfoType] | None:
    """The address that stands in the place of a name."""
    host = origin.raw_host or ""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return None
    return aiohappyeyeballs.addr_to_addr_infos((host, origin.port or 0))


async def _look_up(origin: URL) -> list[AddrInfoType]:
    loop = asyncio.get_running_loop()
    return [
        *await loop.getaddrinfo(
            origin.raw_host, origin.port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
    ]


def _explain(error: OSError) -> UpstreamError:
    return (UpstreamTlsError if isinstance(error, ssl.SSLError) else UpstreamUnreachableError)(
        _words(error)
    )


def _words(error: OSError) -> str:
    """The system's own words."""
    return error.strerror or str(error)
