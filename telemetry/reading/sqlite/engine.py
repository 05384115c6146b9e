"""The engine of a store that one proxy writes: an SQLite file, read while its owner writes it.

Rules:

1. No read is long: it would keep the owner's WAL from being folded in
   (``docs/contract/promises.md#the-store``). A condition is looked at in steps
   (:mod:`telemetry.reading.sqlite.walking`), rows and bytes are read one by one, or in pages of
   :data:`MAX_LISTED`. An order other than by number alone takes one read of all rows: of a million
   some tenths of a second.
2. What is held of all rows that are to be listed is their numbers, eight bytes each.
3. Bytes that are not what was recorded are not shown (:mod:`telemetry.store.checksum`); the last
   error says so. Rows are read without them.
4. A store that no owner has migrated yet has neither launches, columns of calls nor sums by minute.
5. Rows of a conversation and of a run are found by their index. No index is used for any other
   condition, but to count the calls of a launch: SQLite would have all that it fits sorted by
   number.
6. Rows are recorded in the order of time. A clock that was put back by up to
   :data:`CLOCK_SLACK_NS` hides none from whoever asks for a time; more of that may.
"""

from __future__ import annotations

import dataclasses
from array import array
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from telemetry.finding.where import ALL_CALLS, ALL_ROWS, Rows
from telemetry.reading.engine import LAST_SEQ, Amounts, Page, never
from telemetry.reading.sqlite.conditions import COLUMNS, Chosen, write_where
from telemetry.reading.sqlite.walking import find_newest, find_oldest, walk_back, walk_on
from telemetry.store.calls import IS_CALL
from telemetry.store.checksum import DAMAGED_WORDS, is_whole
from telemetry.store.minutes import MINUTE_NS, find_first_minute, find_summed_after
from telemetry.store.opening import connect_reader, explain_sqlite_errors
from telemetry.store.parts.part_reader import PartReader
from telemetry.store.rows import StoredSpan
from telemetry.store.spans_table import name_spans
from telemetry.store.summaries import SUMMARY_COLUMNS, make_summary
from telemetry.store.unobserved_calls import read_unobserved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from telemetry.finding.where import Where
    from telemetry.reading.engine import Group, Notable, SearchStep, Times
    from telemetry.store.rows import SpanSummary
    from telemetry.store.unobserved_calls import UnobservedCalls

MAX_LISTED: Final = 1000
"""Summaries per read: some 400 KB, a read of milliseconds."""

STEP_ROWS: Final = 5_000
"""Rows of a conversation or a run in one read: some 25 ms where they lie far from each other."""

STEP_RUNS: Final = 20_000
"""Numbers of runs whose rows are held against a condition in one read. A run has the number of its
first call, so these are some 40,000 rows: 50 ms."""

CLOCK_SLACK_NS: Final = 3_600_000_000_000
"""An hour: the most that a person, or a wrong time zone, sets a clock back."""

_SPAN_ID_DIGITS: Final = 16

_SPAN_BYTES = """
SELECT part, CAST(span AS BLOB), checksum FROM span_bytes JOIN {spans} USING (seq) WHERE seq = ?
"""

_FIRST_START = "SELECT start_ns FROM spans ORDER BY seq LIMIT 1"

_RECORDED = "SELECT seq, recorded_ns FROM spans WHERE seq >= ? ORDER BY seq LIMIT 1"

_NEWEST_RUN = "SELECT max(run) FROM {spans} WHERE run BETWEEN 0 AND ?"  # a disk may make it -inf

_SOME_RUNS = """
SELECT DISTINCT run FROM {spans} WHERE run BETWEEN ? AND ? AND {where} ORDER BY run DESC LIMIT ?
"""

_SOME_ID = f"""
(span_id >= ? AND span_id < ?
    OR (trace_id >= ? AND trace_id < ? OR request_id >= ? AND request_id < ?) AND {IS_CALL})
ORDER BY request_id IS ? DESC, seq DESC
"""
"""Rows that are no calls have the trace of one, and are found by ids of their own."""

_LAST_CHARACTER: Final = "\U0010ffff"
"""Sorts behind any other that an id goes on with."""

_COUNTED: Final = ("calls",)


class SqliteEngine:
    """A read-only view of a store: an :class:`~telemetry.reading.engine.Engine`.

    It sees what its owner has committed when a method is called.

    Attributes:
        path: of the store.

    Args:
        path: of the store.
        is_kept: it is asked whether it is current.

    Raises:
        StoreError: one of its children says why it cannot be read.
    """

    def __init__(self, path: Path, *, is_kept: bool = False) -> None:
        self.path = path
        self._files = None
        if is_kept:
            from telemetry.store.opened_files import OpenedFiles  # noqa: PLC0415 - no command needs it

            self._files = OpenedFiles(path)
        self._connection = connect_reader(path)
        with explain_sqlite_errors(path):
            self._spans = name_spans(self._connection)
            self._listed = name_spans(self._connection, uses_indexes=False)  # rule 5
            self._schema = self._read_schema()
        self._span_bytes = _SPAN_BYTES.format(spans=self._spans)
        self._parts = PartReader(self._connection)
        self._older: tuple[object, int] = (None, 0)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def is_current(self) -> bool:
        """Tell whether this still reads the store at its path, with all of its columns."""
        with explain_sqlite_errors(self.path):
            is_there = self._files is None or self._files.find_change() is None
            return is_there and self._read_schema() == self._schema

    def _read_schema(self) -> int:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        return int(version)

    def last_seq(self) -> int:
        """Return the number of the newest row of all; 0 where there is none."""
        with explain_sqlite_errors(self.path):
            return find_newest(self._connection)

    def first_ns(self) -> int | None:
        """Find the minute in which the first row began, by what was recorded first and the sums."""
        with explain_sqlite_errors(self.path):
            found = self._connection.execute(_FIRST_START).fetchone()
            known = [found[0]] if found is not None and isinstance(found[0], int) else []
            minute = find_first_minute(self._connection)
        if minute is not None:
            known.append(minute * MINUTE_NS)
        return min(known) // MINUTE_NS * MINUTE_NS if known else None

    def _choose(
        self, where: Where, *, after: int = 0, before: int = LAST_SEQ, uses_indexes: bool = False
    ) -> Chosen:
        """Write which rows are meant in SQL, and find the numbers that they may have."""
        is_near = where.conversation is not None or where.run is not None
        spans = self._spans if is_near or uses_indexes else self._listed
        written, values = write_where(where, self._spans)
        if where.since_ns is not None:
            after = max(after, self._find_before(where.since_ns))
        return Chosen(spans, written, values, where.rows is Rows.CALLS, after, before)

    def _find_before(self, at_ns: int) -> int:
        """Find a number such that what began at that time or later has a greater one (rule 6)."""
        at_ns -= CLOCK_SLACK_NS
        high = find_newest(self._connection) + 1
        low = find_oldest(self._connection) or high
        while low < high:
            middle = (low + high) // 2
            seq, recorded_ns = self._connection.execute(_RECORDED, (middle,)).fetchone()
            if not isinstance(recorded_ns, int) or recorded_ns < at_ns:
                low = seq + 1
            else:
                high = middle
        return low - 1

    def select(
        self,
        where: Where,
        limit: int,
        *,
        after: int = 0,
        before: int = LAST_SEQ,
        oldest_first: bool = False,
        is_late: Callable[[], bool] = never,
    ) -> Page:
        """Read rows with numbers between these two, newest first; texts are not looked for."""
        with explain_sqlite_errors(self.path):
            chosen = self._choose(where, after=after, before=before)
            if where.conversation is not None or where.run is not None:
                return self._select_near(chosen, limit, oldest_first=oldest_first)
            statement = (
                f"SELECT {SUMMARY_COLUMNS} FROM {chosen.spans} WHERE {chosen.where}"  # noqa: S608 - no foreign text
                f" AND seq BETWEEN ? AND ? ORDER BY seq {'' if oldest_first else 'DESC'} LIMIT ?"
            )
            rows: list[SpanSummary] = []
            limit = max(0, limit)
            walk = walk_on if oldest_first else walk_back
            edge = 0
            for since, until in walk(self._connection, after=chosen.after, before=chosen.before):
                if edge and is_late():
                    return Page(rows=rows, back_to=edge, is_done=False, is_late=True)
                values = (*chosen.values, since, until, limit - len(rows))
                rows += map(make_summary, self._connection.execute(statement, values))
                edge = until if oldest_first else since
                if len(rows) >= limit:
                    back_to = rows[-1].seq if rows else until + 1
                    is_done = not oldest_first and (
                        find_newest(self._connection, back_to - 1) <= chosen.after
                    )
                    return Page(rows=rows, back_to=back_to, is_done=is_done, is_late=False)
            oldest = find_oldest(self._connection) or 0
            return Page(
                rows=rows, back_to=max(oldest, chosen.after + 1), is_done=True, is_late=False
            )

    def _select_near(self, chosen: Chosen, limit: int, *, oldest_first: bool) -> Page:
        """Read rows that an index finds, some of them at a time."""
        statement = (
            f"SELECT {SUMMARY_COLUMNS} FROM {chosen.spans} WHERE {chosen.where}"  # noqa: S608 - no foreign text
            f" AND seq > ? AND seq < ? ORDER BY seq {'' if oldest_first else 'DESC'} LIMIT ?"
        )
        rows: list[SpanSummary] = []
        after, before = chosen.after, chosen.before
        while len(rows) < limit:
            step = min(limit - len(rows), STEP_ROWS)
            values = (*chosen.values, after, before, step)
            found = self._connection.execute(statement, values).fetchall()
            rows += map(make_summary, found)
            if len(found) < step:
                return Page(rows=rows, back_to=after + 1, is_done=True, is_late=False)
            after, before = (found[-1][0], before) if oldest_first else (after, found[-1][0])
        back_to = rows[-1].seq if rows else before
        return Page(rows=rows, back_to=back_to, is_done=False, is_late=False)

    def numbers(
        self, where: Where, *, before: int = LAST_SEQ, limit: int = LAST_SEQ, oldest_first: bool
    ) -> Iterator[int]:
        """Yield the numbers of rows, found step by step, newest or oldest first."""
        with explain_sqlite_errors(self.path):
            chosen = self._choose(where, before=before)
            statement = (
                f"SELECT seq FROM {self._listed} WHERE {chosen.where} AND seq BETWEEN ? AND ?"  # noqa: S608 - no foreign text
                f" ORDER BY seq {'' if oldest_first else 'DESC'} LIMIT ?"
            )
            walk = walk_on if oldest_first else walk_back
            left = max(0, min(limit, LAST_SEQ))
            steps = walk(self._connection, after=chosen.after, before=before)
            while left and (step := next(steps, None)) is not None:
                rows = self._connection.execute(statement, (*chosen.values, *step, left))
                found = array("q", (seq for (seq,) in rows))
                yield from found
                left -= len(found)

    def largest(self, where: Where, fact: str, limit: int) -> Iterator[int]:
        """Yield the numbers of the rows with the most of a fact: one read of all rows."""
        with explain_sqlite_errors(self.path):
            chosen = self._choose(where)
            rows = self._connection.execute(
                f"SELECT seq FROM {self._listed} WHERE {chosen.where}"  # noqa: S608 - no foreign text
                f" ORDER BY {COLUMNS.get(fact, fact)} DESC, seq DESC LIMIT ?",
                (*chosen.values, max(0, min(limit, LAST_SEQ))),
            )
            found = array("q", (seq for (seq,) in rows))
        yield from found

    def rows(self, numbers: Iterable[int], *, at_once: int = 1) -> Iterator[SpanSummary]:
        """Yield the rows with these numbers, in their order, so many of them read when needed."""
        numbers = iter(numbers)
        while some := [*islice(numbers, at_once)]:
            yield from self._read(f"seq IN ({', '.join('?' * len(some))}) ORDER BY seq", some)

    def _read(
        self, where: str, values: Sequence[Any], limit: int = MAX_LISTED
    ) -> list[SpanSummary]:
        with explain_sqlite_errors(self.path):
            rows = self._connection.execute(
                f"SELECT {SUMMARY_COLUMNS} FROM {self._spans} WHERE {where} LIMIT ?",  # noqa: S608 - no foreign text
                (*values, max(0, min(limit, MAX_LISTED))),
            ).fetchall()
        return [make_summary(row) for row in rows]

    def find(self, id_prefix: str, limit: int) -> list[SpanSummary]:
        """Find rows of which an id begins so.

        A whole span id is found at once. Anything else reads all rows: of 100,000 in some 20 ms.
        """
        prefix = id_prefix.lower()
        if len(prefix) == _SPAN_ID_DIGITS and (exact := self._read("span_id = ?", (prefix,), 1)):
            return exact
        hexadecimal = (prefix, prefix + _LAST_CHARACTER)
        found = self._read(
            _SOME_ID,
            (*hexadecimal, *hexadecimal, id_prefix, id_prefix + _LAST_CHARACTER, id_prefix),
            limit,
        )
        return [row for row in found if row.columns.request_id == id_prefix] or found

    def bodies(self, rows: Iterable[SpanSummary]) -> Iterator[StoredSpan]:
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

    def _read_bytes(self, seq: int) -> tuple[object, object] | None:
        """Read the bytes of a span, and their checksum; ``None`` for one that was pruned."""
        with explain_sqlite_errors(self.path):
            row = self._connection.execute(self._span_bytes, (seq,)).fetchone()
            if row is None or row[0] is None:
                return row and (row[1], row[2])
            with self._snapshot():  # its parts are to be those of its recipe
                row = self._connection.execute(self._span_bytes, (seq,)).fetchone()
                return row and (self._parts.read(row[0], row[1]), row[2])

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """See the store as it is now, whatever is added or pruned meanwhile."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("COMMIT")

    def search(self, where: Where, *, before: int = LAST_SEQ) -> Iterator[SearchStep]:
        """Search the bytes of the rows for texts (:func:`~.searching.search`)."""
        from telemetry.reading.sqlite.searching import search  # noqa: PLC0415 - few lists need it

        with explain_sqlite_errors(self.path):
            chosen = self._choose(where)
            condition, values = f"{chosen.where} AND seq > ?", (*chosen.values, chosen.after)
            for step in search(
                self._connection, where.texts, where=condition, values=values, before=before
            ):
                if step.back_to <= chosen.after + 1:
                    yield dataclasses.replace(step, is_done=True)
                    return
                yield step

    def sum(
        self,
        where: Where,
        by: Sequence[Group],
        names: Sequence[str],
        *,
        after: int = 0,
        before: int = LAST_SEQ,
        is_late: Callable[[], bool] | None = None,
    ) -> Amounts:
        """Sum rows up, all calls by the sums of minutes (:mod:`~.summing`)."""
        from telemetry.reading.sqlite import summing  # noqa: PLC0415 - no list of calls needs it

        with explain_sqlite_errors(self.path), self._snapshot_unless(is_late):
            if where == ALL_ROWS and (*by,) == ("state",) and (*names,) == ("rows",):
                return self._count_states()
            is_count = is_late is None and not by and (*names,) == _COUNTED  # rule 5
            chosen = self._choose(where, after=after, before=before, uses_indexes=is_count)
            if where.conversation is not None:
                return Amounts(summing.sum_conversation(self._connection, chosen, by, names))
            is_bounded = after or before != LAST_SEQ
            times = (where.since_ns, where.until_ns)
            if where.is_plain and not is_bounded and summing.can_be_minutes(times, by, names):
                return self._sum_minutes(where, chosen, by, names, is_late)
            return Amounts(*summing.sum_rows(self._connection, chosen, by, names, is_late))

    @contextmanager
    def _snapshot_unless(self, is_late: Callable[[], bool] | None) -> Iterator[None]:
        if is_late is not None:
            yield
            return
        with self._snapshot():
            yield

    def _sum_minutes(
        self,
        where: Where,
        chosen: Chosen,
        by: Sequence[Group],
        names: Sequence[str],
        is_late: Callable[[], bool] | None,
    ) -> Amounts:
        from telemetry.reading.sqlite import summing  # noqa: PLC0415 - no list of calls needs it

        summed_after = find_summed_after(self._connection)
        if summed_after is None:
            return Amounts(*summing.sum_rows(self._connection, chosen, by, names, is_late))
        sums, is_all = summing.sum_minutes(
            self._connection, (where.since_ns, where.until_ns), by, names, is_late
        )
        chosen = chosen._replace(spans=self._listed, before=summed_after + 1)
        if where == ALL_CALLS and (*names,) == _COUNTED and not by:
            more: dict[tuple[Any, ...], tuple[Any, ...]] = {(): (self._count_older(chosen),)}
            is_rest = True
        else:
            more, is_rest = summing.sum_rows(self._connection, chosen, by, names, is_late)
        return Amounts(summing.merge(sums, more, names), is_all and is_rest)

    def _count_older(self, chosen: Chosen) -> int:
        """Count the calls that are in no minute, once: these are only removed, the oldest first."""
        from telemetry.reading.sqlite import summing  # noqa: PLC0415 - no list of calls needs it

        key = (find_oldest(self._connection), chosen.before)
        if self._older[0] != key:
            sums, _ = summing.sum_rows(self._connection, chosen, (), _COUNTED, never)
            self._older = (key, sums[()][0] if sums else 0)
        return self._older[1]

    def _count_states(self) -> Amounts:
        """Count rows by state, by the tally where there is one."""
        from telemetry.reading.sqlite import summing  # noqa: PLC0415 - no list of calls needs it
        from telemetry.store.tally import read_whole_tally  # noqa: PLC0415 - the page needs it

        counts = read_whole_tally(self._connection)
        if counts is not None:
            return Amounts({(state,): (count,) for state, count in counts.items() if count})
        chosen = self._choose(ALL_ROWS, uses_indexes=True)
        return Amounts(*summing.sum_rows(self._connection, chosen, ("state",), ("rows",), None))

    def times(
        self,
        where: Where,
        by: Sequence[Group],
        calls: int,
        most: int,
        is_late: Callable[[], bool] = never,
    ) -> Times:
        """Read how long calls took, of some of many (:mod:`~.ranking`)."""
        from telemetry.reading.sqlite import ranking  # noqa: PLC0415 - few lists need it

        with explain_sqlite_errors(self.path):
            chosen, is_all = self._choose(where), True

            def list_numbers() -> Sequence[int]:
                nonlocal is_all
                found = array("q")
                statement = (
                    f"SELECT seq FROM {chosen.spans} WHERE {chosen.where}"  # noqa: S608 - no foreign text
                    " AND seq BETWEEN ? AND ? ORDER BY seq DESC"
                )
                for step in walk_back(self._connection, after=chosen.after):
                    if found and is_late():
                        is_all = False
                        break
                    rows = self._connection.execute(statement, (*chosen.values, *step))
                    found.extend(seq for (seq,) in rows)
                found.reverse()
                return found

            if where.is_plain:
                numbers = ranking.choose_numbers(
                    self._connection, calls, most, list_numbers, chosen.after
                )
            else:
                numbers = ranking.spread(list_numbers(), most)
                chosen = chosen._replace(where="1", values=())
            times = ranking.read_times(self._connection, chosen, by, numbers, is_late)
            times.is_whole = times.is_whole and is_all
            return times

    def notable(self, where: Where, count: int, is_late: Callable[[], bool]) -> Notable:
        """Find the slowest, dearest and failed calls (:func:`~.notable.find_notable`)."""
        from telemetry.reading.sqlite.notable import find_notable  # noqa: PLC0415 - the page needs it

        with explain_sqlite_errors(self.path):
            return find_notable(self._connection, self._choose(where), count, is_late)

    def runs(self, where: Where, limit: int) -> Sequence[int]:
        """Find the numbers of runs by their index, some of them in one read."""
        found = array("q")
        with explain_sqlite_errors(self.path):
            chosen = self._choose(where, uses_indexes=True)
            newest = _NEWEST_RUN.format(spans=chosen.spans)
            some = _SOME_RUNS.format(spans=chosen.spans, where=chosen.where)
            (until,) = self._connection.execute(newest, (LAST_SEQ,)).fetchone()
            while until is not None and len(found) < limit:
                since = until - STEP_RUNS + 1
                values = (since, until, *chosen.values, limit - len(found))
                rows = self._connection.execute(some, values)
                found.extend(run for (run,) in rows if isinstance(run, int))
                (until,) = self._connection.execute(newest, (since - 1,)).fetchone()
        return found

    def unobserved(self, since_ns: int) -> list[UnobservedCalls]:
        """Read the calls that were not observed, the most frequent path first."""
        with explain_sqlite_errors(self.path):
            return read_unobserved(self._connection, since_ns)
