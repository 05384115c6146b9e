"""The engine of a store that one proxy writes: an SQLite file, read while its owner writes it.

Rules:

1. No read is long: it would keep the owner's WAL from being folded in
   (``docs/contract/promises.md#the-store``). A condition is looked at in steps
   (:mod:`telemetry.reading.sqlite.walking`), rows and bytes are read one by one, or in pages of
   :data:`~.stored_rows.MAX_LISTED`. To sort by anything but the row number, all rows are read once:
   some tenths of a second for a million rows.
2. What is held of all rows that are to be listed is their numbers, eight bytes each.
3. Bytes that are not what was recorded are not shown (:mod:`telemetry.store.checksum`); the last
   error says so. Rows are read without them.
4. A store that no owner has migrated yet has neither launches, columns of calls nor sums by minute.
5. Rows of a conversation and of a run are found by their index. No index is used for any other
   condition, but to count the calls of a launch: SQLite would have all that it fits sorted by
   number.
6. Rows are recorded in the order of time. A clock may be set back by up to
   :data:`~.walking.CLOCK_SLACK_NS`, and a search by time still finds all rows; if it is set back
   further, some may be missed.
"""

from __future__ import annotations

import dataclasses
from array import array
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from telemetry.finding.where import ALL_ROWS, Rows
from telemetry.reading.engine import LAST_SEQ, never
from telemetry.reading.sqlite.conditions import Chosen, write_where
from telemetry.reading.sqlite.listing import (
    find_largest,
    read_facts,
    select,
    select_near,
    walk_numbers,
)
from telemetry.reading.sqlite.stored_rows import StoredRows, snapshot
from telemetry.reading.sqlite.walking import find_before, find_newest
from telemetry.store.minutes import MINUTE_NS, find_first_minute
from telemetry.store.opening import connect_reader, explain_sqlite_errors
from telemetry.store.pictures import read_picture, read_pictures
from telemetry.store.raw_answers import read_raw_answer
from telemetry.store.spans_table import name_spans
from telemetry.store.unobserved_calls import read_unobserved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from telemetry.finding.where import Where
    from telemetry.raw_answer import RawAnswer
    from telemetry.reading.engine import Amounts, Group, Notable, Page, SearchStep, Times
    from telemetry.reading.sqlite.amounts import RowSums
    from telemetry.store.rows import CallPicture, SpanSummary, StoredSpan
    from telemetry.store.unobserved_calls import UnobservedCalls

STEP_RUNS: Final = 20_000
"""Numbers of runs whose rows are held against a condition in one read. A run has the number of its
first call, so these are some 40,000 rows: 50 ms."""

_FIRST_START = "SELECT start_ns FROM spans ORDER BY seq LIMIT 1"

_NEWEST_RUN = "SELECT max(run) FROM {spans} WHERE run BETWEEN 0 AND ?"  # a disk may make it -inf

_SOME_RUNS = """
SELECT DISTINCT run FROM {spans} WHERE run BETWEEN ? AND ? AND {where} ORDER BY run DESC LIMIT ?
"""


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
        self._rows = StoredRows(path, self._connection, self._spans)
        self._sums: RowSums | None = None

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
        """Find the minute in which the first row began, from that row and the minutes' sums."""
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
        if where.since_ns is not None and where.rows in {Rows.CALLS, Rows.ALL}:
            # A row derived from a call may have a smaller number than all that began since then.
            after = max(after, find_before(self._connection, where.since_ns))
        return Chosen(spans, written, values, where.rows is Rows.CALLS, after, before)

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
                return select_near(self._connection, chosen, limit, oldest_first=oldest_first)
            return select(self._connection, chosen, limit, is_late, oldest_first=oldest_first)

    def facts(
        self,
        where: Where,
        names: Sequence[str],
        limit: int,
        *,
        after: int = 0,
        before: int = LAST_SEQ,
        oldest_first: bool = False,
    ) -> Sequence[tuple[Any, ...]]:
        """Read some facts of rows with numbers between these two, newest first."""
        with explain_sqlite_errors(self.path):
            chosen = self._choose(where, after=after, before=before)
            return read_facts(self._connection, chosen, names, limit, oldest_first=oldest_first)

    def numbers(
        self, where: Where, *, before: int = LAST_SEQ, limit: int = LAST_SEQ, oldest_first: bool
    ) -> Iterator[int]:
        """Yield the numbers of rows, found step by step, newest or oldest first."""
        with explain_sqlite_errors(self.path):
            chosen = self._choose(where, before=before)._replace(spans=self._listed)
            yield from walk_numbers(self._connection, chosen, limit, oldest_first=oldest_first)

    def largest(self, where: Where, fact: str, limit: int) -> Iterator[int]:
        """Yield the numbers of the rows with the most of a fact: one read of all rows."""
        with explain_sqlite_errors(self.path):
            chosen = self._choose(where)._replace(spans=self._listed)
            found = find_largest(self._connection, chosen, fact, limit)
        yield from found

    def rows(self, numbers: Iterable[int], *, at_once: int = 1) -> Iterator[SpanSummary]:
        """Yield the rows with these numbers, in their order, so many of them read when needed."""
        return self._rows.with_numbers(numbers, at_once)

    def one(self, span_id: str) -> SpanSummary | None:
        """Find the row with exactly this span id."""
        return self._rows.one(span_id)

    def find(self, id_prefix: str, limit: int) -> list[SpanSummary]:
        """Find rows of which an id begins so."""
        return self._rows.find(id_prefix, limit)

    def bodies(self, rows: Iterable[SpanSummary]) -> Iterator[StoredSpan]:
        """Yield rows with their bytes; one that was pruned meanwhile is left out."""
        return self._rows.with_bytes(rows)

    def pictures(self, seq: int) -> list[CallPicture]:
        """Read which pictures the row with this number has."""
        with explain_sqlite_errors(self.path):
            return read_pictures(self._connection, seq)

    def picture(self, seq: int, digest: str) -> bytes | None:
        """Read the bytes of a picture of this row, if they have that digest."""
        with explain_sqlite_errors(self.path):
            return read_picture(self._connection, seq, digest)

    def raw_answer(self, seq: int) -> RawAnswer | None:
        """Read the true bytes of the answer of this row."""
        with explain_sqlite_errors(self.path):
            return read_raw_answer(self._connection, seq)

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
        """Sum rows up, all calls by the sums of minutes (:mod:`~.amounts`)."""
        if self._sums is None:
            from telemetry.reading.sqlite.amounts import RowSums  # noqa: PLC0415 - no list needs it

            self._sums = RowSums(self._connection, self._listed)
        # A conversation is summed up in reads that are short: a snapshot would make one of them.
        is_one_read = is_late is None and where.conversation is None
        alone = snapshot(self._connection) if is_one_read else nullcontext()
        with explain_sqlite_errors(self.path), alone:
            if where == ALL_ROWS and (*by,) == ("state",) and (*names,) == ("rows",):
                return self._sums.count_states(self._choose(where, uses_indexes=True))
            is_count = is_late is None and not by and (*names,) == ("calls",)  # rule 5
            chosen = self._choose(where, after=after, before=before, uses_indexes=is_count)
            is_bounded = bool(after) or before != LAST_SEQ
            return self._sums.sum(where, chosen, by, names, is_late, is_bounded=is_bounded)

    def largest_groups(
        self, where: Where, by: str, names: Sequence[str], limit: int
    ) -> tuple[Sequence[tuple[Any, ...]], int]:
        """Sum up the groups with the most of the first amount, in one read."""
        from telemetry.reading.sqlite.summing import sum_largest  # noqa: PLC0415 - no list needs it

        with explain_sqlite_errors(self.path):
            return sum_largest(self._connection, self._choose(where), by, names, limit)

    def count_by(self, where: Where, by: Sequence[Group]) -> Iterator[tuple[Any, ...]]:
        """Yield what rows have in common, and how many have it, in one read."""
        from telemetry.reading.sqlite.summing import count_groups  # noqa: PLC0415 - no list needs it

        with explain_sqlite_errors(self.path):
            yield from count_groups(self._connection, self._choose(where), by)

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
            return ranking.rank_times(
                self._connection,
                self._choose(where),
                by,
                calls,
                most,
                is_late=is_late,
                is_plain=where.is_plain,
            )

    def notable(self, where: Where, count: int, is_late: Callable[[], bool]) -> Notable:
        """Find the slowest, dearest and failed calls (:func:`~.notable.find_notable`)."""
        from telemetry.reading.sqlite.notable import find_notable  # noqa: PLC0415 - the page needs it

        with explain_sqlite_errors(self.path):
            return find_notable(self._connection, self._choose(where), count, is_late)

    def runs(self, where: Where, limit: int, largest: str = "") -> Sequence[int]:
        """Find the numbers of runs: the newest by their index, some of them in one read."""
        found = array("q")
        with explain_sqlite_errors(self.path):
            chosen = self._choose(where, uses_indexes=True)
            if largest:
                from telemetry.reading.sqlite.summing import find_largest_runs  # noqa: PLC0415 - rare

                return find_largest_runs(self._connection, chosen, largest, limit)
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
