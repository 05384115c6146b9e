"""``telemetry.metrics.snapshot``: numbers that can be sent and merged."""

from __future__ import annotations

from functools import reduce

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.metrics.instruments import (
    EXCHANGES_OPEN,
    REQUESTS,
    SPANS_DROPPED,
    STORE_OLDEST_PENDING_AGE,
    TIME_TO_FIRST_CHUNK,
)
from telemetry.metrics.registry import MetricsRegistry
from telemetry.metrics.snapshot import HistogramSeries, Snapshot, merge

LABELS = ("chat", "openai", "gpt-4o", "", "api.openai.com", 443)
OTHER_LABELS = ("chat", "openai", "gpt-4o", "", "localhost", 8000)


def take(start_ns: int, **amounts: int) -> Snapshot:
    """A snapshot of a process of its own, one second after its start."""
    times = iter((start_ns, start_ns + 1_000_000_000))
    registry = MetricsRegistry(now_ns=lambda: next(times))
    registry.add(REQUESTS, amounts.get("requests", 0))
    registry.add(SPANS_DROPPED, amounts.get("dropped", 0), ("store_full",))
    registry.set(EXCHANGES_OPEN, amounts.get("open", 0))
    registry.set(STORE_OLDEST_PENDING_AGE, amounts.get("age", 0))
    for value in range(amounts.get("values", 0)):
        registry.observe_all([(TIME_TO_FIRST_CHUNK, float(value), LABELS)])
    return registry.snapshot()


def values(snapshot: Snapshot, name: str) -> dict[tuple[str | int, ...], float]:
    """The numbers of an instrument by their labels."""
    return {series.labels: series.value for series in snapshot.numbers[name]}


def test_counters_and_gauges_add_up() -> None:
    """Two processes together have what each has, but the oldest of all is the older of two."""
    merged = merge([take(5, requests=1, open=2, age=7), take(3, requests=10, open=20, age=4)])
    assert values(merged, REQUESTS.name) == {(): 11}
    assert values(merged, EXCHANGES_OPEN.name) == {(): 22}
    assert values(merged, STORE_OLDEST_PENDING_AGE.name) == {(): 7}
    assert (merged.start_ns, merged.at_ns) == (3, 1_000_000_005)


def test_series_are_merged_by_their_labels() -> None:
    """What only one of them has is taken as it is."""
    registry = MetricsRegistry()
    registry.add(SPANS_DROPPED, 3, ("tap_shed",))
    registry.observe_all([(TIME_TO_FIRST_CHUNK, 0.5, OTHER_LABELS)])
    merged = merge([take(0, dropped=4, values=1), registry.snapshot()])
    assert values(merged, SPANS_DROPPED.name) == {("store_full",): 4, ("tap_shed",): 3}
    assert [series.labels for series in merged.histograms[TIME_TO_FIRST_CHUNK.name]] == [
        LABELS,
        OTHER_LABELS,
    ]


def test_histograms_add_up_bucket_by_bucket() -> None:
    """Counts and sums are those of all values together."""
    (alone,) = take(0, values=5).histograms[TIME_TO_FIRST_CHUNK.name]
    (merged,) = merge([take(0, values=2), take(0, values=5)]).histograms[TIME_TO_FIRST_CHUNK.name]
    assert merged.count == 7
    assert merged.sum == 0 + 1 + (0 + 1 + 2 + 3 + 4)
    assert merged.counts[0] == 2  # the two zeros
    assert merged.counts[-1] == alone.counts[-1] == 0


def test_other_buckets_cannot_be_merged() -> None:
    """Versions that differ in their buckets are told apart, not added wrongly."""
    name = TIME_TO_FIRST_CHUNK.name
    series = HistogramSeries(LABELS, (1, 2), 3.0)
    other = Snapshot(start_ns=0, at_ns=0, numbers={}, histograms={name: (series,)})
    with pytest.raises(ValueError, match="zip"):
        merge([other, take(0, values=1)])


def test_nothing_cannot_be_merged() -> None:
    """There is no snapshot of no process."""
    with pytest.raises(ValueError, match="empty"):
        merge([])


def test_a_snapshot_travels() -> None:
    """Another process decodes what it was sent to an equal value."""
    snapshot = take(7, requests=1, dropped=2, open=3, values=4)
    sent = msgspec.msgpack.encode(snapshot)
    assert msgspec.msgpack.decode(sent, type=Snapshot) == snapshot


def test_a_snapshot_does_not_change() -> None:
    """What is counted later is not in it."""
    registry = MetricsRegistry()
    registry.observe_all([(TIME_TO_FIRST_CHUNK, 1.0, LABELS)])
    before = registry.snapshot()
    copy = msgspec.msgpack.encode(before)
    registry.add(REQUESTS)
    registry.observe_all([(TIME_TO_FIRST_CHUNK, 1.0, LABELS)])
    assert msgspec.msgpack.encode(before) == copy
    with pytest.raises(AttributeError):
        before.numbers[REQUESTS.name][0].value = 7  # type: ignore[misc]  # so says the type


AMOUNTS = st.fixed_dictionaries(
    dict.fromkeys(("requests", "dropped", "open", "age", "values"), st.integers(0, 9))
)


@given(st.lists(AMOUNTS, min_size=1, max_size=4))
def test_the_order_of_merging_does_not_matter(processes: list[dict[str, int]]) -> None:
    """All at once is one after the other."""
    snapshots = [take(number, **amounts) for number, amounts in enumerate(processes)]
    one_by_one = reduce(lambda one, other: merge([one, other]), snapshots)
    assert merge([one_by_one]) == merge(snapshots)
