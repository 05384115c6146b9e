"""``telemetry.observing.chunk_timing``: when the chunks of a stream came."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, pairwise
from unittest import mock

from hypothesis import example, given
from hypothesis import strategies as st

from telemetry.metrics.buckets import DURATION_BUCKETS_SECONDS
from telemetry.observing import chunk_timing
from telemetry.observing.chunk_timing import ChunkClock, ChunkTiming

MS = 1_000_000


def fold(*arrivals: tuple[int, int]) -> ChunkTiming | None:
    """The timing of reads, each a number of chunks and a time in milliseconds."""
    clock = ChunkClock()
    for count, at_ms in arrivals:
        clock.arrive(count, at_ms * MS)
    return clock.read()


def test_no_chunk_has_no_timing() -> None:
    """Neither before the first read nor after reads that complete no chunk."""
    assert fold() is None
    assert fold((0, 5), (0, 9)) is None


def test_a_single_chunk_waited_for_nothing() -> None:
    """It has an arrival, but no time per output chunk."""
    timing = fold((0, 90), (1, 100))
    assert timing is not None
    assert (timing.count, timing.first_ns, timing.last_ns) == (1, 100 * MS, 100 * MS)
    assert timing.mean_wait_ns is None
    assert timing.longest_wait_ns == sum(timing.wait_counts) == 0


def test_waits_fall_into_buckets() -> None:
    """A wait that equals a bound belongs to it; what is longer than all of them comes last."""
    timing = fold((1, 0), (1, 10), (1, 21), (1, 100_000))
    assert timing is not None
    assert timing.wait_counts[:2] == (1, 1)
    assert timing.wait_counts[-1] == 1
    assert timing.longest_wait_ns == 99_979 * MS


def test_chunks_of_one_read_came_together() -> None:
    """The first of them ends the wait, the others waited for nothing."""
    timing = fold((2, 0), (3, 50))
    assert timing is not None
    assert timing.count == 5
    assert timing.wait_counts[0] == 3
    assert timing.wait_counts[bisect_left(DURATION_BUCKETS_SECONDS, 0.05)] == 1
    assert timing.mean_wait_ns == 12.5 * MS


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 200_000)), max_size=30))
def test_any_arrivals_fold_to_what_a_list_of_them_says(
    steps: list[tuple[int, int]],
) -> None:
    """The fold equals the plain calculation over all arrivals, in a fixed number of numbers."""
    times = accumulate(step for _, step in steps)
    arrivals = [(count, at) for (count, _), at in zip(steps, times, strict=True)]
    moments = [at for count, at in arrivals for _ in range(count)]
    timing = fold(*arrivals)
    if not moments:
        assert timing is None
        return
    assert timing is not None
    waits = [later - earlier for earlier, later in pairwise(moments)]
    longest = max(waits, default=0)
    assert timing.longest_wait_ns == longest * MS
    assert timing.longest_wait_at == (waits.index(longest) + 2 if longest else 0)
    assert sum(timing.wait_counts) == timing.count - 1 == len(waits)
    assert len(timing.wait_counts) == len(DURATION_BUCKETS_SECONDS) + 1
    for place, bound in enumerate(DURATION_BUCKETS_SECONDS):
        assert sum(timing.wait_counts[: place + 1]) == sum(w <= bound * 1000 for w in waits)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 90)), max_size=120), st.integers(1, 40))
@example([(1, 0), (1, 90), *((1, 91 + place) for place in range(60))], 20)
def test_how_many_reads_are_folded_at_a_time_changes_nothing(
    arrivals: list[tuple[int, int]], at_a_time: int
) -> None:
    """Also where a clock goes backwards; and no more wait than that."""
    together = fold(*arrivals)
    with mock.patch.object(chunk_timing, "MAX_UNFOLDED", at_a_time):
        clock = ChunkClock()
        for count, at_ms in arrivals:
            clock.arrive(count, at_ms * MS)
            assert len(clock._arrivals_ns) <= at_a_time
        assert clock.read() == together
