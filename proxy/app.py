"""The composition root of a worker: settings in, a relaying proxy out.

A file that cannot be read, or a port that is taken, raises a ``ConfigurationError``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
from typing import TYPE_CHECKING

import msgspec

from codec.apis.table import COUNTS
from proxy.clock import Clock, SystemClock
from proxy.configure import (
    build_forward_proxy,
    build_listener_tls,
    build_upstream_tls,
    is_guarded,
    leads_to_us,
    read_inbound_keys,
    read_limits,
)
from proxy.downstream.listening import ACCEPTED_AT_ONCE, LISTEN_BACKLOG, listen
from proxy.downstream.port_state import PortState
from proxy.downstream.server import DownstreamServer
from proxy.downstream.tls_port import TlsPort
from proxy.own_address import INTERCEPT_HOST, is_loopback
from proxy.relay.exchange import ExchangeRules
from proxy.relay.handler import Handler
from proxy.relay.landing import Landing
from proxy.relay.open_exchanges import OpenExchanges
from proxy.relay.rejections import Rejections
from proxy.relay.tap import FrameSink, RecordedHeaders, TapSource
from proxy.relay.unobserved import UnobservedCounter
from proxy.upstream.client import UpstreamClient
from proxy.upstream.owners import Owner
from proxy.upstream.request import UpstreamTimeouts
from proxy.upstream.routes import UpstreamTable
from proxy.upstream_entry import UpstreamEntry
from telemetry.conversation_position import ConversationForm
from telemetry.errors import ConfigurationError
from telemetry.export.otel_environment import is_disabled
from telemetry.identity import SpanIdentitySource
from telemetry.metrics.instruments import (
    CONNECTIONS_OPEN,
    CONNECTIONS_REFUSED,
    CONNECTIONS_STALLED,
    EXCHANGES_OPEN,
    REQUESTS,
    REQUESTS_REFUSED,
    UPSTREAM_FAILURES,
    WEBSOCKET_BYTES,
    WEBSOCKET_MESSAGES,
    WEBSOCKETS_OPEN,
)
from telemetry.metrics.registry import MetricsRegistry
from telemetry.observing.client_context import HeaderMap
from telemetry.observing.encryption import OWN_CIPHER
from telemetry.observing.heads import AllowedFields

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Sequence

    from proxy.interception.interception import Interception
    from proxy.interception.port import InterceptPort
    from proxy.settings.worker import RelaySettings
    from telemetry.metrics.registry import Reading
    from telemetry.observing.encryption import Cipher

_log = logging.getLogger("spantap")

CUT_SECONDS = 5.0
"""How long exchanges that were cut may take to end their answers and their spans."""

MAX_LAST_TURNS = 1000
"""How many turns of the loop may accept waiting connections before the port is closed: far more
than :data:`proxy.downstream.listening.LISTEN_BACKLOG` connections need."""

ACCEPTING_TURNS = 4
"""How many turns asyncio takes from accepting a connection to reading from it. In the last one it
no longer needs the port to be open."""


class Proxy:
    """A worker: it listens on the traffic port, and relays.

    Args:
        settings: the settings of relaying.
        sink: where tap frames go.
        clock: the system's clock if not given.
        is_orphaned: says whether the supervisor is gone.
        cipher: encrypts what may be a credential in frames, and signs passes to base URLs.

    Attributes:
        metrics: its numbers.
    """

    def __init__(
        self,
        settings: RelaySettings,
        sink: FrameSink,
        *,
        clock: Clock | None = None,
        is_orphaned: Callable[[], bool] = lambda: False,
        cipher: Cipher = OWN_CIPHER,
    ) -> None:
        clock = clock or SystemClock()
        self._settings = settings
        self.metrics = MetricsRegistry()
        self._listener: asyncio.Server | None = None
        self._tls = build_listener_tls(settings)
        self.open_exchanges = OpenExchanges()
        self._client = build_client(settings)
        unobserved = UnobservedCounter(self.metrics)
        self._state = PortState(
            max_header_bytes=settings.max_header_bytes,
            limits=read_limits(settings),
            clock=clock,
            is_orphaned=is_orphaned,
            on_upgrade=unobserved.note_upgrade,
        )
        identities = SpanIdentitySource(settings.trace_parent)
        has_conversations = settings.conversations_as is not ConversationForm.OFF
        upstreams = build_upstreams(settings)
        self._handler = handler = Handler(
            upstreams=upstreams,
            client=self._client,
            taps=TapSource(
                sink,
                clock,
                RecordedHeaders.of(
                    HeaderMap.build(settings.headers), AllowedFields.build(settings.record_headers)
                ),
                max_body_bytes=settings.max_answer_bytes,
                cipher=cipher,
            ),
            identities=identities,
            rejections=Rejections(clock),
            rules=ExchangeRules(
                max_body_bytes=settings.max_body_bytes,
                on_disconnect=settings.on_disconnect,
                propagate=settings.propagate,
                shows_ids=settings.answer_ids and not is_disabled(os.environ),
                keeps_unsampled=bool(settings.keep),
                keeps_conversations=has_conversations and identities.samples_some,
                max_bodies_bytes=settings.max_bodies_bytes,
                unobserved=frozenset() if settings.count_tokens else COUNTS,
            ),
            open_exchanges=self.open_exchanges,
            inbound_keys=read_inbound_keys(settings),
            on_refused=self._state.count_refused,
            on_relayed=unobserved.note,
            on_upgrade_refused=self._state.count_upgrade,
            websockets=settings.websockets,
            cipher=cipher,
            landing=_build_landing(settings, upstreams),
        )
        self._server = DownstreamServer(handler, self._state)
        self._intercept_ports: list[InterceptPort] = []
        self._own_ports: list[tuple[str, int]] = []
        self.metrics.read_from(self._read_metrics)

    async def start(self, listener: socket.socket | None = None) -> None:
        """Accept connections, on a bound listener or on the port of the settings."""
        try:
            traffic = listener or listen("traffic", self._settings.host, self._settings.port)
            loop = asyncio.get_running_loop()
            self._listener = await loop.create_server(
                self._server if self._tls is None else TlsPort(self._server, self._tls),
                sock=traffic,
                backlog=ACCEPTED_AT_ONCE if self._settings.workers == 1 else 1,
            )
        except BaseException:
            await self.close()
            raise
        traffic.listen(LISTEN_BACKLOG)  # create_server has set it to its own argument
        self.address: tuple[str, int] = traffic.getsockname()[:2]
        self._own_ports.append(self.address)

    async def intercept(
        self, interception: Interception, listener: socket.socket | None = None
    ) -> InterceptPort:
        """Open a port that opens the TLS of model hosts for one command; the proxy closes it.

        It is that of a bound listener, or any on loopback.

        Raises:
            ConfigurationError: other machines reach the listener.
        """
        from proxy.interception.port import InterceptPort  # noqa: PLC0415 - most open none

        opened = InterceptPort(
            interception,
            server=self._server,
            relay=self._handler.relay_to,
            dial=self._client.dial_for_tunnel,
            own_ports=self._own_ports,
        )
        await opened.open(listener or listen("interception", INTERCEPT_HOST, 0))
        self._intercept_ports.append(opened)
        return opened

    async def end_intercept(self, port: InterceptPort) -> None:
        """Close a port that was opened for a command, with all its connections."""
        self._intercept_ports.remove(port)
        await port.close()

    def _read_metrics(self) -> Iterator[Reading]:
        """Yield the worker's numbers."""
        yield EXCHANGES_OPEN, (), len(self.open_exchanges)
        yield REQUESTS, (), self._state.requests_count
        yield REQUESTS_REFUSED, (), self._state.refused_count
        yield UPSTREAM_FAILURES, (), self._client.failure_count
        yield CONNECTIONS_OPEN, (), self._server.connection_count
        yield CONNECTIONS_REFUSED, (), self._state.turned_away_count
        yield CONNECTIONS_STALLED, (), self._state.stalled_count
        counts = self._handler.web_socket_counts
        yield WEBSOCKETS_OPEN, (), counts.open
        for to, passed in (
            ("to_upstream", counts.from_client),
            ("to_client", counts.from_upstream),
        ):
            yield WEBSOCKET_MESSAGES, (to,), passed.messages
            yield WEBSOCKET_BYTES, (to,), passed.bytes

    def linger(self) -> None:
        """Continue to answer, and announce to each client that its connection ends."""
        self._state.closing = True

    async def drain(self, timeout_seconds: float | None = None) -> None:
        """Accept no more connections, let open exchanges end, and cut those that take too long."""
        if timeout_seconds is None:
            timeout_seconds = self._settings.drain_seconds
        self._state.closing = True
        if self._listener is not None:
            await _accept_what_waits(self._listener.sockets)
            self._listener.close()
        for port in self._intercept_ports:
            port.stop_accepting()
        self._server.close_idle()
        if await self._wait_until_ended(timeout_seconds):
            return
        cut = self.open_exchanges.cut_all()
        left = len(self._server.connections)
        _log.warning("drain deadline: cutting %d open exchanges, %d connections left", cut, left)
        if cut:
            await self._wait_until_ended(CUT_SECONDS)

    async def _wait_until_ended(self, timeout_seconds: float) -> bool:
        """Wait until all exchanges have ended and all clients have read their answers.

        False if that takes longer.
        """
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
        for port in self._intercept_ports:
            await port.close()
        await self._server.shutdown(0.1)
        await self._client.close()


async def _accept_what_waits(listeners: Sequence[socket.socket]) -> None:
    """Let the loop accept the connections that the kernel holds: closing the port would reset them.

    Returns when nothing has waited for :data:`ACCEPTING_TURNS`.
    """
    poll = select.poll()
    for listener in listeners:
        poll.register(listener, select.POLLIN)
    quiet_turns = 0
    for _ in range(MAX_LAST_TURNS):
        quiet_turns = 0 if poll.poll(0) else quiet_turns + 1
        if quiet_turns > ACCEPTING_TURNS:
            return
        await asyncio.sleep(0)


def build_upstreams(settings: RelaySettings) -> UpstreamTable:
    """Build the table of upstreams.

    Raises:
        ConfigurationError: a table is wrong, or one leads back to the traffic port.
    """
    entries = msgspec.convert(settings.upstreams, tuple[UpstreamEntry, ...], from_attributes=True)
    try:
        upstreams = UpstreamTable.from_config(
            settings.upstream,
            entries,
            settings.usage,
            catalogue=settings.catalogue,
            # Ollama needs no key, so only clients on this machine, or with our key, may reach it.
            owners=[o for o in Owner if o is not Owner.OLLAMA or is_guarded(settings)],
        )
    except ValueError as error:
        raise ConfigurationError(f"setting 'upstream': {error}") from error
    for upstream in upstreams:
        if leads_to_us(settings, upstream.origin.host, upstream.origin.port):
            raise ConfigurationError(
                f"setting 'upstream': {upstream.name!r} at {upstream.origin} is the traffic port "
                "of spantap itself, and its calls would go round for ever: set another port, or "
                "another upstream"
            )
    return upstreams


def _build_landing(settings: RelaySettings, upstreams: UpstreamTable) -> Landing | None:
    """Build the page of ``/``; ``None`` where that path is an upstream's, or strangers may ask."""
    has_keys = settings.inbound_keys is not None or settings.inbound_keys_file is not None
    if has_keys or not upstreams.owners or not is_loopback(settings.host):
        return None
    return Landing(settings.store, "http" if settings.tls_cert is None else "https")


def build_client(settings: RelaySettings) -> UpstreamClient:
    """Build the client that speaks to upstreams; needs a running loop."""
    return UpstreamClient(
        tls=build_upstream_tls(settings),
        timeouts=UpstreamTimeouts(
            connect_seconds=settings.connect_timeout_seconds,
            first_byte_seconds=settings.first_byte_timeout_seconds,
            idle_seconds=settings.idle_timeout_seconds,
            stall_seconds=settings.upstream_stall_timeout_seconds,
        ),
        forward_proxy=build_forward_proxy(settings),
        max_header_bytes=settings.max_header_bytes,
    )
