"""The clocks of the proxy, behind one small protocol so that tests can turn them."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """One reading to tell the time, one to measure it."""

    def wall_ns(self) -> int:
        """Return the nanoseconds since the epoch; may jump."""
        ...

    def monotonic_ns(self) -> int:
        """Return the nanoseconds since some fixed point; never jumps."""
        ...


class SystemClock:
    """The machine's clocks, without a layer: each read of each stream reads them."""

    wall_ns = staticmethod(time.time_ns)
    monotonic_ns = staticmethod(time.monotonic_ns)
