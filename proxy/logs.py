"""Log lines for people: time, level, name, message, on standard error."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from telemetry.rate_limit import RateLimit

if TYPE_CHECKING:
    from proxy.clock import Clock

__all__ = ("limit_lines", "set_up_logging")

LINE_SECONDS = 10.0
"""At most one line of a kind in this time."""


def limit_lines(clock: Clock) -> RateLimit:
    """A limit for one kind of line that clients or upstreams can cause at will."""
    return RateLimit(clock.monotonic_ns, interval_seconds=LINE_SECONDS)


def set_up_logging(level: str) -> None:
    """Send the ``spantap`` loggers, and others' warnings, to standard error."""
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )
    logging.getLogger("spantap").setLevel(level)
