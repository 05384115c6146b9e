"""Lists of rows, and of their numbers, by number or by the most of a fact.

Functions on an open connection. A condition is looked at in steps
(:mod:`telemetry.reading.sqlite.walking`), so that no read is long. To sort by anything but the row
number, all rows are read once: some tenths of a second for a million rows.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from telemetry.reading.engine import LAST_SEQ, Page
from telemetry.reading.sqlite.conditions import COLUMNS
from telemetry.reading.sqlite.walking import (
    STEP_ROWS,
    find_newest,
    find_oldest,
    walk_back,
    walk_on,
)
from telemetry.store.summaries import SUMMARY_COLUMNS, choose_facts, make_summary

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Sequence

    from telemetry.reading.sqlite.conditions import Chosen
    from telemetry.store.rows import SpanSummary


def select(
    connection: sqlite3.Connection,
    chosen: Chosen,
    limit: int,
    is_late: Callable[[], bool],
    *,
    oldest_first: bool,
) -> Page:
    """Read up to `limit` rows, step by step, until the time is over."""
    statement = (
        f"SELECT {SUMMARY_COLUMNS} FROM {chosen.spans} WHERE {chosen.where}"  # noqa: S608 - no foreign text
        f" AND seq BETWEEN ? AND ? ORDER BY seq {'' if oldest_first else 'DESC'} LIMIT ?"
    )
    rows: list[SpanSummary] = []
    limit = max(0, limit)
    walk = walk_on if oldest_first else walk_back
    edge = 0
    for since, until in walk(connection, after=chosen.after, before=chosen.before):
        if edge and is_late():
            return Page(rows=rows, back_to=edge, is_done=False, is_late=True)
        values = (*chosen.values, since, until, limit - len(rows))
        rows += map(make_summary, connection.execute(statement, values))
        edge = until if oldest_first else since
        if len(rows) >= limit:
            back_to = rows[-1].seq if rows else until + 1
            is_done = not oldest_first and find_newest(connection, back_to - 1) <= chosen.after
            return Page(rows=rows, back_to=back_to, is_done=is_done, is_late=False)
    oldest = find_oldest(connection) or 0
    return Page(rows=rows, back_to=max(oldest, chosen.after + 1), is_done=True, is_late=False)


def select_near(
    connection: sqlite3.Connection, chosen: Chosen, limit: int, *, oldest_first: bool
) -> Page:
    """Read rows of a conversation or a run, which an index finds, some of them at a time."""
    statement = (
        f"SELECT {SUMMARY_COLUMNS} FROM {chosen.spans} WHERE {chosen.where}"  # noqa: S608 - no foreign text
        f" AND seq > ? AND seq < ? ORDER BY seq {'' if oldest_first else 'DESC'} LIMIT ?"
    )
    rows: list[SpanSummary] = []
    after, before = chosen.after, chosen.before
    while len(rows) < limit:
        step = min(limit - len(rows), STEP_ROWS)
        found = connection.execute(statement, (*chosen.values, after, before, step)).fetchall()
        rows += map(make_summary, found)
        if len(found) < step:
            return Page(rows=rows, back_to=after + 1, is_done=True, is_late=False)
        after, before = (found[-1][0], before) if oldest_first else (after, found[-1][0])
    back_to = rows[-1].seq if rows else before
    return Page(rows=rows, back_to=back_to, is_done=False, is_late=False)


def read_facts(
    connection: sqlite3.Connection,
    chosen: Chosen,
    names: Sequence[str],
    limit: int,
    *,
    oldest_first: bool,
) -> list[tuple[Any, ...]]:
    """Read some facts of up to `limit` rows, step by step."""
    columns, make = choose_facts(names)
    statement = (
        f"SELECT {columns} FROM {chosen.spans} WHERE {chosen.where}"  # noqa: S608 - no foreign text
        f" AND seq BETWEEN ? AND ? ORDER BY seq {'' if oldest_first else 'DESC'} LIMIT ?"
    )
    rows: list[tuple[Any, ...]] = []
    walk = walk_on if oldest_first else walk_back
    for step in walk(connection, after=chosen.after, before=chosen.before):
        values = (*chosen.values, *step, max(0, limit - len(rows)))
        rows += map(make, connection.execute(statement, values))
        if len(rows) >= limit:
            break
    return rows


def walk_numbers(
    connection: sqlite3.Connection, chosen: Chosen, limit: int, *, oldest_first: bool
) -> Iterator[int]:
    """Yield up to `limit` numbers of rows; those of a step are found when they are needed."""
    statement = (
        f"SELECT seq FROM {chosen.spans} WHERE {chosen.where} AND seq BETWEEN ? AND ?"  # noqa: S608 - no foreign text
        f" ORDER BY seq {'' if oldest_first else 'DESC'} LIMIT ?"
    )
    walk = walk_on if oldest_first else walk_back
    left = max(0, min(limit, LAST_SEQ))
    steps = walk(connection, after=chosen.after, before=chosen.before)
    while left and (step := next(steps, None)) is not None:
        rows = connection.execute(statement, (*chosen.values, *step, left))
        found = array("q", (seq for (seq,) in rows))
        yield from found
        left -= len(found)


def find_largest(
    connection: sqlite3.Connection, chosen: Chosen, fact: str, limit: int
) -> array[int]:
    """Find the numbers of up to `limit` rows with the most of a fact."""
    rows = connection.execute(
        f"SELECT seq FROM {chosen.spans} WHERE {chosen.where}"  # noqa: S608 - no foreign text
        f" ORDER BY {COLUMNS.get(fact, fact)} DESC, seq DESC LIMIT ?",
        (*chosen.values, max(0, min(limit, LAST_SEQ))),
    )
    return array("q", (seq for (seq,) in rows))
