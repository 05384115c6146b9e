"""Dialling by aiohttp's connector, in the place of :mod:`proxy.upstream.dialler`.

It needs no name that aiohttp keeps to itself. ``connect`` gives a connection whose transport gets
our protocol; aiohttp's own is told that it has lost it, as by a transport, and then has nothing
left to close.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
from typing import TYPE_CHECKING

import aiohttp

from proxy.upstream.connection import UpstreamConnection
from proxy.upstream.errors import (
    ConnectTimeoutError,
    ForwardProxyError,
    UpstreamError,
    UpstreamTlsError,
    UpstreamUnreachableError,
)
from proxy.upstream.forward_proxy import encode_credentials
from proxy.upstream.idle_connections import IdleConnections

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from yarl import URL

    from proxy.upstream.request import UpstreamTimeouts


class AiohttpDialler:
    """Makes connections to one origin; see :class:`proxy.upstream.dialler.Dialler`."""

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
        del threads  # aiohttp looks names up by those of the loop
        self.idle = IdleConnections()
        self._proxy = proxy
        self._is_tunnelled = proxy is not None and origin.scheme == "https"
        credentials = b"" if proxy is None else encode_credentials(proxy)
        self.authorization = None if proxy is None or self._is_tunnelled else credentials
        self._connect_seconds = timeouts.connect_seconds or None
        self._open: set[UpstreamConnection] = set()
        self._make_connection = functools.partial(
            UpstreamConnection,
            self.idle.put,
            self._open,
            max_header_bytes=max_header_bytes,
            stall_seconds=timeouts.stall_seconds,
        )
        self._connector = aiohttp.TCPConnector(
            limit=0, ssl=tls, resolver=aiohttp.ThreadedResolver(), force_close=True
        )
        self._request = aiohttp.ClientRequest(
            "GET",
            origin,
            headers={"Host": f"{origin.host_subcomponent}:{origin.port}"},
            proxy=proxy and proxy.with_user(None),
            proxy_headers={"Proxy-Authorization": credentials.decode()} if credentials else {},
            loop=asyncio.get_running_loop(),
        )

    async def dial(self) -> UpstreamConnection:
        """Make a new connection.

        Raises:
            UpstreamError: no connection could be made.
        """
        try:
            async with asyncio.timeout(self._connect_seconds):
                found = await self._connector.connect(self._request, [], aiohttp.ClientTimeout())
        except TimeoutError as error:
            raise ConnectTimeoutError from error
        except aiohttp.ClientHttpProxyError as error:
            raise ForwardProxyError(str(error.status)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._explain(error) from error
        connection, transport = self._make_connection(), found.transport
        if transport is None:
            found.close()
            raise UpstreamUnreachableError("the connection was closed")
        theirs = transport.get_protocol()
        transport.set_protocol(connection)
        connection.connection_made(transport)
        theirs.connection_lost(None)
        found.close()
        return connection

    async def close(self) -> None:
        """End all connections at once."""
        self.idle.close()
        while self._open:
            for connection in tuple(self._open):
                connection.transport.abort()
            await asyncio.sleep(0)
        await self._connector.close()

    def _explain(self, error: Exception) -> UpstreamError:
        """The error in the system's own words; nothing of the proxy's doing is the upstream's."""
        if self._proxy is not None:
            reached = self._is_tunnelled and isinstance(error, aiohttp.ClientConnectorError)
            if not reached or error.port == self._proxy.port:  # type: ignore[attr-defined]
                return ForwardProxyError()
        cause = error.__cause__ or error
        kind = UpstreamTlsError if isinstance(cause, ssl.SSLError) else UpstreamUnreachableError
        return kind(getattr(cause, "strerror", None) or str(cause))
