"""The traffic port alone with its limits small: by settings, as they are wired in a worker."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proxy.clock import SystemClock
from proxy.downstream_server import DownstreamServer
from proxy.exchange import ExchangeRules
from proxy.forward_proxy import ForwardProxy
from proxy.handler import Handler
from proxy.limits import DownstreamLimits
from proxy.logs import limit_lines
from proxy.open_exchanges import OpenExchanges
from proxy.rejections import Rejections
from proxy.routes import UpstreamTable
from proxy.settings import Settings
from proxy.tap import TapSource
from proxy.tls_port import TlsPort
from proxy.upstream_client import UpstreamClient, UpstreamTimeouts
from telemetry.frames import End
from telemetry.identity import SpanIdentitySource
from tests.proxy.harness import Address, ObservingSink

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from proxy.request_body import BodyBudget


@dataclass
class Limited:
    """A traffic port on loopback, what it observed, and what it counts."""

    address: Address
    sink: ObservingSink
    server: DownstreamServer
    client: UpstreamClient
    open_exchanges: OpenExchanges
    bodies: BodyBudget

    async def wait_for_end(self) -> End:
        """The one ``end`` of the one exchange."""
        await self.sink.wait_for()
        [end] = [frame for frame in self.sink.frames if isinstance(frame, End)]
        return end


@contextlib.asynccontextmanager
async def limited_proxy(
    upstream: str,
    *,
    send_buffer_bytes: int | None = None,
    tls: ssl.SSLContext | None = None,
    **chosen: Any,
) -> AsyncIterator[Limited]:
    """Listen in front of an upstream.

    Args:
        upstream: its URL.
        send_buffer_bytes: what the kernel holds for each client, instead of megabytes.
        tls: of the listener, where it has any.
        chosen: settings.
    """
    settings = Settings(upstream=upstream, **chosen)
    sink, clock, open_exchanges = ObservingSink(), SystemClock(), OpenExchanges()
    client = UpstreamClient(
        tls=ssl.create_default_context(),
        timeouts=UpstreamTimeouts(
            connect_seconds=settings.connect_timeout_seconds,
            first_byte_seconds=settings.first_byte_timeout_seconds,
            idle_seconds=settings.idle_timeout_seconds,
            stall_seconds=settings.upstream_stall_timeout_seconds,
        ),
        forward_proxy=ForwardProxy(),
        max_header_bytes=settings.max_header_bytes,
    )
    handler = Handler(
        upstreams=UpstreamTable.from_config(upstream, (), settings.usage),
        client=client,
        taps=TapSource(sink, clock),
        identities=SpanIdentitySource(),
        rejections=Rejections(clock),
        rules=ExchangeRules(
            max_body_bytes=settings.max_body_bytes,
            on_disconnect=settings.on_disconnect,
            propagate=settings.propagate,
            max_bodies_bytes=settings.max_bodies_bytes,
        ),
        open_exchanges=open_exchanges,
    )
    server = DownstreamServer(
        handler,
        max_header_bytes=settings.max_header_bytes,
        refusals=limit_lines(clock),
        limits=DownstreamLimits.of(settings),
        clock=clock,
    )
    sock = socket.create_server(("127.0.0.1", 0))
    if send_buffer_bytes is not None:  # connections have it from their listener
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
    factory: Callable[[], asyncio.BaseProtocol]
    factory = server if tls is None else TlsPort(server, tls)
    listener = await asyncio.get_running_loop().create_server(factory, sock=sock)
    try:
        address = listener.sockets[0].getsockname()[:2]
        yield Limited(address, sink, server, client, open_exchanges, handler.bodies)
    finally:
        listener.close()
        open_exchanges.cut_all()
        await server.shutdown(0.1)
        await client.close()
