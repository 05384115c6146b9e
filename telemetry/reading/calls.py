"""The calls that are recorded: the one way in which they are read.

Whoever asks says which rows are meant (:mod:`telemetry.finding.where`). An engine finds them
(:mod:`telemetry.reading.engine`).
"""

from __future__ import annotations

import time
from array import array
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from telemetry.finding.where import ALL_CALLS, ALL_ROWS
from telemetry.reading.engine import LAST_SEQ, Page, never
from telemetry.store.rows import ChosenSpans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from telemetry.finding.where import Where
    from telemetry.raw_answer import RawAnswer
    from telemetry.reading.conversations import Conversation
    from telemetry.reading.engine import Engine, Group, Notable, SearchStep
    from telemetry.reading.groups import DearestGroups, GroupSums, NewestGroups
    from telemetry.reading.limits import Limits
    from telemetry.reading.neighbours import Neighbours
    from telemetry.reading.runs import RunSums, ToolCalls
    from telemetry.reading.sums import Aggregate
    from telemetry.store.rows import CallPicture, SpanSummary, StoredSpan
    from telemetry.store.unobserved_calls import UnobservedCalls

ROWS_OF_A_READ: Final = 1_000
"""Rows that are read at a time by whoever goes through many."""

_ROWS_AT_ONCE: Final = 500

_USAGE: Final = ("prompt_tokens", "completion_tokens", "cached_tokens")

_MEASURED: Final = {
    "count": "rows",
    "derived": "derived",
    "pending": "pending",
    "size_bytes": "size_bytes",
    "first_ns": "start_ns",
    "last_ns": "last_start_ns",
}
"""The fields of :class:`~telemetry.store.rows.ChosenSpans`, as amounts."""


class CallUsages(NamedTuple):
    """Calls of a group that have the same counts of tokens; ``None`` where one is not known."""

    key: Any
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    calls: int


class Calls:
    """Some of the recorded calls, or of all rows; use it as a context, or :meth:`close` it.

    What is recorded meanwhile is among them where it fits. Each method raises
    :exc:`~telemetry.errors.StoreError` where they cannot be read.

    Args:
        engine: reads them.
        where: which are meant.
    """

    def __init__(self, engine: Engine, where: Where = ALL_CALLS) -> None:
        self._engine = engine
        self._where = where

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End reading, for all that came from the same engine."""
        self._engine.close()

    @property
    def path(self) -> Path:
        """Where they are recorded."""
        return self._engine.path

    def is_current(self) -> bool:
        """Tell whether these still are the calls at that path."""
        return self._engine.is_current()

    def that(self, where: Where) -> Calls:
        """Return the calls that are meant, of all that there are."""
        return Calls(self._engine, where)

    def all_rows(self) -> Calls:
        """Return all rows, also those that are no calls."""
        return self.that(ALL_ROWS)

    # Lists

    def page(
        self, limit: int, *, before: int = LAST_SEQ, after: int = 0, seconds: float | None = None
    ) -> Page:
        """Read the newest of them whose spans hold every text.

        Args:
            limit: how many at most.
            before: only those with a smaller number.
            after: only those with a greater number.
            seconds: how long to look. A step that has begun is ended.
        """
        is_late = never if seconds is None else make_clock(seconds)
        if self._where.texts:
            return self._search_page(limit, before, after, is_late)
        return self._engine.select(self._where, limit, before=before, after=after, is_late=is_late)

    def _search_page(
        self, limit: int, before: int, after: int, is_late: Callable[[], bool]
    ) -> Page:
        numbers: list[int] = []
        back_to, is_done, late = before, False, False
        for step in self._engine.search(self._where, before=before):
            room = limit - len(numbers)
            hits = [seq for seq in step.hits if seq > after]
            numbers += hits[:room]
            back_to, is_done = step.back_to, step.is_done or step.back_to <= after + 1
            if len(hits) > room or (len(numbers) >= limit and not is_done):
                back_to, is_done = numbers[-1] if numbers else back_to, False
                break
            if is_done:
                break
            if is_late():
                late = True
                break
        rows = [*self.rows(numbers)]
        return Page(rows=rows, back_to=back_to, is_done=is_done, is_late=late)

    def numbers(self, limit: int, largest: str = "") -> array[int]:
        """Find the numbers of up to `limit`, the newest first, or those with the most of a fact.

        `largest`: one of :data:`telemetry.facts.ORDERS`' facts; empty for the newest.
        """
        if largest:
            return array("q", self._engine.largest(self._where, largest, limit))
        return array("q", self._engine.numbers(self._where, limit=limit, oldest_first=False))

    def walk(self, until: int = LAST_SEQ - 1) -> Iterator[int]:
        """Yield the numbers of all of them up to number `until`, oldest first, step by step."""
        return self._engine.numbers(self._where, before=until + 1, oldest_first=True)

    def rows(self, numbers: Iterable[int]) -> Iterator[SpanSummary]:
        """Yield the rows with these numbers, each read when needed, without those that are gone."""
        return self._engine.rows(numbers)

    def rows_of(self, numbers: Iterable[int]) -> Iterator[SpanSummary]:
        """Yield the rows with these numbers, which rise, many in one read."""
        return self._engine.rows(numbers, at_once=_ROWS_AT_ONCE)

    def with_bytes(self, rows: Iterable[SpanSummary]) -> Iterator[StoredSpan]:
        """Yield rows with their bytes; one that is gone is left out."""
        return self._engine.bodies(rows)

    def newest(self, limit: int) -> Iterator[StoredSpan]:
        """Yield up to `limit` of the newest, the oldest first, each read when needed."""
        return self.with_bytes(self.rows(reversed(self.numbers(limit))))

    def after(self, seq: int, limit: int = LAST_SEQ) -> list[SpanSummary]:
        """Read rows recorded after number `seq`, oldest first; :data:`ROWS_OF_A_READ` at most."""
        limit = min(limit, ROWS_OF_A_READ)
        return [*self._engine.select(self._where, limit, after=seq, oldest_first=True).rows]

    def since(self, seq: int) -> Iterator[SpanSummary]:
        """Yield the rows recorded after number `seq`, oldest first, some read at a time."""
        while rows := self.after(seq):
            seq = rows[-1].seq
            yield from rows

    def search(self) -> Iterator[SearchStep]:
        """Search their spans for the texts, newest first, in steps."""
        return self._engine.search(self._where)

    # One

    def one(self, span_id: str) -> StoredSpan | None:
        """Read the row of any kind with exactly that span id; ``None`` where there is none."""
        found = self._engine.one(span_id)
        return None if found is None else next(self.with_bytes([found]), None)

    def find(self, id_prefix: str, limit: int = 10) -> list[StoredSpan]:
        """Find the rows of any kind one of whose ids begins so, newest first.

        A whole span id finds its span alone; a whole request id of a provider's finds those that
        have it alone. The digits of span and trace ids may be of either case.
        """
        if not id_prefix or not id_prefix.isprintable():
            return []
        return [*self.with_bytes(self._engine.find(id_prefix, limit))]

    def pictures(self, seq: int) -> list[CallPicture]:
        """Read which pictures the row with this number has, kept or left out."""
        return self._engine.pictures(seq)

    def picture(self, seq: int, digest: str) -> bytes | None:
        """Read the bytes of a picture of this row; ``None`` if they are not there, or damaged."""
        return self._engine.picture(seq, digest)

    def raw_answer(self, seq: int) -> RawAnswer | None:
        """Read the true bytes of the answer of this row; ``None`` if they are not kept."""
        return self._engine.raw_answer(seq)

    def last_seq(self) -> int:
        """Return the number of the newest row of all, whichever are meant; 0 for none."""
        return self._engine.last_seq()

    def began_at(self, seq: int) -> int | None:
        """Find when the first row of all from this number on began; ``None`` for none."""
        rows = self._engine.select(ALL_ROWS, 1, after=seq - 1, oldest_first=True).rows
        return (rows[0].start_ns or None) if rows else None

    def first_ns(self) -> int | None:
        """Find the beginning of the minute in which the first row of all began."""
        return self._engine.first_ns()

    # Sums

    def count(self) -> int:
        """Count them."""
        found = self._engine.sum(self._where, (), ("calls" if self._is_of_calls else "rows",))
        return int(found.groups.get((), (0,))[0])

    @property
    def _is_of_calls(self) -> bool:
        return self._where.rows is ALL_CALLS.rows

    def measure(self, until: int = LAST_SEQ - 1) -> ChosenSpans:
        """Count them, up to number `until`, step by step; texts are not looked for."""
        names = tuple(_MEASURED.values())
        found = self._engine.sum(self._where, (), names, before=until + 1, is_late=never)
        amounts = found.groups.get((), ())
        known = dict(zip(_MEASURED, amounts, strict=False))
        return ChosenSpans(**{name: value for name, value in known.items() if value is not None})

    def aggregate(
        self, *by: Group, step_seconds: int = 0, seconds: float | None = None
    ) -> Aggregate:
        """Sum them up (:func:`telemetry.reading.sums.aggregate`), in so many seconds."""
        from telemetry.reading.sums import aggregate  # noqa: PLC0415 - no list of calls needs it

        is_late = None if seconds is None else make_clock(seconds)
        return aggregate(self._engine, self._where, by, step_seconds, is_late)

    def newest_groups(self, by: str, *, before: int = LAST_SEQ, seconds: float) -> NewestGroups:
        """Group them by a fact, the newest first, from a number back, in so many seconds."""
        from telemetry.reading.groups import group_newest  # noqa: PLC0415 - no list of calls needs it

        return group_newest(self._engine, self._where, by, before, make_clock(seconds))

    def dearest_groups(self, by: str, limit: int) -> DearestGroups:
        """Sum up the dearest conversations or runs, with their titles, at most `limit`.

        All rows are read once: of a million that takes some seconds.
        """
        from telemetry.reading.groups import group_dearest  # noqa: PLC0415 - no list of calls needs it

        return group_dearest(self._engine, self._where, by, limit)

    def with_title(self, by: str, sums: GroupSums) -> GroupSums:
        """Add its title and its launch to a conversation or a run."""
        from telemetry.reading.groups import add_title  # noqa: PLC0415 - no list of calls needs it

        return add_title(self._engine, by, sums)

    def usages(self, by: str) -> Iterator[CallUsages]:
        """Count the tokens that they have, by one of :data:`~telemetry.reading.sums.GROUPS`.

        Of a million that takes some seconds.
        """
        from telemetry.reading.sums import GROUPS  # noqa: PLC0415 - no list of calls needs it

        groups = GROUPS[by]
        for *key, prompt, completion, cached, calls in self._engine.count_by(
            self._where, (*groups, *_USAGE)
        ):
            yield CallUsages(key[0] if key else "", prompt, completion, cached, calls)

    def count_states(self) -> dict[str, int]:
        """Count all rows that there are in each state."""
        found = self._engine.sum(ALL_ROWS, ("state",), ("rows",)).groups
        return {state: rows for (state,), (rows,) in found.items()}

    def tool_calls(self) -> ToolCalls:
        """Count the tools that they called."""
        from telemetry.reading.runs import count_tool_calls  # noqa: PLC0415 - no list of calls needs it

        return count_tool_calls(self._engine, self._where)

    def limits(self, seconds: float) -> Limits:
        """Find how near each rate limit came (:func:`telemetry.reading.limits.find_limits`)."""
        from telemetry.reading.limits import find_limits  # noqa: PLC0415 - no list of calls needs it

        return find_limits(self._engine, self._where, make_clock(seconds))

    def notable(self, count: int, seconds: float) -> Notable:
        """Find the slowest, dearest and failed of them, `count` of each, newest first."""
        return self._engine.notable(self._where, count, make_clock(seconds))

    def unobserved(self, since_ns: int = 0) -> list[UnobservedCalls]:
        """Read the calls that were relayed and not observed, the most frequent path first.

        `since_ns`: only those of proxies that began later.
        """
        return self._engine.unobserved(since_ns)

    # Runs and conversations

    def runs(self, limit: int, largest: str = "") -> list[RunSums]:
        """Sum up at most `limit` runs that have a chosen row, the newest or largest first.

        `largest`: one of :data:`telemetry.facts.ORDERS`' facts; empty for the newest.
        """
        from telemetry.reading.runs import sum_run  # noqa: PLC0415 - no list of calls needs it

        numbers = self._engine.runs(self._where, limit, largest)
        found = (sum_run(self._engine, run) for run in numbers)
        return [sums for sums in found if sums is not None]

    def of_run(self, number: int) -> RunSums | None:
        """Sum a run up; ``None`` where there is none of that number."""
        from telemetry.reading.runs import sum_run  # noqa: PLC0415 - no list of calls needs it

        return sum_run(self._engine, number)

    def run_tree(
        self, number: int, limit: int | None = None
    ) -> tuple[RunSums, list[SpanSummary]] | None:
        """Sum a run up, and read its rows and others of its trace.

        `limit`: how many rows, :data:`~telemetry.reading.runs.MAX_TREE_ROWS` by default; if there
        are more, one more than that is read.
        """
        from telemetry.reading.runs import MAX_TREE_ROWS, read_tree, sum_run  # noqa: PLC0415 - no list of calls needs it

        sums = sum_run(self._engine, number)
        if sums is None:
            return None
        return sums, read_tree(self._engine, sums, limit or MAX_TREE_ROWS)

    def run_of_trace(self, trace_id: str) -> int | None:
        """Find the outermost run in a trace: that of the lowest number."""
        from telemetry.reading.runs import find_outermost  # noqa: PLC0415 - no list of calls needs it

        return find_outermost(self._engine, trace_id)

    def of_conversation(self, number: int) -> Conversation:
        """Return a conversation; there need not be one of that number."""
        from telemetry.reading.conversations import Conversation  # noqa: PLC0415 - no list needs it

        return Conversation(self._engine, number)

    def beside(self, seq: int) -> Neighbours:
        """Find the calls before and after the row of a number, and count them."""
        from telemetry.reading.neighbours import find_neighbours  # noqa: PLC0415 - no list needs it

        return find_neighbours(self._engine, self._where, seq)

    def is_in(self, number: int, since: int) -> bool:
        """Tell whether one of them is in a conversation, from a number on."""
        return self.of_conversation(number).has(self._where, since)


def make_clock(seconds: float) -> Callable[[], bool]:
    """Make what tells that so many seconds are over."""
    until_ns = time.monotonic_ns() + int(seconds * 1e9)
    return lambda: time.monotonic_ns() >= until_ns
