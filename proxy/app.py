"""The composition root: settings in, a listening proxy out. The only place that wires parts."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING

from aiohttp import web

from proxy.admin import create_admin_app
from proxy.clock import Clock, SystemClock
from proxy.downstream_server import DownstreamServer
from proxy.exchange import ExchangeRules
from proxy.forward_proxy import ForwardProxy
from proxy.handler import Handler
from proxy.listening import ACCEPTED_AT_ONCE, LISTEN_BACKLOG, listen
from proxy.logs import limit_lines
from proxy.open_exchanges import OpenExchanges
from proxy.rejections import Rejections
from proxy.routes import UpstreamTable
from proxy.settings import ConfigurationError, Settings
from proxy.tap import FrameSink, RecordedHeaders, TapSource
from proxy.upstream_client import UpstreamClient, UpstreamTimeouts
from telemetry.client_context import HeaderMap
from telemetry.identity import SpanIdentitySource
from telemetry.metrics.instruments import (
    EXCHANGES_OPEN,
    REQUESTS,
    REQUESTS_REFUSED,
    UPSTREAM_FAILURES,
)
from telemetry.metrics.registry import MetricsRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from telemetry.metrics.registry import Reading

__all__ = ("Proxy", "build_client", "build_tls", "build_upstreams")

_log = logging.getLogger("spantap")

CUT_SECONDS = 5.0
"""How long what was cut may take to tell its clients and its span."""


class Proxy:
    """A worker: the traffic port and the admin port.

    Args:
        settings: see :mod:`proxy.settings`.
        sink: where tap frames go.
        clock: the worker's clocks.
        metrics: numbers for the admin port, the observing half's among them.

    Raises:
        ConfigurationError: upstreams, certificates or forward proxies cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        sink: FrameSink,
        *,
        clock: Clock | None = None,
        metrics: MetricsRegistry | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self._settings = settings
        self.metrics = metrics or MetricsRegistry()
        self._draining = False
        self._listener: asyncio.Server | None = None
        self._admin: web.AppRunner | None = None
        self.open_exchanges = OpenExchanges()
        self._client = build_client(settings)
        handler = Handler(
            upstreams=build_upstreams(settings),
            client=self._client,
            taps=TapSource(sink, clock, RecordedHeaders.of(HeaderMap.build(settings.headers))),
            identities=SpanIdentitySource(settings.trace_parent),
            rejections=Rejections(clock),
            rules=ExchangeRules(
                max_body_bytes=settings.max_body_bytes,
                on_disconnect=settings.on_disconnect,
                propagate=settings.propagate,
                keeps_unsampled=bool(settings.keep),
            ),
            open_exchanges=self.open_exchanges,
        )
        self._server = DownstreamServer(
            handler, max_header_bytes=settings.max_header_bytes, refusals=limit_lines(clock)
        )
        self.metrics.read_from(self._read_metrics)

    async def start(self) -> None:
        """Listen on both ports, or leave nothing open.

        Raises:
            ConfigurationError: a port is taken, or an address is not ours.
        """
        try:
            await self._listen()
        except BaseException:
            await self.close()
            raise

    async def _listen(self) -> None:
        settings = self._settings
        admin_app = create_admin_app(
            is_ready=lambda: not self._draining, metrics=self.metrics.snapshot
        )
        self._admin = web.AppRunner(admin_app, access_log=None)
        await self._admin.setup()
        admin = listen("admin", settings.admin_host, settings.admin_port)
        try:
            traffic = listen("traffic", settings.host, settings.port)
        except ConfigurationError:
            admin.close()
            raise
        await web.SockSite(self._admin, admin).start()
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self._server, sock=traffic, backlog=ACCEPTED_AT_ONCE
        )
        traffic.listen(LISTEN_BACKLOG)  # create_server has made it as short as its argument
        self.address: tuple[str, int] = traffic.getsockname()[:2]
        self.admin_address: tuple[str, int] = admin.getsockname()[:2]

    def _read_metrics(self) -> Iterator[Reading]:
        """This worker's numbers."""
        yield EXCHANGES_OPEN, (), len(self.open_exchanges)
        yield REQUESTS, (), self._server.requests_count
        yield REQUESTS_REFUSED, (), self._server.refused_count
        yield UPSTREAM_FAILURES, (), self._client.failure_count

    async def linger(self) -> None:
        """Say that we are going, and go on answering for a while: balancers need to notice."""
        self._draining = True
        self._server.closing = True
        await asyncio.sleep(self._settings.linger_seconds)

    async def drain(self) -> None:
        """Take no more connections, let what is open end, and cut what does not in time."""
        self._draining = True
        self._server.closing = True
        if self._listener is not None:
            self._listener.close()
        self._server.pre_shutdown()
        if await self._wait_until_ended(self._settings.drain_seconds):
            return
        cut = self.open_exchanges.cut_all()
        left = len(self._server.connections)
        _log.warning("drain deadline: cutting %d open exchanges, %d connections left", cut, left)
        if cut:
            await self._wait_until_ended(CUT_SECONDS)

    async def _wait_until_ended(self, timeout_seconds: float) -> bool:
        """Whether all that is open ended in time, and its clients took all of it."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_seconds
        if not await self.open_exchanges.wait_until_none(timeout_seconds):
            return False
        return await self._server.wait_until_unconnected(until - loop.time())

    async def close(self) -> None:
        """Close everything at once."""
        if self._listener is not None:
            self._listener.close()
        self.open_exchanges.cut_all()
        await self.open_exchanges.wait_until_none(CUT_SECONDS)
        await self._server.shutdown(0.1)
        await self._client.close()
        if self._admin is not None:
            await self._admin.cleanup()


def build_upstreams(settings: Settings) -> UpstreamTable:
    """The table of upstreams.

    Raises:
        ConfigurationError: a URL is wrong, or two tables share a name or prefix.
    """
    try:
        return UpstreamTable.from_config(settings.upstream, settings.upstreams, settings.usage)
    except ValueError as error:
        raise ConfigurationError(f"setting 'upstream': {error}") from error


def build_client(settings: Settings) -> UpstreamClient:
    """The client that speaks to upstreams; only inside a running loop.

    Raises:
        ConfigurationError: a certificate file or forward proxy cannot be used.
    """
    return UpstreamClient(
        tls=build_tls(settings),
        timeouts=UpstreamTimeouts(
            connect_seconds=settings.connect_timeout_seconds,
            first_byte_seconds=settings.first_byte_timeout_seconds,
            idle_seconds=settings.idle_timeout_seconds,
        ),
        forward_proxy=_forward_proxy(),
        max_header_bytes=settings.max_header_bytes,
    )


def build_tls(settings: Settings) -> ssl.SSLContext:
    """Verified TLS to upstreams, with the additional authority and our own certificate.

    Raises:
        ConfigurationError: a certificate file cannot be used.
    """
    context = ssl.create_default_context()
    try:
        if settings.ca_file is not None:
            context.load_verify_locations(cafile=settings.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"setting 'ca_file': {settings.ca_file}: {error}") from error
    try:
        if settings.client_cert is not None:
            context.load_cert_chain(settings.client_cert, settings.client_key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"setting 'client_cert': {error}") from error
    return context


def _forward_proxy() -> ForwardProxy:
    try:
        return ForwardProxy.from_environment()
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
