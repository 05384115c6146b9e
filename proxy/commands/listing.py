"""Calls that are listed as they are read: as a table, or as lines of JSON."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from proxy.commands.open_calls import print_open
from proxy.commands.table import print_table
from proxy.reading.open_record import build_open_record
from proxy.reading.record import build_call_record, build_summary_record, encode_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console

    from codec.text.jsontext import JsonObject
    from telemetry.observing.open_call import OpenCall
    from telemetry.store.reader import StoreReader
    from telemetry.store.rows import SpanSummary

TABLE_ROWS = 100
"""Calls that are laid out together, with all their cells in memory."""


class Listing:
    """A list that grows.

    Attributes:
        console: where it is printed.
        count: how many calls it has.
        last_seq: the greatest number of them; 0 where there is none.
        last_start_ns: when the call began that was listed last; ``None`` where there is none.

    Args:
        console: where it is printed.
        reader: of the store that the calls are in.
        as_json: one JSON object per line, instead of a table.
        full: each of those has the request, the answer and the whole span.
    """

    def __init__(self, console: Console, reader: StoreReader, *, as_json: bool, full: bool) -> None:
        self.count = 0
        self.last_seq = 0
        self.last_start_ns: int | None = None
        self.console = console
        self._reader = reader
        self._as_json = as_json
        self._full = full
        self._above: Mapping[str, int] | None = None

    def add(self, rows: Iterator[SpanSummary]) -> None:
        """List further calls, below those that stand there already, each page when it is read."""
        rows = self._mark(rows)
        if self._as_json:
            for record in self._records(rows):
                self.console.out(encode_line(record))
            return
        while page := [*islice(rows, TABLE_ROWS)]:
            self._above = print_table(self.console, page, above=self._above)

    def add_open(self, calls: Sequence[OpenCall], now_ns: int) -> None:
        """List calls that are under way, below those that are recorded."""
        if self._as_json:
            for call in calls:
                self.console.out(encode_line(build_open_record(call, now_ns)))
        elif calls:
            self._above = print_open(self.console, calls, above=self._above, now_ns=now_ns)

    def _records(self, rows: Iterator[SpanSummary]) -> Iterator[JsonObject]:
        if not self._full:
            return map(build_summary_record, rows)
        from proxy.reading.call import decode_call  # noqa: PLC0415 - no list of rows needs it

        spans = self._reader.with_bytes(rows)
        return (build_call_record(decode_call(one.summary, one.span)) for one in spans)

    def _mark(self, rows: Iterator[SpanSummary]) -> Iterator[SpanSummary]:
        for row in rows:
            self.count += 1
            self.last_seq = max(self.last_seq, row.seq)
            self.last_start_ns = row.start_ns
            yield row
