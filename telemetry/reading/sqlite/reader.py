"""Reading a store while its owner writes it: what ``spantap traces`` shows.

Rules:

1. No read is long: it would keep the owner's WAL from being folded in
   (``docs/contract/promises.md#the-store``). A condition is looked at in steps of
   :data:`STEP_NUMBERS`, rows and bytes are read one by one, or in pages of :data:`MAX_LISTED`. An
   order other than by number alone takes one read of all rows: of a million some tenths of a
   second.
2. The next read goes on from a number (``seq``), so that spans added or pruned in between are
   neither shown twice nor skipped.
3. The cost of a listed span does not depend on how many there are: it is found by its number. What
   is held of all that are to be listed is their numbers, eight bytes each.
4. Bytes that are not what was recorded are not shown (:mod:`telemetry.store.checksum`); the last
   error says so. Rows are read without them.
5. The spans of a launch are counted by an index (:mod:`telemetry.launch_labels`). A store that no
   owner has migrated yet has neither launches, columns of calls nor sums by minute.
6. No index is used for any other condition: SQLite would have all that it fits sorted by number.
7. Rows that are no calls (:mod:`telemetry.store.calls`) are counted, listed, summed up and searched
   where somebody asks for them, and not else.
"""

from __future__ import annotations

import dataclasses
from array import array
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from telemetry.reading.sqlite.agent_runs import find_outermost, find_runs, read_tree, sum_run
from telemetry.reading.sqlite.choosing import Choosing
from telemetry.reading.sqlite.searching import search
from telemetry.reading.sqlite.summing import count_usages, sum_calls
from telemetry.reading.sqlite.tool_calls import count_tool_calls
from telemetry.store.calls import IS_CALL, IS_DERIVED
from telemetry.store.checksum import DAMAGED_WORDS, is_whole
from telemetry.store.minutes import read_minutes
from telemetry.store.opening import connect_reader, explain_sqlite_errors
from telemetry.store.parts.part_reader import PartReader
from telemetry.store.rows import ChosenSpans, StoredSpan
from telemetry.store.spans_table import name_spans
from telemetry.store.summaries import SUMMARY_COLUMNS, make_summary
from telemetry.store.unobserved_calls import read_unobserved

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from telemetry.reading.sqlite.agent_runs import RunSums
    from telemetry.reading.sqlite.searching import SearchStep
    from telemetry.reading.sqlite.summing import CallSums, CallUsages
    from telemetry.reading.sqlite.tool_calls import ToolCalls
    from telemetry.store.minutes import MinuteSums
    from telemetry.store.rows import SpanSummary
    from telemetry.store.unobserved_calls import UnobservedCalls

MAX_LISTED = 1000
"""Summaries per read: some 400 KB, a read of milliseconds."""

STEP_NUMBERS = 100_000
"""Numbers whose rows are held against a condition in one read: some 25 ms, 50 for a pattern."""

_SPAN_ID_DIGITS = 16

_SPAN_BYTES = """
SELECT part, CAST(span AS BLOB), checksum FROM span_bytes JOIN {spans} USING (seq) WHERE seq = ?
"""

_OLDEST = "SELECT min(seq) FROM spans"

_NEWEST = "SELECT max(seq) FROM spans WHERE seq <= ?"

_NEXT = "SELECT min(seq) FROM spans WHERE seq > ?"

_MEASURED = f"""
SELECT count(*), count(*) FILTER (WHERE {IS_DERIVED}), count(*) FILTER (WHERE state = 'pending'),
    coalesce(sum(min(max(CAST(size_bytes AS INTEGER), 0), 1 << 40)), 0),
    min(start_ns) FILTER (WHERE typeof(start_ns) = 'integer'),
    max(start_ns) FILTER (WHERE typeof(start_ns) = 'integer')
"""

_LAST_SEQ = (1 << 63) - 1

_SOME_ID = f"""
(span_id >= ? AND span_id < ?
    OR (trace_id >= ? AND trace_id < ? OR request_id >= ? AND request_id < ?) AND {IS_CALL})
ORDER BY request_id IS ? DESC, seq DESC
"""
"""Rows that are no calls have the trace of one, and are found by ids of their own."""

_LAST_CHARACTER = "\U0010ffff"
"""Sorts behind any other that an id goes on with."""


class StoreReader(Choosing):
    """A read-only view of a store; use it as a context manager, or :meth:`close` it.

    It is for one thread. It sees what its owner has committed when a method is called, which raises
    :exc:`~telemetry.errors.StoreError` if the store cannot be read.
    """

    def __init__(self, path: Path) -> None:
        """Open the store at `path`.

        Raises:
            StoreError: one of its children says why it cannot be read.
        """
        self.path = path
        self._connection = connect_reader(path)
        with explain_sqlite_errors(path):
            self._spans = name_spans(self._connection)
            self._listed = name_spans(self._connection, uses_indexes=False)  # rule 6
        self._span_bytes = _SPAN_BYTES.format(spans=self._spans)
        super().__init__(self._spans)
        self._parts = PartReader(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def count(self) -> int:
        """Count the spans that are listed: all, or those that were chosen."""
        with explain_sqlite_errors(self.path):
            (count,) = self._connection.execute(
                f"SELECT count(*) FROM {self._spans} WHERE {self._where}",  # noqa: S608 - no foreign text
                self._values,
            ).fetchone()
        return int(count)

    def last_seq(self) -> int:
        """Return the number of the newest span of all; 0 where there is none."""
        with explain_sqlite_errors(self.path):
            return self._newest_seq(_LAST_SEQ)

    def numbers(self, limit: int, order: str | None = None) -> array[int]:
        """Find the numbers of up to `limit` spans, the newest first, or the first of an order.

        Args:
            limit: however large; each number takes eight bytes.
            order: what follows ``ORDER BY`` (:mod:`telemetry.finding.orders`).
        """
        limit = max(0, min(limit, _LAST_SEQ))
        select = f"SELECT seq FROM {self._listed} WHERE {self._where}"  # noqa: S608 - no foreign text
        found = array("q")
        with explain_sqlite_errors(self.path):
            if order is not None:
                rows = self._connection.execute(
                    f"{select} ORDER BY {order} LIMIT ?", (*self._values, limit)
                )
                found.extend(seq for (seq,) in rows)
                return found
            for since, until in self._steps_back():
                rows = self._connection.execute(
                    f"{select} AND seq BETWEEN ? AND ? ORDER BY seq DESC LIMIT ?",
                    (*self._values, since, until, limit - len(found)),
                )
                found.extend(seq for (seq,) in rows)
                if len(found) >= limit:
                    break
        return found

    def _steps_back(self) -> Iterator[tuple[int, int]]:
        """Yield the first and last number of each step, from the newest back, over gaps."""
        (oldest,) = self._connection.execute(_OLDEST).fetchone()
        until = self._newest_seq(_LAST_SEQ)
        while oldest is not None and until >= oldest:
            since = max(oldest, until - STEP_NUMBERS + 1)
            yield since, until
            until = self._newest_seq(since - 1)

    def _newest_seq(self, until: int) -> int:
        (newest,) = self._connection.execute(_NEWEST, (until,)).fetchone()
        return int(newest or 0)

    def oldest_first(self, until: int = _LAST_SEQ) -> Iterator[int]:
        """Yield the numbers of all spans that were chosen, up to `until`, oldest first.

        They are found step by step. What is recorded meanwhile is among them if it fits.
        """
        for since, to in self._steps_forward(until):
            with explain_sqlite_errors(self.path):
                rows = self._connection.execute(
                    f"SELECT seq FROM {self._listed} WHERE {self._where}"  # noqa: S608 - no foreign text
                    " AND seq BETWEEN ? AND ? ORDER BY seq",
                    (*self._values, since, to),
                )
                found = array("q", (seq for (seq,) in rows))
            yield from found

    def measure(self, until: int = _LAST_SEQ) -> ChosenSpans:
        """Count the spans that were chosen, up to number `until`, step by step."""
        told = ChosenSpans()
        for since, to in self._steps_forward(until):
            with explain_sqlite_errors(self.path):
                count, derived, pending, size_bytes, first_ns, last_ns = self._connection.execute(
                    f"{_MEASURED} FROM {self._listed} WHERE {self._where} AND seq BETWEEN ? AND ?",
                    (*self._values, since, to),
                ).fetchone()
            if count:
                told = ChosenSpans(
                    count=told.count + count,
                    derived=told.derived + derived,
                    pending=told.pending + pending,
                    size_bytes=told.size_bytes + size_bytes,
                    first_ns=first_ns if told.first_ns is None else min(told.first_ns, first_ns),
                    last_ns=last_ns if told.last_ns is None else max(told.last_ns, last_ns),
                )
        return told

    def _steps_forward(self, until: int) -> Iterator[tuple[int, int]]:
        """Yield the first and last number of each step, from the oldest on, over gaps."""
        at = 0
        while True:
            with explain_sqlite_errors(self.path):
                (since,) = self._connection.execute(_NEXT, (at,)).fetchone()
            if since is None or since > until:
                return
            at = min(until, since + STEP_NUMBERS - 1)
            yield since, at

    def rows(self, numbers: Iterable[int]) -> Iterator[SpanSummary]:
        """Yield the rows with these numbers, in their order, each read when needed.

        A span that was pruned meanwhile is left out.
        """
        for seq in numbers:
            yield from self._summaries(self._spans, "seq = ?", (seq,), 1)

    def newest(self, limit: int) -> Iterator[StoredSpan]:
        """Yield up to `limit` of the newest spans, the oldest first, each read when needed."""
        return self.with_bytes(self.rows(reversed(self.numbers(limit))))

    def since(self, seq: int) -> Iterator[SpanSummary]:
        """Yield the rows recorded after number `seq`, oldest first, page after page."""
        while page := self.after(seq):
            seq = page[-1].seq
            yield from page

    def latest(self, limit: int, before: int = _LAST_SEQ) -> list[SpanSummary]:
        """Read up to `limit` (:data:`MAX_LISTED`) spans, newest first, without their bytes.

        `before`: only spans with a smaller ``seq``, the last of the page before.
        """
        where, values = f"{self._where} AND seq < ? ORDER BY seq DESC", (*self._values, before)
        return self._summaries(self._listed, where, values, limit)

    def after(self, seq: int, limit: int = MAX_LISTED) -> list[SpanSummary]:
        """Read the spans recorded after number `seq`, oldest first, without their bytes."""
        where, values = f"{self._where} AND seq > ? ORDER BY seq", (*self._values, seq)
        return self._summaries(self._listed, where, values, limit)

    def search(self, texts: Sequence[str]) -> Iterator[SearchStep]:
        """Search the spans that were chosen for texts, newest first (:func:`search`)."""
        with explain_sqlite_errors(self.path):
            yield from search(self._connection, texts, where=self._where, values=self._values)

    def find(self, id_prefix: str, limit: int = 10) -> list[StoredSpan]:
        """Find the spans one of whose ids begins with `id_prefix`, newest first, of any kind.

        A whole span id finds its span alone, and at once; a whole request id of a provider's finds
        those that have it alone. Anything but the first reads all rows: of 100,000 spans in some 20
        ms, once. The hexadecimal digits of span and trace ids may be of either case.
        """
        if not id_prefix or not id_prefix.isprintable():
            return []
        prefix = id_prefix.lower()
        if len(prefix) == _SPAN_ID_DIGITS and (
            exact := self._summaries(self._spans, "span_id = ?", (prefix,), 1)
        ):
            return list(self.with_bytes(exact))
        hexadecimal = (prefix, prefix + _LAST_CHARACTER)
        summaries = self._summaries(
            self._spans,
            _SOME_ID,
            (*hexadecimal, *hexadecimal, id_prefix, id_prefix + _LAST_CHARACTER, id_prefix),
            limit,
        )
        whole = [row for row in summaries if row.columns.request_id == id_prefix]
        return list(self.with_bytes(whole or summaries))

    def with_bytes(self, summaries: Iterable[SpanSummary]) -> Iterator[StoredSpan]:
        """Yield rows with their bytes; one that was pruned meanwhile is left out."""
        for summary in summaries:
            row = self._read_bytes(summary.seq)
            if row is None:
                continue
            span, checksum = row
            if isinstance(span, bytes) and is_whole(span, checksum):
                yield StoredSpan(summary=summary, span=span)
            else:
                damaged = dataclasses.replace(summary, last_error=DAMAGED_WORDS)
                yield StoredSpan(summary=damaged, span=b"")

    def _read_bytes(self, seq: int) -> tuple[object, object] | None:
        """Read the bytes of a span, and their checksum; ``None`` for one that was pruned."""
        with explain_sqlite_errors(self.path):
            row = self._connection.execute(self._span_bytes, (seq,)).fetchone()
            if row is None or row[0] is None:
                return row and (row[1], row[2])
            with self._snapshot():  # its parts are to be those of its recipe
                row = self._connection.execute(self._span_bytes, (seq,)).fetchone()
                return row and (self._parts.read(row[0], row[1]), row[2])

    def unobserved(self, since_ns: int = 0) -> list[UnobservedCalls]:
        """Read the calls that were relayed and not observed, the most frequent path first.

        `since_ns`: only those of proxies that began later.
        """
        with explain_sqlite_errors(self.path):
            return read_unobserved(self._connection, since_ns)

    def minutes(self, since: int, until: int) -> list[MinuteSums]:
        """Read the sums of some minutes (:func:`telemetry.store.minutes.read_minutes`)."""
        with explain_sqlite_errors(self.path):
            return read_minutes(self._connection, since, until)

    def sums(self, by: str) -> tuple[list[CallSums], CallSums | None]:
        """Sum the spans up that were chosen (:func:`~.summing.sum_calls`)."""
        with explain_sqlite_errors(self.path), self._snapshot():
            return sum_calls(
                self._connection, by, spans=self._listed, where=self._where, values=self._values
            )

    def usages(self, by: str) -> Iterator[CallUsages]:
        """Count tokens of the spans that were chosen (:func:`~.summing.count_usages`)."""
        with explain_sqlite_errors(self.path):
            yield from count_usages(
                self._connection, by, spans=self._listed, where=self._where, values=self._values
            )

    def runs(self, limit: int) -> list[RunSums]:
        """Sum up to `limit` runs up that have a row that was chosen, the newest first."""
        with explain_sqlite_errors(self.path):
            numbers = find_runs(self._connection, self._spans, limit, self._where, self._values)
            found = (sum_run(self._connection, self._spans, number) for number in numbers)
            return [sums for sums in found if sums is not None]

    def run_tree(self, run: int) -> tuple[RunSums, list[SpanSummary]] | None:
        """Sum a run up, and read its rows and others of its trace (:func:`read_tree`)."""
        with explain_sqlite_errors(self.path):
            sums = sum_run(self._connection, self._spans, run)
            if sums is None:
                return None
            return sums, read_tree(self._connection, self._spans, sums)

    def run_of_trace(self, trace_id: str) -> int | None:
        """Find the outermost run in a trace: that of the lowest number."""
        with explain_sqlite_errors(self.path):
            return find_outermost(self._connection, self._spans, trace_id)

    def tool_calls(self) -> ToolCalls:
        """Count the tools that were called (:func:`~.tool_calls.count_tool_calls`)."""
        with explain_sqlite_errors(self.path):
            return count_tool_calls(
                self._connection, spans=self._listed, where=self._where, values=self._values
            )

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """See the store as it is now, whatever is added or pruned meanwhile."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("COMMIT")

    def _summaries(
        self, spans: str, where: str, values: tuple[str | int | float, ...], limit: int
    ) -> list[SpanSummary]:
        with explain_sqlite_errors(self.path):
            rows = self._connection.execute(
                f"SELECT {SUMMARY_COLUMNS} FROM {spans} WHERE {where} LIMIT ?",  # noqa: S608 - no foreign text
                (*values, max(0, min(limit, MAX_LISTED))),
            ).fetchall()
        return [make_summary(row) for row in rows]
