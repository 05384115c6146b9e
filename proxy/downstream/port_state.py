"""State that all connections of the traffic port share: limits, numbers, and the shutdown."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.clock import Clock, SystemClock
from proxy.limits import DownstreamLimits
from proxy.logging.logs import limit_lines, log_limited

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("spantap.downstream")


@dataclass(kw_only=True)
class PortState:
    """The state of the traffic port.

    Attributes:
        max_header_bytes: largest field and request target.
        is_orphaned: whether the supervisor is gone; asked before each request.
        on_upgrade: called with the target of each request for a WebSocket, which is refused.
        closing: we are shutting down, and each answer says that its connection ends.
        requests_count: requests that were served, refused ones included.
        refused_count: requests that never became an exchange.
        turned_away_count: connections past the limit.
        stalled_count: clients that were cut because they read nothing of their answers.
    """

    max_header_bytes: int
    limits: DownstreamLimits = field(default_factory=DownstreamLimits)
    clock: Clock = field(default_factory=SystemClock)
    is_orphaned: Callable[[], bool] = lambda: False
    on_upgrade: Callable[[str], None] = lambda _: None
    closing: bool = False
    requests_count: int = 0
    refused_count: int = 0
    turned_away_count: int = 0
    stalled_count: int = 0

    def __post_init__(self) -> None:
        self._refused_lines = limit_lines(self.clock)
        self._full_lines = limit_lines(self.clock)
        self._stalled_lines = limit_lines(self.clock)

    def count_refused(self, message: str) -> None:
        """Note a request that was refused before it became an exchange."""
        self.refused_count += 1
        log_limited(_log, self._refused_lines, f"refused a request: {message}")

    def count_upgrade(self, target: str) -> None:
        """Note a refused request for a WebSocket; `on_upgrade` decides what is logged."""
        self.refused_count += 1
        self.on_upgrade(target)

    def count_stalled(self) -> None:
        """Note a client that was cut."""
        self.stalled_count += 1
        seconds = self.limits.stall_seconds
        text = f"cut a client that read nothing of its answer for {seconds:g} s"
        log_limited(_log, self._stalled_lines, text)

    def count_turned_away(self) -> None:
        """Note a connection past the limit."""
        self.turned_away_count += 1
        count = self.limits.max_connections
        text = f"turned a client away: {count} connections are open (max_connections)"
        log_limited(_log, self._full_lines, text)
