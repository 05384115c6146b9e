"""The clocks of the proxy, behind one small protocol, so that tests can set them."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """One reading for the time of day, one for durations."""

    def wall_ns(self) -> int:
        """Return the nanoseconds since the epoch; may jump."""
        ...

    def monotonic_ns(self) -> int:
        """Return the nanoseconds since some fixed point; never jumps."""
        ...


class SystemClock:
    """The machine's clocks, called directly, because each read of each stream asks for the time."""

    wall_ns = staticmethod(time.time_ns)
    monotonic_ns = staticmethod(time.monotonic_ns)
