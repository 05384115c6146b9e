"""A limit on how often the same kind of line is logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.clock import Clock

__all__ = ("RateLimit",)

_SECOND_NS = 1_000_000_000


class RateLimit:
    """Admits one in every ``interval_seconds`` and counts the others."""

    def __init__(self, clock: Clock, *, interval_seconds: float = 10.0) -> None:
        self._clock = clock
        self._interval_ns = int(interval_seconds * _SECOND_NS)
        self._next_ns: int | None = None
        self._suppressed = 0

    def admit(self) -> int | None:
        """``None``: stay silent. Otherwise how many were suppressed since the last admitted."""
        now_ns = self._clock.monotonic_ns()
        if self._next_ns is not None and now_ns < self._next_ns:
            self._suppressed += 1
            return None
        self._next_ns = now_ns + self._interval_ns
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed
