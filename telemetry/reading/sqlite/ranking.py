"""How long calls took: those that are read to be ranked (:mod:`telemetry.reading.sums`).

Functions on an open connection.

Rules:

1. All calls are read where they are no more than are wanted; of more, as many of them, chosen
   evenly by number.
2. Calls are read :data:`_ROWS_AT_ONCE` at a time until the time is over. Each read takes them from
   all over the store, so that those that were read are an even choice at any time.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from telemetry.facts import RANKED
from telemetry.reading.engine import Times
from telemetry.reading.sqlite.conditions import COLUMNS
from telemetry.reading.sqlite.summing import write_group
from telemetry.reading.sqlite.walking import find_newest, find_oldest, walk_back

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from telemetry.reading.engine import Group
    from telemetry.reading.sqlite.conditions import Chosen

_MOST_LOOKED_AT: Final = 5
"""Numbers that are looked at for each call that is ranked; of more it is quicker to list them."""

_DENSE: Final = 0.9
"""The share of numbers that calls have, from the first to the last, from which on those without a
call hardly matter."""

_ROWS_AT_ONCE: Final = 500
"""Rows that one statement asks for by their numbers: SQLite takes some 30,000 parameters."""

_DURATIONS: Final = ", ".join(COLUMNS.get(fact.name, fact.name) for fact in RANKED)


def spread(things: Sequence[int], wanted: int) -> Sequence[int]:
    """Choose some of many evenly; all where they are no more."""
    count = len(things)
    if count <= wanted:
        return things
    return [things[at * count // wanted] for at in range(wanted)]


def choose_numbers(
    connection: sqlite3.Connection,
    calls: int,
    most: int,
    list_numbers: Callable[[], Sequence[int]],
    after: int = 0,
) -> Sequence[int]:
    """Choose numbers of calls, where nothing but their time is asked of them.

    Some may belong to rows that are not among these calls.

    Args:
        connection: to a store, for reading.
        calls: how many there are.
        most: how many are wanted.
        list_numbers: lists all of their numbers. Of a million that takes 0.2 s, so that it is asked
            only where numbers lie far apart, or calls are few.
        after: all of them have a greater number.
    """
    first, last = find_oldest(connection), find_newest(connection)
    (rows,) = connection.execute("SELECT count(*) FROM spans").fetchone()
    if first is None:
        return ()  # all is gone but the sums by minute, which a disk may have damaged
    calls = min(calls, rows)
    if calls > most and rows > _DENSE * (last - first):
        numbers = range(max(first, after + 1), last + 1)
        wanted = most * rows * len(numbers) // ((last + 1 - first) * calls)
        if wanted <= _MOST_LOOKED_AT * most:
            return spread(numbers, wanted)
    return spread(list_numbers(), most)


def rank_times(
    connection: sqlite3.Connection,
    chosen: Chosen,
    by: Sequence[Group],
    calls: int,
    most: int,
    *,
    is_late: Callable[[], bool],
    is_plain: bool,
) -> Times:
    """Read how long calls took: of `calls` of them `most` at most.

    `is_plain`: nothing is asked of them, but for their time.
    """
    is_all = True

    def list_numbers() -> Sequence[int]:
        nonlocal is_all
        found = array("q")
        statement = (
            f"SELECT seq FROM {chosen.spans} WHERE {chosen.where}"  # noqa: S608 - no foreign text
            " AND seq BETWEEN ? AND ? ORDER BY seq DESC"
        )
        for step in walk_back(connection, after=chosen.after):
            if found and is_late():
                is_all = False
                break
            rows = connection.execute(statement, (*chosen.values, *step))
            found.extend(seq for (seq,) in rows)
        found.reverse()
        return found

    if is_plain:
        numbers = choose_numbers(connection, calls, most, list_numbers, chosen.after)
        asked = chosen
    else:
        numbers = spread(list_numbers(), most)
        asked = chosen._replace(where="1", values=())
    times = read_times(connection, asked, by, numbers, is_late)
    times.is_whole = times.is_whole and is_all
    return times


def read_times(
    connection: sqlite3.Connection,
    chosen: Chosen,
    by: Sequence[Group],
    numbers: Sequence[int],
    is_late: Callable[[], bool],
) -> Times:
    """Read how long these calls took (rule 2).

    Args:
        connection: to a store, for reading.
        chosen: what has to hold for a row with such a number.
        by: what calls have in common.
        numbers: of the calls, oldest first.
        is_late: asked between two reads.
    """
    times = Times()
    lists = [*times.of.values()]
    groups = "".join(f", {write_group(group)}" for group in by)
    reads = -(-len(numbers) // _ROWS_AT_ONCE)
    for read in range(reads):
        if read and is_late():
            times.is_whole = False
            break
        asked = numbers[read::reads]
        statement = (
            f"SELECT {_DURATIONS}{groups} FROM {chosen.spans}"  # noqa: S608 - constants
            f" WHERE seq IN ({', '.join('?' * len(asked))}) AND {chosen.where}"
        )
        # By hand, not by `Times.add`: of 20,000 calls that saves a tenth of the time of a command.
        for row in connection.execute(statement, (*asked, *chosen.values)):
            key = row[len(lists) :]
            for known, duration in zip(lists, row, strict=False):
                if isinstance(duration, int):
                    known.setdefault(key, []).append(duration)
    return times
