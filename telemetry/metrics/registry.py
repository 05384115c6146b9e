"""Count numbers, and read those that other objects count for themselves.

Any thread may count and any may take a snapshot. A number that some object keeps anyway (what is
open, what is stored) is not counted again, but read when a snapshot is taken.
"""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_left
from operator import add
from typing import TYPE_CHECKING

from telemetry.metrics.instruments import INSTRUMENTS, SERIES_OVERFLOWS, Instrument, Kind
from telemetry.metrics.label_limit import OTHER
from telemetry.metrics.snapshot import HistogramSeries, Labels, NumberSeries, Snapshot
from telemetry.rate_limit import RateLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_log = logging.getLogger("spantap.telemetry")

MAX_SERIES = 1000
"""Series of one instrument (R5): 50 models, four names for each, five outcomes. If all histograms
are full, they take some 3 MB here, and Prometheus fetches 17 MB."""

Reading = tuple[Instrument, Labels, int | float]
"""The value of one series of a counter or a gauge."""


class MetricsRegistry:
    """The numbers of a process. Labels that do not fit an instrument raise a ``ValueError``."""

    def __init__(self, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._now_ns = now_ns
        self._start_ns = now_ns()
        self._readers: list[Callable[[], Iterable[Reading]]] = []
        # By the reader's place; by name and labels.
        self._last_read: dict[int, dict[tuple[str, Labels], int | float]] = {}
        # Held for a few additions, or while the series of one instrument are copied.
        self._lock = threading.Lock()
        # By the instrument's name, guarded by the lock.
        self._numbers: dict[str, dict[Labels, int | float]] = {}
        self._cells: dict[str, dict[Labels, _Cell]] = {}
        self._failure_lines = RateLimit(now_ns)
        for instrument in INSTRUMENTS:
            if instrument.kind is Kind.HISTOGRAM:
                self._cells[instrument.name] = {}
            else:
                # A counter without labels begins at 0. A gauge that was not set or read is absent,
                # because 0 would be a guess.
                counts_at_once = instrument.kind is Kind.COUNTER and not instrument.labels
                self._numbers[instrument.name] = {(): 0} if counts_at_once else {}

    def add(self, counter: Instrument, amount: float = 1, labels: Labels = ()) -> None:
        """Let a series of a counter grow by `amount`, at least 0."""
        with self._lock:
            numbers, labels = self._number(counter, labels)
            numbers[labels] = numbers.get(labels, 0) + amount

    def set(self, gauge: Instrument, value: float, labels: Labels = ()) -> None:
        """Let a series of a gauge be `value`."""
        with self._lock:
            numbers, labels = self._number(gauge, labels)
            numbers[labels] = value

    def observe_all(self, observed: Iterable[tuple[Instrument, float, Labels]]) -> None:
        """Put finite numbers, in the unit of each histogram, into series of these."""
        with self._lock:
            for histogram, value, labels in observed:
                cell = self._cells[histogram.name].get(labels)
                if cell is None:
                    cell = self._cell(histogram, labels)
                cell.counts[bisect_left(histogram.bounds, value)] += 1
                cell.sum += value

    def observe_counts(
        self, histogram: Instrument, counts: Sequence[int], total: float, labels: Labels = ()
    ) -> None:
        """Put many values at once into a series of a histogram.

        Args:
            histogram: the instrument.
            counts: how many values fell into each of its buckets, the last included.
            total: the sum of the values, in its unit.
            labels: of the series.
        """
        if len(counts) != len(histogram.bounds) + 1:
            raise ValueError(f"{histogram.name} has {len(histogram.bounds) + 1} buckets")
        with self._lock:
            cell = self._cell(histogram, labels)
            cell.counts = [*map(add, cell.counts, counts)]
            cell.sum += total

    def read_from(self, reader: Callable[[], Iterable[Reading]]) -> None:
        """Ask `reader` for series that are not counted here, whenever a snapshot is taken.

        It is called on the thread that takes the snapshot, and may wait for a disk.
        """
        self._readers.append(reader)

    def snapshot(self) -> Snapshot:
        """Return all numbers as they are now; waits for the slowest reader."""
        readings = self._read()
        numbers, histograms = {}, {}
        for name, values in self._numbers.items():
            with self._lock:
                now = dict(values)
            now |= readings.get(name, {})
            numbers[name] = tuple(NumberSeries(labels, value) for labels, value in now.items())
        for name, cells in self._cells.items():
            with self._lock:
                histograms[name] = tuple(
                    HistogramSeries(labels, tuple(cell.counts), cell.sum)
                    for labels, cell in cells.items()
                )
        return Snapshot(
            start_ns=self._start_ns,
            at_ns=self._now_ns(),
            numbers=numbers,
            histograms=histograms,
        )

    def _read(self) -> dict[str, dict[Labels, int | float]]:
        readings: dict[str, dict[Labels, int | float]] = {}
        for place, reader in enumerate(self._readers):
            read: dict[tuple[str, Labels], int | float] = {}
            try:
                for instrument, labels, value in reader():
                    read[instrument.name, labels] = value
            except Exception as error:  # noqa: BLE001 - a reader fails without the others
                with self._lock:
                    is_due = self._failure_lines.admit() is not None
                if is_due:  # without its text, which may hold anything (R7)
                    _log.error("some metrics cannot be read: %s", type(error).__name__)
                # The numbers stay as last read: a counter that falls to 0 looks like a restart.
                read = {**self._last_read.get(place, {}), **read}
            self._last_read[place] = read
            for (name, labels), value in read.items():
                readings.setdefault(name, {})[labels] = value
        return readings

    def _number(
        self, instrument: Instrument, labels: Labels
    ) -> tuple[dict[Labels, int | float], Labels]:
        """The place of a series' number, and its labels; under the lock."""
        numbers = self._numbers[instrument.name]
        if labels not in numbers:
            labels = self._admit(instrument, labels, len(numbers))
        return numbers, labels

    def _cell(self, histogram: Instrument, labels: Labels) -> _Cell:
        """Return the series of these labels; under the lock."""
        cells = self._cells[histogram.name]
        cell = cells.get(labels)
        if cell is None:
            labels = self._admit(histogram, labels, len(cells))
            cell = cells.setdefault(labels, _Cell(len(histogram.bounds) + 1))
        return cell

    def _admit(self, instrument: Instrument, labels: Labels, series_count: int) -> Labels:
        """Return the labels of a new series, all ``_other`` if there are too many; under the lock.

        ``spantap.series_overflows`` counts the latter.
        """
        if len(labels) != len(instrument.labels):
            raise ValueError(f"{instrument.name} has the labels {instrument.labels}")
        if series_count < MAX_SERIES:
            return labels
        overflows, metric = self._numbers[SERIES_OVERFLOWS.name], (instrument.name,)
        overflows[metric] = overflows.get(metric, 0) + 1
        return (OTHER,) * len(labels)


class _Cell:
    """One series of a histogram, growing."""

    __slots__ = ("counts", "sum")

    def __init__(self, bucket_count: int) -> None:
        self.counts = [0] * bucket_count
        self.sum = 0.0
