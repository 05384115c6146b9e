"""A limit on how often the same kind of thing is done: a log line, a look at the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LOG_SECONDS = 60.0
"""The time between two log lines of one kind, as a rule."""


class RateLimit:
    """Admits some in every interval and counts the others. For one thread.

    Args:
        now_ns: nanoseconds since some fixed point. It may be a wall clock: one that is put back
            admits one too many, and silences nobody.
        interval_seconds: begins with the first that is admitted.
        burst: how many are admitted in it.
    """

    def __init__(
        self, now_ns: Callable[[], int], *, interval_seconds: float = LOG_SECONDS, burst: int = 1
    ) -> None:
        self._now_ns = now_ns
        self._interval_ns = int(interval_seconds * 1e9)
        self._burst = burst
        self._began_ns: int | None = None
        self._admitted = 0
        self._suppressed = 0

    def admit(self) -> int | None:
        """Return how many were suppressed since the last admitted; ``None`` for not now."""
        now_ns, began_ns = self._now_ns(), self._began_ns
        if began_ns is None or not 0 <= now_ns - began_ns < self._interval_ns:
            self._began_ns = now_ns
            self._admitted = 0
        elif self._admitted >= self._burst:
            self._suppressed += 1
            return None
        self._admitted += 1
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed
