"""The calls of a store that a filter chooses, for commands that read all of them.

They come oldest first. Each is read when it is needed, so that only one is in memory, with the
numbers of one step of the search (:mod:`telemetry.reading.calls`). Calls that are recorded after
the command has begun are not among them, so that it ends even while a proxy records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.reading.local_zone import LocalZone
from telemetry.finding.filter import parse_filter
from telemetry.finding.where import Rows
from telemetry.store.calls import is_call
from telemetry.store.rows import ChosenSpans
from telemetry.store.wanted_text import WantedText

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from telemetry.finding.filter import Filter
    from telemetry.reading.calls import Calls
    from telemetry.store.rows import StoredSpan


def read_filter(words: Sequence[str], since: str | None, now_ns: int) -> Filter:
    """Read a filter, with what ``--since`` adds to it.

    Raises:
        FilterError: it is wrong.
    """
    more = [] if since is None else [f"since:{since}"]
    return parse_filter([*words, *more], now_ns=now_ns, zone=LocalZone())


class ChosenCalls:
    """The calls that fit a filter, including its texts.

    Attributes:
        damaged: how many damaged calls were left out so far.
        derived: how many rows so far are not calls.

    Args:
        reader: reads the store.
        wanted: the filter.
        all_spans: include rows that are not calls even if the filter does not ask for their kind:
            a backend gets them too.
    """

    def __init__(self, reader: Calls, wanted: Filter, *, all_spans: bool = False) -> None:
        where = wanted.where()
        if all_spans:
            where = where.also(rows=Rows.ALL)
        self.damaged = 0
        self.derived = 0
        self._chosen = reader.that(where)
        self._texts = [WantedText(text) for text in wanted.texts]
        self._until = reader.last_seq()  # later calls do not count

    def __iter__(self) -> Iterator[StoredSpan]:
        numbers = self._chosen.walk(self._until)
        for stored in self._chosen.with_bytes(self._chosen.rows(numbers)):
            if not stored.span:
                self.damaged += 1
            elif self._holds(stored.span):
                self.derived += not is_call(stored.summary.columns.kind)
                yield stored

    def measure(self) -> ChosenSpans:
        """Count the calls; if the filter has texts, all calls that fit its conditions are read."""
        if not self._texts:
            return self._chosen.measure(self._until)
        count = size_bytes = 0
        for stored in self:
            count += 1
            size_bytes += len(stored.span)
        return ChosenSpans(count=count, derived=self.derived, size_bytes=size_bytes)

    def _holds(self, span: bytes) -> bool:
        if not self._texts:
            return True
        lowered = span.lower()
        return all(text.is_in(lowered) for text in self._texts)
