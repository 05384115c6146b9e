"""``telemetry.metrics.registry``: counting and reading."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from telemetry.metrics.instruments import (
    CLIENT_DISCONNECTS,
    EXCHANGES_OPEN,
    INSTRUMENTS,
    REQUESTS,
    SERIES_OVERFLOWS,
    SPANS_DROPPED,
    STORE_SIZE,
    STORE_SPANS,
    TIME_TO_FIRST_CHUNK,
    TOKEN_USAGE,
    Kind,
)
from telemetry.metrics.label_limit import OTHER
from telemetry.metrics.registry import MAX_SERIES, MetricsRegistry, Reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from telemetry.metrics.instruments import Instrument
    from telemetry.metrics.snapshot import HistogramSeries

LABELS = ("chat", "openai", "gpt-4o", "", "api.openai.com", 443)


def numbers(registry: MetricsRegistry, instrument: Instrument) -> dict[object, float]:
    """The numbers of a counter or gauge by their labels."""
    return {series.labels: series.value for series in registry.snapshot().numbers[instrument.name]}


def histogram(registry: MetricsRegistry, instrument: Instrument) -> HistogramSeries:
    """The one series of a histogram."""
    (series,) = registry.snapshot().histograms[instrument.name]
    return series


def test_counters_count() -> None:
    """Each series counts for itself, one or many at a time."""
    registry = MetricsRegistry()
    registry.add(REQUESTS)
    registry.add(REQUESTS, 4)
    registry.add(SPANS_DROPPED, 2, ("store_full",))
    registry.add(SPANS_DROPPED, 3, ("tap_shed",))
    registry.add(SPANS_DROPPED, 3, ("store_full",))
    assert numbers(registry, REQUESTS) == {(): 5}
    assert numbers(registry, SPANS_DROPPED) == {("store_full",): 5, ("tap_shed",): 3}


def test_gauges_are_as_they_were_set_last() -> None:
    """A gauge forgets."""
    registry = MetricsRegistry()
    registry.set(EXCHANGES_OPEN, 7)
    registry.set(EXCHANGES_OPEN, 3)
    registry.set(STORE_SPANS, 1.5, ("pending",))
    assert numbers(registry, EXCHANGES_OPEN) == {(): 3}
    assert numbers(registry, STORE_SPANS) == {("pending",): 1.5}


@pytest.mark.parametrize(
    ("value", "bucket"),
    [(0.0, 0), (0.01, 0), (0.010001, 1), (81.92, 13), (81.93, 14), (1e9, 14)],
)
def test_a_value_falls_into_the_bucket_that_bounds_it(value: float, bucket: int) -> None:
    """An upper bound belongs to its bucket; above the last there is one more."""
    registry = MetricsRegistry()
    registry.observe_all([(TIME_TO_FIRST_CHUNK, value, LABELS)])
    series = histogram(registry, TIME_TO_FIRST_CHUNK)
    assert series.counts == tuple(int(index == bucket) for index in range(15))
    assert (series.labels, series.count, series.sum) == (LABELS, 1, value)


def test_counts_that_were_made_elsewhere_are_added_whole() -> None:
    """They and single values go together."""
    registry = MetricsRegistry()
    registry.observe_all([(TIME_TO_FIRST_CHUNK, 0.5, LABELS)])
    registry.observe_counts(TIME_TO_FIRST_CHUNK, range(15), 40.0, LABELS)
    series = histogram(registry, TIME_TO_FIRST_CHUNK)
    assert series.counts == (0, 1, 2, 3, 4, 5, 7, 7, 8, 9, 10, 11, 12, 13, 14)
    assert series.sum == 40.5


def test_wrong_shapes_are_refused() -> None:
    """Labels and buckets that are not the instrument's are a defect that shows at once."""
    registry = MetricsRegistry()
    with pytest.raises(ValueError, match=r"spantap\.spans\.dropped has the labels"):
        registry.add(SPANS_DROPPED)
    with pytest.raises(ValueError, match="has the labels"):
        registry.set(STORE_SIZE, 1, ("a",))
    with pytest.raises(ValueError, match="has the labels"):
        registry.observe_all([(TOKEN_USAGE, 1, LABELS)])
    with pytest.raises(ValueError, match="has 15 buckets"):
        registry.observe_counts(TIME_TO_FIRST_CHUNK, (1, 2), 3.0, LABELS)


def test_threads_lose_nothing() -> None:
    """Several count the same series while one takes snapshots, each consistent in itself."""
    registry = MetricsRegistry()
    done = threading.Event()
    torn: list[object] = []

    def count() -> None:
        for _ in range(2000):
            registry.add(REQUESTS)
            registry.observe_all([(TIME_TO_FIRST_CHUNK, 1.0, LABELS)])

    def look() -> None:
        while not done.is_set():
            all_series = registry.snapshot().histograms[TIME_TO_FIRST_CHUNK.name]
            torn.extend(series for series in all_series if series.count != series.sum)

    looking = threading.Thread(target=look)
    counting = [threading.Thread(target=count) for _ in range(4)]
    looking.start()
    for thread in counting:
        thread.start()
    for thread in counting:
        thread.join()
    done.set()
    looking.join()
    assert numbers(registry, REQUESTS) == {(): 8000}
    assert histogram(registry, TIME_TO_FIRST_CHUNK).count == 8000
    assert torn == []


def test_numbers_are_read_at_a_snapshot() -> None:
    """A reader is asked each time, beside what was counted, and may itself count."""
    registry = MetricsRegistry()
    sizes = iter((10, 20))

    def read() -> Iterator[Reading]:
        registry.add(CLIENT_DISCONNECTS)  # no lock is held
        yield STORE_SIZE, (), next(sizes)
        yield SPANS_DROPPED, ("store_full",), 7

    registry.add(SPANS_DROPPED, 1, ("tap_shed",))
    registry.read_from(read)
    registry.snapshot()
    snapshot = registry.snapshot()
    assert [series.value for series in snapshot.numbers[STORE_SIZE.name]] == [20]
    assert [series.value for series in snapshot.numbers[CLIENT_DISCONNECTS.name]] == [2]
    assert {series.labels: series.value for series in snapshot.numbers[SPANS_DROPPED.name]} == {
        ("tap_shed",): 1,
        ("store_full",): 7,
    }


def test_a_reader_that_fails_costs_its_own_numbers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What it gave before stands, the others are asked, and a line without its words tells."""
    seconds = 0
    registry = MetricsRegistry(now_ns=lambda: seconds * 1_000_000_000)

    def fail() -> Iterator[Reading]:
        yield STORE_SIZE, (), 1
        raise RuntimeError("sekret")

    registry.read_from(fail)
    registry.read_from(lambda: [(EXCHANGES_OPEN, (), 2)])
    for at_seconds in (0, 59, 61):
        seconds = at_seconds
        assert numbers(registry, STORE_SIZE) == {(): 1}
        assert numbers(registry, EXCHANGES_OPEN) == {(): 2}
    assert [record.getMessage() for record in caplog.records] == [
        "some metrics cannot be read: RuntimeError"
    ] * 2


def test_series_are_bounded() -> None:
    """What would be a series too many counts where all labels are ``_other``."""
    registry = MetricsRegistry()
    for number in range(MAX_SERIES + 3):
        registry.add(SPANS_DROPPED, 1, (f"reason-{number}",))
        registry.set(STORE_SPANS, number, (f"state-{number}",))
        registry.observe_all(
            [(TIME_TO_FIRST_CHUNK, 1.0, (*LABELS[:2], f"model-{number}", *LABELS[3:]))]
        )
    registry.add(SPANS_DROPPED, 1, ("reason-0",))
    dropped = numbers(registry, SPANS_DROPPED)
    assert len(dropped) == MAX_SERIES + 1
    assert (dropped[OTHER,], dropped["reason-0",]) == (3, 2)
    assert numbers(registry, STORE_SPANS)[OTHER,] == MAX_SERIES + 2
    *_, last = registry.snapshot().histograms[TIME_TO_FIRST_CHUNK.name]
    assert (last.labels, last.count) == ((OTHER,) * 6, 3)
    assert numbers(registry, SERIES_OVERFLOWS) == {
        (SPANS_DROPPED.name,): 3,
        (STORE_SPANS.name,): 3,
        (TIME_TO_FIRST_CHUNK.name,): 3,
    }


def test_counters_begin_at_zero() -> None:
    """Only those without labels can: nobody knows the values of labels yet."""
    now_ns = iter((5, 9))
    snapshot = MetricsRegistry(now_ns=lambda: next(now_ns)).snapshot()
    assert (snapshot.start_ns, snapshot.at_ns) == (5, 9)
    at_once = {
        name: [(one.labels, one.value) for one in series]
        for name, series in snapshot.numbers.items()
        if series
    }
    assert at_once == {
        instrument.name: [((), 0)]
        for instrument in INSTRUMENTS
        if instrument.kind is Kind.COUNTER and not instrument.labels
    }
    assert not any(snapshot.histograms.values())


def test_what_was_read_before_stays_when_a_reader_fails() -> None:
    """A counter that falls to 0 would look like a restart; what is no longer given is absent."""
    registry = MetricsRegistry()
    give: list[list[Reading] | None] = [[(REQUESTS, (), 5)], None, []]

    def read() -> Iterator[Reading]:
        given = give.pop(0)
        if given is None:
            raise RuntimeError("no")
        yield from given

    registry.read_from(read)
    values = [registry.snapshot().numbers[REQUESTS.name][0].value for _ in range(3)]
    assert values == [5, 5, 0]
