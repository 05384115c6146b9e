"""When the chunks of a stream came: what its waits say, folded as they are measured.

Rules:

1. Bounded: a stream of any length is a handful of numbers, its waits a histogram of fixed buckets
   (R5).
2. Chunks that one read brought came together: the first ends the wait, the others waited for
   nothing. How a server's writes fall into reads is the network's doing, and the sum of the waits
   is the same whichever way they fall.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

__all__ = ("DURATION_BUCKETS_SECONDS", "ChunkClock", "ChunkTiming")

DURATION_BUCKETS_SECONDS: Final = (
    0.01,
    0.02,
    0.04,
    0.08,
    0.16,
    0.32,
    0.64,
    1.28,
    2.56,
    5.12,
    10.24,
    20.48,
    40.96,
    81.92,
)
"""Upper bounds of ``gen_ai.client.operation.*`` (``span-contract.md`` 7.3)."""

_BOUNDS_NS: Final = tuple(round(bound * 1e9) for bound in DURATION_BUCKETS_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkTiming:
    """The chunks of a stream in time.

    Attributes:
        count: how many chunks, events with data other than ``[DONE]``, came.
        first_ns: when the first came, nanoseconds since the epoch.
        last_ns: when the last came.
        longest_wait_ns: for a chunk after the first.
        wait_counts: how many chunks after the first waited so long, for each of
            :data:`DURATION_BUCKETS_SECONDS` and, last, for longer: ``count - 1`` in all. A wait
            that is equal to a bound belongs to it.
    """

    count: int
    first_ns: int
    last_ns: int
    longest_wait_ns: int
    wait_counts: tuple[int, ...]

    @property
    def mean_wait_ns(self) -> float | None:
        """The time per output chunk; ``None`` for a single chunk."""
        return (self.last_ns - self.first_ns) / (self.count - 1) if self.count > 1 else None


class ChunkClock:
    """Folds arrivals into a :class:`ChunkTiming`. Not safe for concurrent calls."""

    def __init__(self) -> None:
        self._count = 0
        self._first_ns = self._last_ns = self._longest_wait_ns = 0
        self._wait_counts = [0] * (len(_BOUNDS_NS) + 1)

    def arrive(self, count: int, at_ns: int) -> None:
        """One read at `at_ns` completed `count` chunks."""
        if not count:
            return
        if self._count:
            wait_ns = at_ns - self._last_ns
            self._wait_counts[bisect_left(_BOUNDS_NS, wait_ns)] += 1
            self._longest_wait_ns = max(self._longest_wait_ns, wait_ns)
        else:
            self._first_ns = at_ns
        self._wait_counts[0] += count - 1  # rule 2
        self._count += count
        self._last_ns = at_ns

    def read(self) -> ChunkTiming | None:
        """What was folded so far; ``None`` where no chunk came."""
        if not self._count:
            return None
        return ChunkTiming(
            count=self._count,
            first_ns=self._first_ns,
            last_ns=self._last_ns,
            longest_wait_ns=self._longest_wait_ns,
            wait_counts=tuple(self._wait_counts),
        )
