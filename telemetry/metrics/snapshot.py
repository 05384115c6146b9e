"""The numbers of a process at one moment: plain values that can be sent, merged and shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TypeVar

import msgspec

from telemetry.metrics.instruments import INSTRUMENTS, Kind

Labels = tuple[str | int, ...]
"""Label values in the order of the instrument's labels; an empty one is absent."""


class NumberSeries(msgspec.Struct, frozen=True, array_like=True):
    """One series of a counter or a gauge."""

    labels: Labels
    value: int | float


class HistogramSeries(msgspec.Struct, frozen=True, array_like=True):
    """One series of a histogram.

    Attributes:
        labels: of the series.
        counts: for each bucket, how many values fell into it; one more than there are bounds.
        sum: of all values, in the instrument's unit.
    """

    labels: Labels
    counts: tuple[int, ...]
    sum: float

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self.counts)


_Series = TypeVar("_Series", NumberSeries, HistogramSeries)


class Snapshot(msgspec.Struct, frozen=True):
    """All series of a process, or of several.

    Attributes:
        start_ns: when counting began, nanoseconds since the epoch.
        at_ns: when this was taken, likewise.
        numbers: of counters and gauges, by the instrument's name; one without series may be absent.
        histograms: of histograms, likewise.
    """

    start_ns: int
    at_ns: int
    numbers: Mapping[str, tuple[NumberSeries, ...]]
    histograms: Mapping[str, tuple[HistogramSeries, ...]]


def merge(snapshots: Iterable[Snapshot]) -> Snapshot:
    """The numbers of several processes together, as if there were one.

    Counters and histograms are added up, and so are gauges, except for those that merge to the
    largest. The limits on series hold for each process alone.

    Args:
        snapshots: at least one, all of the same version of spantap.

    Raises:
        ValueError: there is none, or two differ in the buckets of a histogram.
    """
    parts = tuple(snapshots)
    numbers, histograms = {}, {}
    for instrument in INSTRUMENTS:
        name = instrument.name
        if instrument.kind is Kind.HISTOGRAM:
            found = _by_labels(part.histograms.get(name, ()) for part in parts)
            histograms[name] = tuple(_add(labels, series) for labels, series in found)
        else:
            fold = max if instrument.merges_to_largest else sum
            numbers[name] = tuple(
                NumberSeries(labels, fold(one.value for one in series))
                for labels, series in _by_labels(part.numbers.get(name, ()) for part in parts)
            )
    return Snapshot(
        start_ns=min(part.start_ns for part in parts),
        at_ns=max(part.at_ns for part in parts),
        numbers=numbers,
        histograms=histograms,
    )


def without_gauges(snapshot: Snapshot) -> Snapshot:
    """Keep what a process that has ended counted, and not the values of its gauges.

    Added to those of its successor, counters continue where they were.
    """
    gauges = {instrument.name for instrument in INSTRUMENTS if instrument.kind is Kind.GAUGE}
    numbers = {name: series for name, series in snapshot.numbers.items() if name not in gauges}
    return msgspec.structs.replace(snapshot, numbers=numbers)


def _by_labels(parts: Iterable[Iterable[_Series]]) -> Iterable[tuple[Labels, list[_Series]]]:
    """The series of several processes that have the same labels."""
    found: dict[Labels, list[_Series]] = {}
    for series in chain.from_iterable(parts):
        found.setdefault(series.labels, []).append(series)
    return found.items()


def _add(labels: Labels, series: Iterable[HistogramSeries]) -> HistogramSeries:
    counts = zip(*(one.counts for one in series), strict=True)
    return HistogramSeries(labels, tuple(map(sum, counts)), sum(one.sum for one in series))
