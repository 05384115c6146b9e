"""The calls of a store that a filter chooses, for commands that go through all of them.

Rules:

1. They come oldest first, each read when it is needed: however many there are, one is held, and the
   numbers of one step of the search (:mod:`telemetry.reading.calls`).
2. What is recorded after the command has begun is not among them, so that it ends beside a proxy.
3. Bytes that are damaged are passed over and counted.
4. Rows that are no calls are among them where the filter asks for their kind, and where spans go to
   a backend, for which they were made.
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
        FilterError: it cannot be followed.
    """
    told = [] if since is None else [f"since:{since}"]
    return parse_filter([*words, *told], now_ns=now_ns, zone=LocalZone())


class ChosenCalls:
    """The calls that fit a filter, texts included.

    Attributes:
        damaged: how many were passed over so far (rule 3).
        derived: how many that came so far are no calls.

    Args:
        reader: of the store.
        wanted: the filter.
        all_spans: rows that are no calls are among them (rule 4).
    """

    def __init__(self, reader: Calls, wanted: Filter, *, all_spans: bool = False) -> None:
        where = wanted.where()
        if all_spans:
            where = where.also(rows=Rows.ALL)
        self.damaged = 0
        self.derived = 0
        self._chosen = reader.that(where)
        self._texts = [WantedText(text) for text in wanted.texts]
        self._until = reader.last_seq()  # rule 2

    def __iter__(self) -> Iterator[StoredSpan]:
        numbers = self._chosen.walk(self._until)
        for stored in self._chosen.with_bytes(self._chosen.rows(numbers)):
            if not stored.span:
                self.damaged += 1
            elif self._holds(stored.span):
                self.derived += not is_call(stored.summary.columns.kind)
                yield stored

    def measure(self) -> ChosenSpans:
        """Count them; with texts that takes reading all that fit the conditions."""
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
