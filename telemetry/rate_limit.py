"""A limit on how often the same kind of thing is done: a log line, a look at the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("RateLimit",)


class RateLimit:
    """Admits one in every interval and counts the others. For one thread.

    Args:
        now_ns: nanoseconds since some fixed point. It may be a wall clock: one that is put back
            admits one too many, and silences nobody.
        interval_seconds: from one that is admitted to the next.
    """

    def __init__(self, now_ns: Callable[[], int], *, interval_seconds: float) -> None:
        self._now_ns = now_ns
        self._interval_ns = int(interval_seconds * 1e9)
        self._admitted_ns: int | None = None
        self._suppressed = 0

    def admit(self) -> int | None:
        """``None``: not now. Otherwise how many were suppressed since the last admitted."""
        now_ns, admitted_ns = self._now_ns(), self._admitted_ns
        if admitted_ns is not None and 0 <= now_ns - admitted_ns < self._interval_ns:
            self._suppressed += 1
            return None
        self._admitted_ns = now_ns
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed
