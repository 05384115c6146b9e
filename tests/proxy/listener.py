"""The traffic port alone, with inbound keys and TLS: no admin port, no processes."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proxy.clock import SystemClock
from proxy.configure import build_listener_tls, read_inbound_keys
from proxy.downstream.listener_tls import HANDSHAKE_SECONDS
from proxy.downstream.port_state import PortState
from proxy.downstream.server import DownstreamServer
from proxy.downstream.tls_port import TlsPort
from proxy.relay.exchange import ExchangeRules
from proxy.relay.handler import Handler
from proxy.relay.open_exchanges import OpenExchanges
from proxy.relay.rejections import Rejections
from proxy.relay.tap import RecordedHeaders, TapSource
from proxy.settings.settings import Settings
from proxy.upstream.client import UpstreamClient, UpstreamTimeouts
from proxy.upstream.forward_proxy import ForwardProxy
from proxy.upstream.routes import UpstreamTable
from telemetry.identity import SpanIdentitySource
from telemetry.observing.client_context import HeaderMap
from tests.proxy.harness import Address, ObservingSink

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


@dataclass
class RunningListener:
    """A traffic port on loopback, what it observed and what it refused."""

    address: Address
    sink: ObservingSink
    server: DownstreamServer


@contextlib.asynccontextmanager
async def running_listener(
    upstream: str, *, handshake_seconds: float = HANDSHAKE_SECONDS, **chosen: Any
) -> AsyncIterator[RunningListener]:
    """Listen in front of an upstream, by these settings."""
    settings = Settings(upstream=upstream, **chosen)
    sink, clock = ObservingSink(), SystemClock()
    client = UpstreamClient(
        tls=ssl.create_default_context(),
        timeouts=UpstreamTimeouts(connect_seconds=5, first_byte_seconds=10, idle_seconds=10),
        forward_proxy=ForwardProxy(),
        max_header_bytes=settings.max_header_bytes,
    )
    upstreams = UpstreamTable.from_config(upstream, settings.upstreams, settings.usage)
    state = PortState(max_header_bytes=settings.max_header_bytes)
    handler = Handler(
        upstreams=upstreams,
        client=client,
        taps=TapSource(sink, clock, RecordedHeaders.of(HeaderMap.build(settings.headers))),
        identities=SpanIdentitySource(settings.trace_parent),
        rejections=Rejections(clock),
        rules=ExchangeRules(
            max_body_bytes=settings.max_body_bytes,
            on_disconnect=settings.on_disconnect,
            propagate=settings.propagate,
        ),
        open_exchanges=OpenExchanges(),
        inbound_keys=read_inbound_keys(settings),
        on_refused=state.count_refused,
    )
    server = DownstreamServer(handler, state)
    loop = asyncio.get_running_loop()
    tls = build_listener_tls(settings)
    factory: Callable[[], asyncio.BaseProtocol]
    factory = server if tls is None else TlsPort(server, tls, handshake_seconds=handshake_seconds)
    listener = await loop.create_server(factory, "127.0.0.1", 0)
    try:
        yield RunningListener(listener.sockets[0].getsockname()[:2], sink, server)
    finally:
        listener.close()
        await server.shutdown(0.1)
        await client.close()
