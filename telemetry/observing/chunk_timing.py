"""When the chunks of a stream came: what its waits say, folded as they are measured.

Rules:

1. Bounded: a stream of any length is a handful of numbers, its waits a histogram of fixed buckets
   (R5). What came last is folded some reads at a time, which is the same but cheaper.
2. Chunks that one read brought came together: the first ends the wait, the others waited for
   nothing. How a server's writes fall into reads is the network's doing, and the sum of the waits
   is the same whichever way they fall.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import repeat
from operator import add, sub
from typing import Final

import msgspec

from telemetry.metrics.instruments import DURATION_BUCKETS_SECONDS

__all__ = ("ChunkClock", "ChunkTiming")

_BOUNDS_NS: Final = tuple(round(bound * 1e9) for bound in DURATION_BUCKETS_SECONDS)

MAX_UNFOLDED = 256
"""Arrivals that wait to be folded together: 2 KiB, and several seconds of a fast stream."""


class ChunkTiming(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The chunks of a stream in time.

    Attributes:
        count: how many chunks (:attr:`codec.stream.ChatStream.chunk_count`) came.
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

    __slots__ = ("_arrivals_ns", "_count", "_first_ns", "_longest_wait_ns", "_wait_counts")

    def __init__(self) -> None:
        self._count = 0
        self._first_ns: int | None = None
        self._longest_wait_ns = 0
        self._wait_counts = [0] * (len(_BOUNDS_NS) + 1)  # of reads; none for what came with others
        self._arrivals_ns: list[int] = []  # the last one folded, and what is not folded yet

    def arrive(self, count: int, at_ns: int) -> None:
        """One read at `at_ns` completed `count` chunks."""
        if not count:
            return
        self._count += count
        arrivals_ns = self._arrivals_ns
        arrivals_ns.append(at_ns)
        if len(arrivals_ns) > MAX_UNFOLDED:
            self._fold()

    def _fold(self) -> None:
        arrivals_ns = self._arrivals_ns
        if self._first_ns is None:
            self._first_ns = arrivals_ns[0]
        waits_ns = [*map(sub, arrivals_ns[1:], arrivals_ns)]
        if len(waits_ns) < len(_BOUNDS_NS):  # of a few each is looked up, of many each bound is
            for wait_ns in waits_ns:
                self._wait_counts[bisect_left(_BOUNDS_NS, wait_ns)] += 1
            self._longest_wait_ns = max(self._longest_wait_ns, *waits_ns, 0)
        else:
            waits_ns.sort()
            self._longest_wait_ns = max(self._longest_wait_ns, waits_ns[-1])
            up_to = [*map(bisect_right, repeat(waits_ns), _BOUNDS_NS)]
            counts = map(sub, [*up_to, len(waits_ns)], [0, *up_to])
            self._wait_counts = [*map(add, self._wait_counts, counts)]
        del arrivals_ns[:-1]

    def read(self) -> ChunkTiming | None:
        """What was folded so far; ``None`` where no chunk came."""
        if not self._count:
            return None
        self._fold()
        others = self._wait_counts[1:]
        return ChunkTiming(
            count=self._count,
            first_ns=self._first_ns or 0,
            last_ns=self._arrivals_ns[-1],
            longest_wait_ns=self._longest_wait_ns,
            # Rule 2: whatever no read brought first waited for nothing.
            wait_counts=(self._count - 1 - sum(others), *others),
        )
