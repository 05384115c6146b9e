"""Rows by their numbers and ids, and their bytes (rules 1 and 3 of :mod:`~.sqlite.engine`)."""

from __future__ import annotations

import dataclasses
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from telemetry.store.calls import IS_CALL
from telemetry.store.checksum import DAMAGED_WORDS, is_whole
from telemetry.store.opening import explain_sqlite_errors
from telemetry.store.parts.part_reader import PartReader
from telemetry.store.rows import StoredSpan
from telemetry.store.summaries import SUMMARY_COLUMNS, make_summary

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from telemetry.store.rows import SpanSummary

MAX_LISTED: Final = 1000
"""Summaries per read: some 400 KB, a read of milliseconds."""

_SPAN_ID_DIGITS: Final = 16

_SPAN_BYTES = """
SELECT part, CAST(span AS BLOB), checksum FROM span_bytes JOIN {spans} USING (seq) WHERE seq = ?
"""

_SOME_ID = f"""
(span_id >= ? AND span_id < ?
    OR (trace_id >= ? AND trace_id < ? OR request_id >= ? AND request_id < ?) AND {IS_CALL})
ORDER BY request_id IS ? DESC, seq DESC
"""
"""A row that is not a call shares the trace of a call, so only its span id finds it."""

_LAST_CHARACTER: Final = "\U0010ffff"
"""Sorts behind any other character that may follow in an id."""


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """See the store as it is now, whatever is added or pruned meanwhile."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


class StoredRows:
    """Reads rows of a store.

    Args:
        path: of the store, for errors.
        connection: to it, for reading.
        spans: the table (:func:`telemetry.store.spans_table.name_spans`).
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, spans: str) -> None:
        self._path = path
        self._connection = connection
        self._spans = spans
        self._span_bytes = _SPAN_BYTES.format(spans=spans)
        self._parts = PartReader(connection)

    def with_numbers(self, numbers: Iterable[int], at_once: int) -> Iterator[SpanSummary]:
        """Yield the rows with these numbers, in their order, so many of them read when needed."""
        numbers = iter(numbers)
        while some := [*islice(numbers, at_once)]:
            yield from self._read(f"seq IN ({', '.join('?' * len(some))}) ORDER BY seq", some)

    def one(self, span_id: str) -> SpanSummary | None:
        """Find the row with exactly this span id, by its index."""
        return next(iter(self._read("span_id = ?", (span_id,), 1)), None)

    def find(self, id_prefix: str, limit: int) -> list[SpanSummary]:
        """Find rows of which an id begins so.

        A whole span id is found at once. Anything else reads all rows: of 100,000 in some 20 ms.
        """
        prefix = id_prefix.lower()
        if len(prefix) == _SPAN_ID_DIGITS and (exact := self.one(prefix)) is not None:
            return [exact]
        hexadecimal = (prefix, prefix + _LAST_CHARACTER)
        found = self._read(
            _SOME_ID,
            (*hexadecimal, *hexadecimal, id_prefix, id_prefix + _LAST_CHARACTER, id_prefix),
            limit,
        )
        return [row for row in found if row.columns.request_id == id_prefix] or found

    def with_bytes(self, rows: Iterable[SpanSummary]) -> Iterator[StoredSpan]:
        """Yield rows with their bytes; one that was pruned meanwhile is left out."""
        for summary in rows:
            row = self._read_bytes(summary.seq)
            if row is None:
                continue
            span, checksum = row
            if isinstance(span, bytes) and is_whole(span, checksum):
                yield StoredSpan(summary=summary, span=span)
            else:
                damaged = dataclasses.replace(summary, last_error=DAMAGED_WORDS)
                yield StoredSpan(summary=damaged, span=b"")

    def _read(
        self, where: str, values: Sequence[Any], limit: int = MAX_LISTED
    ) -> list[SpanSummary]:
        with explain_sqlite_errors(self._path):
            rows = self._connection.execute(
                f"SELECT {SUMMARY_COLUMNS} FROM {self._spans} WHERE {where} LIMIT ?",  # noqa: S608 - no foreign text
                (*values, max(0, min(limit, MAX_LISTED))),
            ).fetchall()
        return [make_summary(row) for row in rows]

    def _read_bytes(self, seq: int) -> tuple[object, object] | None:
        """Read the bytes of a span, and their checksum; ``None`` for one that was pruned."""
        with explain_sqlite_errors(self._path):
            row = self._connection.execute(self._span_bytes, (seq,)).fetchone()
            if row is None or row[0] is None:
                return row and (row[1], row[2])
            with snapshot(self._connection):  # its parts are to be those of its recipe
                row = self._connection.execute(self._span_bytes, (seq,)).fetchone()
                return row and (self._parts.read(row[0], row[1]), row[2])
