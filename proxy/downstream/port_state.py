"""What all connections of the traffic port share: limits, numbers, and whether we go down.

The rules are those of :mod:`proxy.downstream.downstream`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from proxy.clock import Clock, SystemClock
from proxy.limits import DownstreamLimits
from proxy.logging.logs import limit_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.rate_limit import RateLimit

__all__ = ("PortState",)

_log = logging.getLogger("spantap.downstream")


class PortState:
    """The state of the traffic port.

    Args:
        max_header_bytes: largest field and request target.
        refusals: rate limit of the log line about invalid requests.
        limits: of connections, and of how slow clients may be.
        clock: for the rate limits of other log lines.
        is_orphaned: whether the supervisor is gone; asked before each request (rule 9).

    Attributes:
        max_header_bytes: as given.
        limits: as given.
        is_orphaned: as given.
        requests_count: requests that were served, refused ones included.
        refused_count: requests that never became an exchange.
        turned_away_count: connections past the limit.
        stalled_count: connections that were cut because the client took nothing of its answer.
        closing: we go down, and each answer says that its connection ends (rule 6).
    """

    def __init__(
        self,
        *,
        max_header_bytes: int,
        refusals: RateLimit,
        limits: DownstreamLimits | None = None,
        clock: Clock | None = None,
        is_orphaned: Callable[[], bool] = lambda: False,
    ) -> None:
        self.max_header_bytes = max_header_bytes
        self.limits = limits or DownstreamLimits()
        self.is_orphaned = is_orphaned
        self._refusals = refusals
        self._full_lines = limit_lines(clock or SystemClock())
        self._stalled_lines = limit_lines(clock or SystemClock())
        self.requests_count = 0
        self.refused_count = 0
        self.turned_away_count = 0
        self.stalled_count = 0
        self.closing = False

    def count_refused(self, message: str) -> None:
        """Note a request that was refused before it became an exchange."""
        self.refused_count += 1
        _tell(self._refusals, f"refused a request: {message}")

    def count_stalled(self) -> None:
        """Note a client that was cut because it took nothing of its answer."""
        self.stalled_count += 1
        seconds = self.limits.stall_seconds
        _tell(
            self._stalled_lines, f"cut a client that took nothing of its answer for {seconds:g} s"
        )

    def count_turned_away(self) -> None:
        """Note a connection past the limit."""
        self.turned_away_count += 1
        count = self.limits.max_connections
        _tell(
            self._full_lines,
            f"turned a client away: {count} connections are open (max_connections)",
        )


def _tell(lines: RateLimit, text: str) -> None:
    if (suppressed := lines.admit()) is not None:
        more = f" ({suppressed} more since the last such line)" if suppressed else ""
        _log.warning("%s%s", text, more)
