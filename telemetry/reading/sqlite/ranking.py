"""How long calls took, by rank: the one place that percentiles come from.

Functions on an open connection.

Rules:

1. All calls are ranked where they are :data:`MAX_RANKED` at most; of more, as many of them, chosen
   evenly by number. :attr:`Ranks.calls` says how many were ranked.
2. Calls are read :data:`_ROWS_AT_ONCE` at a time, the newest first, until the time is over.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from telemetry.store.calls import IS_CALL

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Hashable, Sequence

MAX_RANKED: Final = 20_000
"""Calls that are ranked: the rank of a percentile is right within less than one in a hundred."""

_MOST_LOOKED_AT: Final = 5
"""Numbers that are looked at for each call that is ranked; of more it is quicker to list them."""

_DENSE: Final = 0.9
"""The share of numbers that calls have, from the first to the last, from which on those without a
call hardly matter."""

_ROWS_AT_ONCE: Final = 500
"""Rows that one statement asks for by their numbers: SQLite takes some 30,000 parameters."""

_TIMES = """
SELECT end_ns - start_ns, ttft_ns, {group} FROM {spans} WHERE seq IN ({numbers}) AND {where}
"""


class Ranks(NamedTuple):
    """How long some calls took, in nanoseconds; ``None`` where it is known of none.

    Attributes:
        calls: how many were ranked (rule 1).
        p50_ns: what half of them took at most; the others likewise.
    """

    calls: int = 0
    p50_ns: int | None = None
    p90_ns: int | None = None
    p95_ns: int | None = None
    p99_ns: int | None = None

    @property
    def shown(self) -> tuple[int | None, int | None, int | None]:
        """What ``spantap stats`` shows: p50, p90 and p99."""
        return self.p50_ns, self.p90_ns, self.p99_ns


NO_RANKS: Final = Ranks()


class Times:
    """How long calls took, and their first output, by group.

    Attributes:
        took: nanoseconds of each call, by group.
        ttft: likewise, of the calls whose first output is known.
    """

    def __init__(self) -> None:
        self.took: dict[Hashable, list[int]] = {}
        self.ttft: dict[Hashable, list[int]] = {}

    def add(self, key: Hashable, took_ns: object, ttft_ns: object = None) -> None:
        """Add a call; what is not a number of nanoseconds is left out."""
        if isinstance(took_ns, int):
            self.took.setdefault(key, []).append(took_ns)
        if isinstance(ttft_ns, int):
            self.ttft.setdefault(key, []).append(ttft_ns)


def rank(times: Sequence[int]) -> Ranks:
    """Rank times.

    >>> rank([7, 9, 8]).p50_ns, rank([])
    (8, Ranks(calls=0, p50_ns=None, p90_ns=None, p95_ns=None, p99_ns=None))
    """
    if not times:
        return NO_RANKS
    times, count = sorted(times), len(times)
    return Ranks(count, *(times[-(-count * percent // 100) - 1] for percent in (50, 90, 95, 99)))


def spread(things: Sequence[Any], wanted: int | None = None) -> Sequence[Any]:
    """Choose some of many evenly, by default as many as are ranked; all where they are no more."""
    count, wanted = len(things), MAX_RANKED if wanted is None else wanted
    if count <= wanted:
        return things
    return [things[at * count // wanted] for at in range(wanted)]


def choose_numbers(
    connection: sqlite3.Connection,
    calls: int,
    list_numbers: Callable[[], Sequence[int]],
    after: int = 0,
) -> Sequence[int]:
    """Choose the numbers of the calls that are ranked, of all that no condition leaves out.

    Some may be of rows that are none of these calls.

    Args:
        connection: to a store, for reading.
        calls: how many there are.
        list_numbers: lists all of their numbers. Of a million that takes 0.2 s, so that it is asked
            only where numbers lie far apart, or calls are few.
        after: all of them have a greater number.
    """
    # One statement for both would read all rows.
    (first,) = connection.execute("SELECT min(seq) FROM spans").fetchone()
    (last,) = connection.execute("SELECT max(seq) FROM spans").fetchone()
    (rows,) = connection.execute("SELECT count(*) FROM spans").fetchone()
    if calls > MAX_RANKED and rows > _DENSE * (last - first):
        numbers = range(max(first, after + 1), last + 1)
        wanted = MAX_RANKED * rows * len(numbers) // ((last + 1 - first) * calls)
        if wanted <= _MOST_LOOKED_AT * MAX_RANKED:
            return spread(numbers, wanted)
    return spread(list_numbers())


def list_numbers(
    connection: sqlite3.Connection, spans: str, where: str, values: Sequence[str | float]
) -> Sequence[int]:
    """List the numbers of all calls for which a condition holds, oldest first."""
    rows = connection.execute(f"SELECT seq FROM {spans} WHERE {where}", values)  # noqa: S608 - no foreign text
    return array("q", (seq for (seq,) in rows))


def read_times(
    connection: sqlite3.Connection,
    group: str,
    numbers: Sequence[int],
    *,
    spans: str,
    where: str = IS_CALL,
    values: Sequence[str | float] = (),
    is_late: Callable[[], bool] = lambda: False,
) -> tuple[Times, bool]:
    """Read how long these calls took.

    Args:
        connection: to a store, for reading.
        group: SQL of what calls have in common; of several columns a key is a tuple.
        numbers: of the calls, oldest first.
        spans: the table.
        where: what else has to hold for a row with such a number.
        values: of its parameters.
        is_late: asked between two reads.

    Returns:
        The times, and whether all were read.
    """
    times = Times()
    for end in range(len(numbers), 0, -_ROWS_AT_ONCE):
        asked = numbers[max(0, end - _ROWS_AT_ONCE) : end]
        marks = ", ".join("?" * len(asked))
        statement = _TIMES.format(group=group, spans=spans, numbers=marks, where=where)
        for took_ns, ttft_ns, *key in connection.execute(statement, (*asked, *values)):
            times.add(key[0] if len(key) == 1 else tuple(key), took_ns, ttft_ns)
        if end > _ROWS_AT_ONCE and is_late():
            return times, False
    return times, True
