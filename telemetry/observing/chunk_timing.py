"""Records when the chunks of a stream came, and how long the wait for each was.

A stream of any length becomes a few numbers, and its waits a histogram of fixed buckets (R5).

Chunks of one read came together: the wait for the first one ends with the read, and the others had
no wait. The network decides how a server's writes fall into reads, and the sum of the waits is the
same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import repeat
from operator import sub
from typing import Final

import msgspec

from telemetry.metrics.buckets import DURATION_BUCKETS_SECONDS

_BOUNDS_NS: Final = tuple(round(bound * 1e9) for bound in DURATION_BUCKETS_SECONDS)

MAX_UNFOLDED = 256
"""Arrivals that are folded together, which is cheaper: 2 KiB, and seconds of a fast stream."""


class ChunkTiming(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The chunks of a stream in time.

    Attributes:
        count: how many chunks (:attr:`codec.chat.stream.ChatStream.chunk_count`) came.
        first_ns: when the first one came, in nanoseconds since the epoch.
        longest_wait_ns: the longest wait for a chunk after the first.
        longest_wait_at: the place of the first chunk with the longest wait, at least 2; 0 if there
            was no wait.
        wait_counts: chunks after the first by their wait, for each of
            :data:`DURATION_BUCKETS_SECONDS` (the bounds belong to it) and, at the end, for longer.
    """

    count: int
    first_ns: int
    last_ns: int
    longest_wait_ns: int
    longest_wait_at: int = 0
    wait_counts: tuple[int, ...]

    @property
    def mean_wait_ns(self) -> float | None:
        """The average time per output chunk; ``None`` for a single chunk."""
        return (self.last_ns - self.first_ns) / (self.count - 1) if self.count > 1 else None


class ChunkClock:
    """Folds arrivals into a :class:`ChunkTiming`. Not safe for concurrent calls."""

    __slots__ = (
        *("_arrivals_ns", "_count", "_first_ns", "_longest_wait_at", "_longest_wait_ns"),
        *("_place", "_together", "_wait_counts"),
    )

    def __init__(self) -> None:
        self._count = 0
        self._first_ns: int | None = None
        self._longest_wait_ns = 0
        self._longest_wait_at = 0
        self._place = 1  # of the first chunk of the first arrival that is held
        self._together: list[tuple[int, int]] = []  # chunks after the first of their arrival
        self._wait_counts = [0] * (len(_BOUNDS_NS) + 1)  # of reads
        self._arrivals_ns: list[int] = []  # the last one folded, and what is not folded yet

    @property
    def first_ns(self) -> int | None:
        """When the first chunk came; ``None`` while none has."""
        if self._first_ns is None and self._arrivals_ns:
            return self._arrivals_ns[0]
        return self._first_ns

    def arrive(self, count: int, at_ns: int) -> None:
        """Note that one read at `at_ns` completed `count` chunks."""
        if not count:
            return
        self._count += count
        arrivals_ns = self._arrivals_ns
        if count > 1:
            self._together.append((len(arrivals_ns), count - 1))
        arrivals_ns.append(at_ns)
        if len(arrivals_ns) > MAX_UNFOLDED:
            self._fold()

    def _fold(self) -> None:
        arrivals_ns = self._arrivals_ns
        if self._first_ns is None:
            self._first_ns = arrivals_ns[0]
        waits_ns = [*map(sub, arrivals_ns[1:], arrivals_ns)]
        longest_ns = max(waits_ns, default=0)
        if longest_ns > self._longest_wait_ns:
            self._longest_wait_ns = longest_ns
            self._longest_wait_at = self._find_place(waits_ns.index(longest_ns) + 1)
        for bucket, count in Counter(map(bisect_left, repeat(_BOUNDS_NS), waits_ns)).items():
            self._wait_counts[bucket] += count
        last = len(arrivals_ns) - 1
        self._place = self._find_place(last)
        self._together = [(0, more) for arrival, more in self._together if arrival == last]
        del arrivals_ns[:-1]

    def _find_place(self, arrival: int) -> int:
        """Count the chunks up to the first one of an arrival that is held, itself included."""
        more = sum(more for earlier, more in self._together if earlier < arrival)
        return self._place + arrival + more

    def read(self) -> ChunkTiming | None:
        """Return what was folded so far, ``None`` if no chunk came."""
        if not self._count:
            return None
        self._fold()
        others = self._wait_counts[1:]
        return ChunkTiming(
            count=self._count,
            first_ns=self._first_ns or 0,
            last_ns=self._arrivals_ns[-1],
            longest_wait_ns=self._longest_wait_ns,
            longest_wait_at=self._longest_wait_at,
            # Only the first chunk of a read waited.
            wait_counts=(self._count - 1 - sum(others), *others),
        )
