"""What the calls of some time come to, by model and upstream and over time, in bounded reads.

Functions on an open connection.

Rules:

1. Where no condition is asked, sums are those by minute (:mod:`telemetry.store.minutes`), and of
   rows that these leave out. Else they are made of rows, by the same rules and limits.
2. No read is long: minutes are read :data:`STEP_MINUTES` at a time, rows :data:`STEP_NUMBERS`
   numbers at a time, the newest first. Where the time is over, what was read so far is told, and
   that it is not all.
3. The resolution is the minute, in which a call begins.
4. How long calls took is known by rank, as ``spantap stats`` tells it.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from heapq import nlargest
from typing import TYPE_CHECKING, Final, NamedTuple

from telemetry.reading.sqlite.ranking import Times, choose_numbers, read_times, spread
from telemetry.store.minutes import (
    IS_MINUTE,
    SUM_NAMES,
    find_summed_after,
    sum_up,
    write_sum,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Mapping, Sequence

STEP_MINUTES: Final = 1_440
"""A day, of a dozen models in every minute some 15,000 rows: 10 ms."""

STEP_NUMBERS: Final = 50_000
"""Numbers whose rows are read at a time: some 30 ms where a condition is asked of each."""

MAX_ERROR_TYPES: Final = 10_000
"""Classes of errors that are counted, a megabyte; providers have some dozens. One more is left
out."""

_FIRST_STEP: Final = 2_000
"""Rows in which the first candidates for the slowest and dearest are found: against these all other
rows are held in the same read."""

_MINUTES = f"""
SELECT CAST(model AS TEXT), CAST(upstream AS TEXT), minute * 60 / ?,
    {", ".join(map(write_sum, SUM_NAMES))}
FROM minutes WHERE {IS_MINUTE} AND minute >= ? AND minute < ? GROUP BY 1, 2, 3
"""  # noqa: S608 - constants

_MINUTE_ENDS = f"""
SELECT min(minute), max(minute) FROM minutes WHERE {IS_MINUTE} AND minute >= ? AND minute < ?
"""  # noqa: S608 - constants

_FIRST_MINUTE = f"SELECT min(minute) FROM minutes WHERE {IS_MINUTE}"  # noqa: S608 - constants

_ROWS = """
SELECT start_ns, end_ns, CAST(model AS TEXT), status, CAST(prompt_tokens AS INTEGER),
    CAST(completion_tokens AS INTEGER), CAST(upstream AS TEXT), CAST(cost_usd AS REAL),
    CAST(cached_tokens AS INTEGER), CAST(ttft_ns AS INTEGER)
FROM {spans} WHERE seq BETWEEN ? AND ? AND typeof(start_ns) = 'integer'
    AND typeof(end_ns) = 'integer' AND {where} ORDER BY seq
"""

_NUMBERS = "SELECT seq FROM {spans} WHERE seq BETWEEN ? AND ? AND {where} ORDER BY seq DESC"

_GROUP: Final = "CAST(coalesce(model, '') AS TEXT), CAST(coalesce(upstream, '') AS TEXT)"

_NOTABLE = """
SELECT seq, end_ns - start_ns, cost_usd, status, coalesce(error_type, outcome)
FROM {spans} WHERE seq BETWEEN ? AND ?
    AND (status = 'ERROR' OR end_ns - start_ns > ? OR cost_usd > ?) AND {where}
"""

_NEWEST = "SELECT max(seq) FROM spans WHERE seq <= ?"

_OLDEST = "SELECT min(seq) FROM spans"

_FIRST_START = "SELECT start_ns FROM spans ORDER BY seq LIMIT 1"


@dataclass(slots=True)
class Sums:
    """What some calls come to; fields as those of :class:`~telemetry.store.minutes.MinuteSums`."""

    amounts: list[float] = field(default_factory=lambda: [0] * len(SUM_NAMES))

    def add(self, amounts: Sequence[float | None]) -> None:
        """Add other sums, in the order of :data:`~telemetry.store.minutes.SUM_NAMES`."""
        mine = zip(self.amounts, amounts, strict=True)
        self.amounts = [one + (more or 0) for one, more in mine]

    def get(self, name: str) -> float:
        """Get one of the sums."""
        return self.amounts[SUM_NAMES.index(name)]


@dataclass(slots=True)
class TimeSums:
    """The sums of some calls, by model and upstream, and by time.

    Attributes:
        groups: by model and upstream, each an empty text where it is not known.
        buckets: calls and errors, by the number of the step since the epoch.
        times: how long those calls took that are ranked, by model and upstream
            (:mod:`telemetry.reading.sqlite.ranking`).
        is_whole: nothing was left out for the time it would take.
    """

    groups: dict[tuple[str, str], Sums] = field(default_factory=dict)
    buckets: dict[int, list[float]] = field(default_factory=dict)
    times: Times = field(default_factory=Times)
    is_whole: bool = True

    def add(self, model: str, upstream: str, bucket: int, amounts: Sequence[float | None]) -> None:
        """Add sums of a group in a step of time."""
        self.groups.setdefault((model, upstream), Sums()).add(amounts)
        counted = self.buckets.setdefault(bucket, [0, 0])
        counted[0] += amounts[0] or 0
        counted[1] += amounts[1] or 0


class Failure(NamedTuple):
    """Calls that failed in one way: the class of the error, how many, and the newest one."""

    error_type: str
    calls: int
    last_seq: int


class Notable(NamedTuple):
    """Calls that somebody wants to see.

    Attributes:
        slowest: numbers, the slowest first.
        dearest: numbers, the dearest first.
        failed: the most frequent first.
        is_whole: all rows were looked at.
    """

    slowest: Sequence[int]
    dearest: Sequence[int]
    failed: Sequence[Failure]
    is_whole: bool


def find_first_minute(connection: sqlite3.Connection) -> int | None:
    """Find the minute in which the first call began, by what was recorded first."""
    found = connection.execute(_FIRST_START).fetchone()
    minute = None if found is None or not isinstance(found[0], int) else found[0] // 60_000_000_000
    if find_summed_after(connection) is not None:
        (first,) = connection.execute(_FIRST_MINUTE).fetchone()
        known = [one for one in (first, minute) if one is not None]
        return min(known, default=None)
    return minute


def sum_minutes(
    connection: sqlite3.Connection,
    since: int,
    until: int,
    step_seconds: int,
    is_late: Callable[[], bool],
) -> tuple[TimeSums, int]:
    """Sum up the minutes from `since` to before `until`.

    Returns:
        The sums, and the number up to which rows are not in them.
    """
    told = TimeSums()
    if (summed_after := find_summed_after(connection)) is None:
        return told, (1 << 63) - 1
    first, last = connection.execute(_MINUTE_ENDS, (since, until)).fetchone()
    at = last
    while at is not None and at >= first:
        low = max(first, at - STEP_MINUTES + 1)
        for model, upstream, bucket, *sums in connection.execute(
            _MINUTES, (step_seconds, low, at + 1)
        ):
            told.add(model, upstream, bucket, sums)
        at = low - 1
        if at >= first and is_late():
            told.is_whole = False
            break
    return told, summed_after


def sum_rows(
    connection: sqlite3.Connection,
    told: TimeSums,
    choice: Choice,
    step_seconds: int,
    is_late: Callable[[], bool],
) -> None:
    """Sum rows up, the newest first, into what is told, and choose those that are ranked."""
    statement = _ROWS.format(spans=choice.spans, where=choice.where)
    found: list[tuple[tuple[str, str], int]] = []  # newest first
    for since, until in choice.steps_back(connection):
        if is_late():
            told.is_whole = False
            break
        rows = connection.execute(statement, (since, until, *choice.values)).fetchall()
        for (minute, model, upstream), sums in sum_up(rows).items():
            told.add(model, upstream, minute * 60 // step_seconds, sums)
        found += (((row[2] or "", row[6] or ""), row[1] - row[0]) for row in reversed(rows))
    for key, took_ns in spread(found[::-1]):
        told.times.add(key, took_ns)


def rank_all(
    connection: sqlite3.Connection, told: TimeSums, choice: Choice, is_late: Callable[[], bool]
) -> None:
    """Choose the calls that are ranked, where nothing but a time is asked, and read their times."""

    def list_all() -> Sequence[int]:
        found = array("q")
        statement = _NUMBERS.format(spans=choice.spans, where=choice.where)
        for since, until in choice.steps_back(connection):
            if found and is_late():
                told.is_whole = False
                break
            found.extend(
                seq for (seq,) in connection.execute(statement, (since, until, *choice.values))
            )
        found.reverse()
        return found

    calls = int(sum(sums.get("calls") for sums in told.groups.values()))
    if not calls:
        return
    numbers = choose_numbers(connection, calls, list_all, choice.after)
    told.times, is_whole = read_times(
        connection,
        _GROUP,
        numbers,
        spans=choice.spans,
        where=choice.where,
        values=choice.values,
        is_late=is_late,
    )
    told.is_whole = told.is_whole and is_whole


class Choice(NamedTuple):
    """Which rows are meant.

    Attributes:
        spans: the table, without its indexes.
        where: a condition.
        values: of its parameters.
        after: only rows with a greater number.
        until: only rows with this number at most.
    """

    spans: str
    where: str
    values: Sequence[str | float]
    after: int = 0
    until: int = (1 << 63) - 1

    def steps_back(self, connection: sqlite3.Connection) -> Iterator[tuple[int, int]]:
        """Yield the first and last number of each step, from the newest back, over gaps."""
        (oldest,) = connection.execute(_OLDEST).fetchone()
        first = max(oldest or 0, self.after + 1)
        size = _FIRST_STEP
        (until,) = connection.execute(_NEWEST, (self.until,)).fetchone()
        while oldest is not None and until is not None and until >= first:
            since = max(first, until - size + 1)
            yield since, until
            size = STEP_NUMBERS
            (until,) = connection.execute(_NEWEST, (since - 1,)).fetchone()


def find_notable(
    connection: sqlite3.Connection, choice: Choice, count: int, is_late: Callable[[], bool]
) -> Notable:
    """Find the slowest and dearest calls, and how calls failed, `count` of each, newest first."""
    statement = _NOTABLE.format(spans=choice.spans, where=choice.where)
    slowest: list[tuple[float, int]] = []
    dearest: list[tuple[float, int]] = []
    failed: dict[str, tuple[int, int]] = {}
    is_whole = True
    for step, (since, until) in enumerate(choice.steps_back(connection)):
        if step and is_late():  # sums may have taken all the time: the newest rows are read anyway
            is_whole = False
            break
        bounds = (_find_bound(slowest, count), _find_bound(dearest, count))
        rows = connection.execute(statement, (since, until, *bounds, *choice.values))
        for seq, took, cost, status, error_type in rows:
            if isinstance(took, int):
                slowest.append((took, seq))
            if isinstance(cost, int | float):
                dearest.append((cost, seq))
            if status == "ERROR":
                _count_failure(failed, str(error_type), seq)
        slowest, dearest = nlargest(count, slowest), nlargest(count, dearest)
    return Notable(
        [seq for _, seq in slowest],
        [seq for _, seq in dearest],
        nlargest(count, _list_failures(failed), key=lambda one: (one.calls, one.last_seq)),
        is_whole,
    )


def _find_bound(found: Sequence[tuple[float, int]], count: int) -> float:
    """What a row must exceed to be among those that are told."""
    return found[-1][0] if len(found) >= count else -1


def _count_failure(failed: dict[str, tuple[int, int]], error_type: str, seq: int) -> None:
    if len(failed) >= MAX_ERROR_TYPES and error_type not in failed:
        return
    calls, last = failed.get(error_type, (0, 0))
    failed[error_type] = (calls + 1, max(last, seq))


def _list_failures(failed: Mapping[str, tuple[int, int]]) -> list[Failure]:
    return [Failure(name, calls, last) for name, (calls, last) in failed.items()]
