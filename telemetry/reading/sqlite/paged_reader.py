"""Reading a store page by page, within a time: what somebody who waits at a browser asks.

Rules, beside those of :mod:`telemetry.reading.sqlite.reader`:

1. No page waits for long. Where nothing more was found in its time, it says how far it has come,
   and the next one goes on from there.
2. Rows are recorded in the order of time. A clock that was put back by up to
   :data:`CLOCK_SLACK_NS` hides none from a page that begins at some time; more of that may.
3. A reader that was opened before the store was replaced or migrated says that it is not current.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from telemetry.reading.sqlite.agent_runs import sum_run
from telemetry.reading.sqlite.conversation_family import read_family
from telemetry.reading.sqlite.conversation_rows import (
    find_neighbours,
    find_newest,
    read_rows,
    sum_conversation,
)
from telemetry.reading.sqlite.reader import STEP_NUMBERS, StoreReader
from telemetry.reading.sqlite.searching import search
from telemetry.reading.sqlite.statistics import (
    Choice,
    TimeSums,
    find_first_minute,
    find_notable,
    rank_all,
    sum_minutes,
    sum_rows,
)
from telemetry.store.calls import IS_CALL
from telemetry.store.minutes import MINUTE_NS, find_summed_after, write_sum
from telemetry.store.opened_files import OpenedFiles
from telemetry.store.opening import explain_sqlite_errors
from telemetry.store.summaries import SUMMARY_COLUMNS, make_summary
from telemetry.store.tally import read_tally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from telemetry.reading.sqlite.agent_runs import RunSums
    from telemetry.reading.sqlite.conversation_family import Family
    from telemetry.reading.sqlite.conversation_rows import ConversationSums, Neighbours
    from telemetry.reading.sqlite.statistics import Notable
    from telemetry.store.rows import SpanSummary, StoredSpan

LAST_SEQ: Final = (1 << 63) - 1
"""Above any number of a span."""

CLOCK_SLACK_NS: Final = 3_600_000_000_000
"""An hour: as much as a clock is set back by people, or by a zone that is none of its own."""

_NEXT = "SELECT seq, recorded_ns FROM spans WHERE seq >= ? ORDER BY seq LIMIT 1"

_BEGAN = "SELECT start_ns FROM spans WHERE seq >= ? ORDER BY seq LIMIT 1"

_OLDEST = "SELECT min(seq) FROM spans"

_ROWS_AT_ONCE = 500

_SUMMED_CALLS = f"SELECT coalesce({write_sum('calls')}, 0) FROM minutes"  # noqa: S608 - constants

_STATES = "SELECT state, count(*) FROM spans GROUP BY state"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some rows, newest first, and how far back they were looked for.

    Attributes:
        back_to: all rows from this number on were looked at.
        is_done: there are no more.
        is_late: the time was over before there were as many rows as were asked for.
    """

    rows: Sequence[SpanSummary]
    back_to: int
    is_done: bool
    is_late: bool


class PagedReader(StoreReader):
    """A read-only view of a store, page by page; otherwise a :class:`StoreReader`.

    Args:
        path: of the store.
        monotonic_ns: the clock that bounds a page.
    """

    def __init__(self, path: Path, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:
        files = OpenedFiles(path)
        super().__init__(path)
        self._files = files
        self._schema = self._read_schema()
        self._monotonic_ns = monotonic_ns
        self._older: tuple[object, int] = (None, 0)

    def is_current(self) -> bool:
        """Tell whether this still reads the store at its path, with all of its columns (rule 3)."""
        with explain_sqlite_errors(self.path):
            return self._files.find_change() is None and self._read_schema() == self._schema

    def _read_schema(self) -> int:
        with explain_sqlite_errors(self.path):
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        return int(version)

    def of_id(self, span_id: str) -> StoredSpan | None:
        """Read the span with exactly that id; ``None`` where there is none."""
        found = self._summaries(self._spans, "span_id = ?", (span_id,), 1)
        return next(iter(self.with_bytes(found)), None)

    def page(
        self,
        limit: int,
        *,
        before: int = LAST_SEQ,
        after: int = 0,
        texts: Sequence[str] = (),
        seconds: float,
    ) -> Page:
        """Read the newest rows that were chosen and whose spans hold every text.

        Args:
            limit: how many rows at most.
            before: only rows with a smaller number.
            after: only rows with a greater number.
            texts: each is searched for in the bytes.
            seconds: how long to look. A step that has begun is ended.
        """
        until_ns = self._monotonic_ns() + int(seconds * 1e9)
        with explain_sqlite_errors(self.path):
            if texts:
                return self._search_page(limit, before, after, texts, until_ns)
            return self._list_page(limit, before, after, until_ns)

    def _list_page(self, limit: int, before: int, after: int, until_ns: int) -> Page:
        statement = (
            f"SELECT {SUMMARY_COLUMNS} FROM {self._listed} WHERE {self._where}"  # noqa: S608 - no foreign text
            " AND seq BETWEEN ? AND ? ORDER BY seq DESC LIMIT ?"
        )
        (oldest,) = self._connection.execute(_OLDEST).fetchone()
        first = max(oldest or 0, after + 1)
        until = self._newest_seq(before - 1)
        rows: list[SpanSummary] = []
        while oldest is not None and until >= first:
            since = max(first, until - STEP_NUMBERS + 1)
            values = (*self._values, since, until, limit - len(rows))
            rows += map(make_summary, self._connection.execute(statement, values))
            if len(rows) >= limit:
                back_to = rows[-1].seq if rows else until + 1
                is_done = self._newest_seq(back_to - 1) < first
                return Page(rows=rows, back_to=back_to, is_done=is_done, is_late=False)
            until = self._newest_seq(since - 1)
            if until >= first and self._monotonic_ns() >= until_ns:
                return Page(rows=rows, back_to=since, is_done=False, is_late=True)
        return Page(rows=rows, back_to=first, is_done=True, is_late=False)

    def _search_page(
        self, limit: int, before: int, after: int, texts: Sequence[str], until_ns: int
    ) -> Page:
        steps = search(
            self._connection,
            texts,
            where=f"{self._where} AND seq > ?",
            values=(*self._values, after),
            before=before,
        )
        numbers: list[int] = []
        back_to, is_done, is_late = before, False, False
        for step in steps:
            room = limit - len(numbers)
            numbers += step.hits[:room]
            back_to, is_done = step.back_to, step.is_done or step.back_to <= after + 1
            if len(step.hits) > room or (len(numbers) >= limit and not is_done):
                back_to, is_done = numbers[-1] if numbers else back_to, False
                break
            if is_done:
                break
            if self._monotonic_ns() >= until_ns:
                is_late = True
                break
        rows = [*self.rows(numbers)]
        return Page(rows=rows, back_to=back_to, is_done=is_done, is_late=is_late)

    def began_at(self, seq: int) -> int | None:
        """Find when the first row from this number on began; ``None`` where there is none."""
        with explain_sqlite_errors(self.path):
            found = self._connection.execute(_BEGAN, (seq,)).fetchone()
        return found[0] if found is not None and isinstance(found[0], int) else None

    def before_time(self, at_ns: int) -> int:
        """Find a number such that what began at that time or later has a greater one (rule 2)."""
        at_ns -= CLOCK_SLACK_NS
        with explain_sqlite_errors(self.path):
            (low,) = self._connection.execute(_OLDEST).fetchone()
            high = self._newest_seq(LAST_SEQ) + 1
            low = low or high
            while low < high:
                middle = (low + high) // 2
                seq, recorded_ns = self._connection.execute(_NEXT, (middle,)).fetchone()
                if not isinstance(recorded_ns, int) or recorded_ns < at_ns:
                    low = seq + 1
                else:
                    high = middle
        return int(low) - 1

    def neighbours(self, row: SpanSummary) -> Neighbours | None:
        """Find the calls beside one in its conversation; ``None`` where it has none."""
        conversation = row.columns.conversation
        if conversation is None:
            return None
        with explain_sqlite_errors(self.path):
            return find_neighbours(self._connection, self._spans, conversation, row.seq)

    def conversation(self, number: int) -> ConversationSums | None:
        """Sum a conversation up (:func:`~.conversation_rows.sum_conversation`)."""
        with explain_sqlite_errors(self.path):
            return sum_conversation(self._connection, self._spans, number)

    def conversation_rows(
        self, number: int, limit: int, *, after: int = 0, where: str = IS_CALL
    ) -> list[SpanSummary]:
        """Read rows of a conversation, oldest first, by default those of calls."""
        with explain_sqlite_errors(self.path):
            return [
                *read_rows(self._connection, self._spans, number, limit, after=after, where=where)
            ]

    def family(self, number: int, seconds: float) -> Family:
        """Read a conversation's rows and sub-agents (:func:`~.conversation_family.read_family`)."""
        is_late = self._make_clock(seconds)
        with explain_sqlite_errors(self.path):
            return read_family(self._connection, self._spans, self._listed, number, is_late)

    def rows_of(self, numbers: Sequence[int]) -> list[SpanSummary]:
        """Read the rows with these numbers, oldest first, some in one read."""
        found: list[SpanSummary] = []
        for start in range(0, len(numbers), _ROWS_AT_ONCE):
            some = numbers[start : start + _ROWS_AT_ONCE]
            where = f"seq IN ({', '.join('?' * len(some))}) ORDER BY seq"
            found += self._summaries(self._spans, where, tuple(some), len(some))
        return found

    def newest_chosen(self, conversation: int, since: int) -> int:
        """Find the newest row of a conversation that was chosen, from a number on; 0 for none."""
        where, values = f"{self._where} AND seq >= ?", (*self._values, since)
        with explain_sqlite_errors(self.path):
            return find_newest(self._connection, self._spans, conversation, where, values)

    def run(self, number: int) -> RunSums | None:
        """Sum a run up; ``None`` where there is none of that number."""
        with explain_sqlite_errors(self.path):
            return sum_run(self._connection, self._spans, number)

    def first_minute(self) -> int | None:
        """Find the minute in which the first call began; ``None`` where there is none."""
        with explain_sqlite_errors(self.path):
            return find_first_minute(self._connection)

    def time_sums(self, since: int, until: int, step_seconds: int, seconds: float) -> TimeSums:
        """Sum up the calls that began from one minute to before another, and were chosen."""
        is_late = self._make_clock(seconds)
        with explain_sqlite_errors(self.path):
            told, summed_after = TimeSums(), LAST_SEQ
            if self._where == IS_CALL:
                told, summed_after = sum_minutes(
                    self._connection, since, until, step_seconds, is_late
                )
            choice = self._choose_minutes(since, until)
            older = choice._replace(until=summed_after)
            sum_rows(self._connection, told, older, step_seconds, is_late)
            if self._where == IS_CALL:
                rank_all(self._connection, told, choice, is_late)
            return told

    def notable(self, since: int, until: int, count: int, seconds: float) -> Notable:
        """Find the slowest, dearest and failed calls (:func:`~.statistics.find_notable`)."""
        choice = self._choose_minutes(since, until)
        with explain_sqlite_errors(self.path):
            return find_notable(self._connection, choice, count, self._make_clock(seconds))

    def _choose_minutes(self, since: int, until: int) -> Choice:
        where = f"start_ns >= ? AND start_ns < ? AND {self._where}"
        values = (since * MINUTE_NS, until * MINUTE_NS, *self._values)
        after = self.before_time(since * MINUTE_NS)
        return Choice(self._listed, where, values, after=after)

    def _make_clock(self, seconds: float) -> Callable[[], bool]:
        until_ns = self._monotonic_ns() + int(seconds * 1e9)
        return lambda: self._monotonic_ns() >= until_ns

    def count_calls(self) -> int:
        """Count the calls: those of the sums by minute, and what these leave out, step by step."""
        last, calls = LAST_SEQ, 0
        with explain_sqlite_errors(self.path):
            if (after := find_summed_after(self._connection)) is not None:
                last = after
                (calls,) = self._connection.execute(_SUMMED_CALLS).fetchone()
            (oldest,) = self._connection.execute(_OLDEST).fetchone()
        if self._older[0] != (oldest, last):  # rows are only removed, the oldest first
            self._older = ((oldest, last), self.measure(last).count)
        return int(calls) + self._older[1]

    def count_states(self) -> dict[str, int]:
        """Count the spans in each state, by the tally where there is one."""
        with explain_sqlite_errors(self.path):
            if self._has_tally():
                tally = read_tally(self._connection)
                if tally.is_whole:
                    return dict(tally.counts)
            return dict(self._connection.execute(_STATES).fetchall())

    def _has_tally(self) -> bool:
        found = self._connection.execute("SELECT count(*) FROM pragma_table_info('tally')")
        return bool(found.fetchone()[0])
