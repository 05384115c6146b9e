"""What all connections of one interception share."""

from __future__ import annotations

import hmac
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.interception.interception import Refusal, TunnelReason
from proxy.interception.leaf_contexts import LeafContexts
from proxy.interception.tally import Tally
from proxy.own_address import is_loopback, is_own_address

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Iterable

    from proxy.downstream.connection import DownstreamConnection
    from proxy.downstream.downstream import Answered, Downstream
    from proxy.downstream.server import DownstreamServer
    from proxy.interception.connect_head import ConnectRequest
    from proxy.interception.interception import Interception

MAX_TUNNELS = 1024
"""How many tunnels may be open: a build that fetches packages has some hundred. They count
against the limit of connections as well, and may take half of it at most: the rest is for calls."""

_USUAL = frozenset({Refusal.NO_SECRET, Refusal.UNREACHABLE})
"""Refusals that need no line in the log. Some clients, such as git, show the secret only when it is
asked for, and hosts that cannot be reached are the client's own affair."""


@dataclass(kw_only=True, eq=False, repr=False)
class InterceptState:
    """What the connections of a port share.

    Attributes:
        server: counts and limits connections, together with those of the traffic port.
        relay: answers a request that goes to the origin with this URL, for the launch with this
            label.
        dial: makes a connection for a tunnel.
        own_ports: where spantap listens itself; the ports of other interceptions come and go.
        is_over: everything new is tunnelled.
        opened: the opened connections, and the host of each.
        transports: the other connections to clients, which count against the limit here.
        tunnel_count: open tunnels.
    """

    interception: Interception
    server: DownstreamServer
    relay: Callable[[str, str, Downstream], Awaitable[Answered]]
    dial: Callable[[str, int], Awaitable[asyncio.Transport]]
    own_ports: list[tuple[str, int]]
    is_over: bool = False
    opened: dict[DownstreamConnection, str] = field(default_factory=dict)
    transports: set[asyncio.Transport] = field(default_factory=set)
    tunnel_count: int = 0

    def __post_init__(self) -> None:
        self.tally = Tally()
        self.contexts = LeafContexts(self.interception)
        self._secret = self.interception.secret.encode()

    @property
    def max_tunnels(self) -> int:
        """How many tunnels may be open."""
        return min(MAX_TUNNELS, self.server.state.limits.max_connections // 2)

    def admit(self, transport: asyncio.Transport) -> bool:
        """Count a new connection, or turn it away if there are too many."""
        if self.server.is_full:
            self.server.turn_away(transport)
            return False
        self.server.other_count += 1
        self.transports.add(transport)
        return True

    def release(self, transport: asyncio.Transport) -> None:
        """Count a connection no more, because it is gone or is counted as an opened one."""
        if transport in self.transports:
            self.server.other_count -= 1
            self.transports.remove(transport)

    def is_secret(self, password: bytes | None) -> bool:
        """Tell whether a password is the secret, in a time that does not depend on it."""
        return password is not None and hmac.compare_digest(password, self._secret)

    def find_tunnel_reason(self, host: str, port: int) -> TunnelReason | None:
        """Return why a host is tunnelled; ``None`` if it is opened."""
        if self.is_over:
            return TunnelReason.RUN_OVER
        if host not in self.interception.hosts:
            return TunnelReason.NOT_LISTED
        if port != 443:
            return TunnelReason.OTHER_PORT
        if (reason := self.interception.tunnelled.get(host)) is not None:
            return reason
        if not self.contexts.cover(host):
            return TunnelReason.NOT_COVERED
        if self.contexts.have_ended():
            return TunnelReason.ENDED
        return self.tally.find_tunnel_reason(host)

    def leave_alone(self, host: str) -> None:
        """Tunnel a host from now on, because it wants a client certificate.

        Its opened connections end now, or with their next answer.
        """
        self.tally.note_wants_certificate(host)
        for connection, opened_host in tuple(self.opened.items()):
            if opened_host == host:
                connection.close_if_idle()

    def is_ours(self, asked: ConnectRequest) -> bool:
        """Tell whether a CONNECT names one of our own ports."""
        return any(is_own_address(ours, asked.host, asked.port) for ours in self._all_own_ports())

    def leads_to_us(self, far: asyncio.Transport) -> bool:
        """Tell whether a connection reached one of our own ports, by whatever name."""
        peer, own = far.get_extra_info("peername"), far.get_extra_info("sockname")
        if not peer or not own or (peer[0] != own[0] and not is_loopback(peer[0])):
            return False  # that is another machine
        return any(peer[1] == port for _, port in self._all_own_ports())

    def _all_own_ports(self) -> Iterable[tuple[str, int]]:
        return itertools.chain(self.own_ports, self.interception.own_ports)

    def refuse(self, refusal: Refusal) -> None:
        """Note a refusal, and log it unless it is usual."""
        self.tally.note_refused(refusal)
        if refusal not in _USUAL:
            self.server.state.count_refused(f"{refusal} (interception)")
