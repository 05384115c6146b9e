"""What rows come to, by what they have in common: the one place where SQLite sums calls up.

Functions on an open connection.

Rules:

1. Sums of all calls by model, upstream and time are made of the sums by minute
   (:mod:`telemetry.store.minutes`) and of the rows that these leave out; others are made of rows.
2. A number has the limits that it has in the sums by minute.
3. Where a time is given, minutes are read :data:`STEP_MINUTES` at a time and rows
   :data:`STEP_NUMBERS` numbers at a time, the newest first. The rows of a conversation are read
   :data:`~.walking.STEP_ROWS` at a time, by their index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from telemetry.fact import Form
from telemetry.facts import FACTS, GROUPED, LIST_BASIS, SUMMED
from telemetry.reading.engine import AMOUNTS, LAST_SEQ
from telemetry.reading.sqlite.walking import STEP_ROWS, walk_back
from telemetry.store.calls import IS_CALL, IS_DERIVED
from telemetry.store.minutes import (
    IS_MINUTE,
    MAX_COST_USD,
    MAX_OUTPUT_MS,
    MAX_TOKENS,
    MINUTE_NS,
    SUM_NAMES,
    limited,
    write_sum,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from telemetry.reading.engine import Group
    from telemetry.reading.sqlite.conditions import Chosen

STEP_MINUTES: Final = 1_440
"""A day, of a dozen models in every minute some 15,000 rows: 10 ms."""

STEP_NUMBERS: Final = 50_000
"""Numbers whose rows are summed up at a time: some 30 ms where a condition is asked of each."""

_LAST_MINUTE: Final = LAST_SEQ // MINUTE_NS

_LIMITS: Final = {Form.COUNT: MAX_TOKENS, Form.DOLLARS: MAX_COST_USD}

_FORMS: Final = {fact.name: fact.form for fact in FACTS}

_TEXTS: Final = frozenset(GROUPED.values())

_COUNTS: Final = frozenset(fact.name for fact in SUMMED if fact.form is Form.COUNT)

_COST: Final = limited("cost_usd", MAX_COST_USD)

_IS_LISTED: Final = f"cost_basis = '{LIST_BASIS}'"

_OF_CALLS: Final = {
    "calls": "count(*)",
    "failed_calls": "count(*) FILTER (WHERE status = 'ERROR')",
    "priced": "count(cost_usd)",
    "unpriced": "count(cost_gap)",
    "list_usd": f"sum({_COST}) FILTER (WHERE {_IS_LISTED})",
    "last_call_seq": "max(seq)",
}
"""Amounts in SQL, where all rows are calls."""

_OF_ROWS: Final = {
    **{fact.name: f"sum({limited(fact.name, _LIMITS[fact.form])})" for fact in SUMMED},
    "rows": "count(*)",
    "calls": f"count(*) FILTER (WHERE {IS_CALL})",
    "errors": "count(*) FILTER (WHERE status = 'ERROR')",
    "failed_calls": f"count(*) FILTER (WHERE {IS_CALL} AND status = 'ERROR')",
    "priced": f"count(cost_usd) FILTER (WHERE {IS_CALL})",
    "unpriced": f"count(cost_gap) FILTER (WHERE {IS_CALL})",
    "list_usd": f"sum({_COST}) FILTER (WHERE {IS_CALL} AND {_IS_LISTED})",
    "input_usd": f"sum({limited('input_usd', MAX_COST_USD)}) FILTER (WHERE cost_usd IS NOT NULL)",
    "output_ms": (
        f"sum({limited('(end_ns - start_ns - coalesce(ttft_ns, 0)) / 1000000', MAX_OUTPUT_MS)})"
        " FILTER (WHERE completion_tokens > 0)"
    ),
    "tools": "count(*) FILTER (WHERE kind = 'TOOL')",
    "tool_errors": "count(*) FILTER (WHERE kind = 'TOOL' AND status = 'ERROR')",
    "derived": f"count(*) FILTER (WHERE {IS_DERIVED})",
    "pending": "count(*) FILTER (WHERE state = 'pending')",
    "size_bytes": "sum(min(max(CAST(size_bytes AS INTEGER), 0), 1 << 40))",
    "start_ns": "min(start_ns) FILTER (WHERE typeof(start_ns) = 'integer')",
    "last_start_ns": "max(start_ns) FILTER (WHERE typeof(start_ns) = 'integer')",
    "end_ns": "max(end_ns) FILTER (WHERE typeof(end_ns) = 'integer')",
    "first_seq": "min(seq)",
    "last_seq": "max(seq)",
    "last_call_seq": f"max(seq) FILTER (WHERE {IS_CALL})",
}
"""Amounts in SQL, on the table ``spans``."""

_MINUTE_ENDS: Final = f"""
SELECT min(minute), max(minute) FROM minutes WHERE {IS_MINUTE} AND minute >= ? AND minute < ?
"""  # noqa: S608 - constants

_MERGE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "sum": lambda one, other: one + other,
    "min": min,
    "max": max,
}

Sums = dict[tuple[Any, ...], tuple[Any, ...]]
"""Amounts by group."""


def write_group(group: Group) -> str:
    """Write in SQL what rows have in common."""
    if isinstance(group, int):
        return f"coalesce(CAST(start_ns AS INTEGER), 0) / {MINUTE_NS} * 60 / {group}"
    if group in _TEXTS:
        return f"CAST(coalesce({group}, '') AS TEXT)"
    return f"CAST({group} AS INTEGER)" if group in _COUNTS else group


def sum_rows(
    connection: sqlite3.Connection,
    chosen: Chosen,
    by: Sequence[Group],
    names: Sequence[str],
    is_late: Callable[[], bool] | None,
) -> tuple[Sums, bool]:
    """Sum rows up; the second value tells whether all were read in time."""
    sums: Sums = {}
    source = f"FROM {chosen.spans} WHERE {chosen.where}"
    if is_late is None:
        source, values = _bound(source, chosen)
        statement = _write(source, chosen, by, names)
        _add(sums, _read(connection, statement, values, len(by)), names)
        return sums, True
    if any(isinstance(group, int) for group in by):  # else a damaged time would be in some step
        source += " AND typeof(start_ns) = 'integer' AND typeof(end_ns) = 'integer'"
    statement = _write(f"{source} AND seq BETWEEN ? AND ?", chosen, by, names)
    steps = walk_back(connection, after=chosen.after, before=chosen.before, size=STEP_NUMBERS)
    for number, (since, until) in enumerate(steps):
        if number and is_late():
            return sums, False
        _add(sums, _read(connection, statement, (*chosen.values, since, until), len(by)), names)
    return sums, True


def count_groups(
    connection: sqlite3.Connection, chosen: Chosen, by: Sequence[Group]
) -> Iterator[tuple[Any, ...]]:
    """Yield what rows have in common, and how many have it."""
    source, values = _bound(f"FROM {chosen.spans} WHERE {chosen.where}", chosen)
    yield from connection.execute(_write(source, chosen, by, ("rows",)), values)


def sum_largest(
    connection: sqlite3.Connection, chosen: Chosen, by: str, names: Sequence[str], limit: int
) -> tuple[list[tuple[Any, ...]], int]:
    """Sum up the groups with the most of the first amount; the second value counts all groups."""
    source, values = _bound(f"FROM {chosen.spans} WHERE {chosen.where}", chosen)
    statement = f"{_write(source, chosen, (by,), names)} ORDER BY 2 DESC, count(*) DESC, 1 DESC"
    found = connection.execute(f"{statement} LIMIT ?", (*values, limit)).fetchall()
    if len(found) < limit:
        return found, len(found)
    count = f"SELECT count(DISTINCT {by}) + max({by} IS NULL) {source}"
    ((groups,),) = connection.execute(count, values)
    return found, groups


def find_largest_runs(
    connection: sqlite3.Connection, chosen: Chosen, fact: str, limit: int
) -> list[int]:
    """Find the runs with a chosen row, those first whose rows have the most of a fact."""
    form = _FORMS[fact]
    if form is Form.DURATION:
        most = f"{_OF_ROWS['end_ns']} - {_OF_ROWS['start_ns']}"
    else:
        most = f"sum({limited(fact, _LIMITS[form])})"
    source, values = _bound(f"FROM {chosen.spans} WHERE {chosen.where}", chosen)
    rows = connection.execute(
        f"SELECT run FROM {chosen.spans} WHERE run IN (SELECT run {source} AND run IS NOT NULL)"  # noqa: S608 - no foreign text
        f" GROUP BY run ORDER BY {most} DESC, run DESC LIMIT ?",
        (*values, max(0, min(limit, LAST_SEQ))),
    )
    return [run for (run,) in rows if isinstance(run, int)]


def sum_conversation(
    connection: sqlite3.Connection, chosen: Chosen, by: Sequence[Group], names: Sequence[str]
) -> Sums:
    """Sum rows of a conversation up, some of them at a time (rule 3)."""
    sums: Sums = {}
    step = (
        f"FROM (SELECT * FROM {chosen.spans} WHERE {chosen.where} AND seq > ? AND seq < ?"  # noqa: S608 - no foreign text
        f" ORDER BY seq LIMIT {STEP_ROWS})"
    )
    statement, at = _write(step, chosen, by, ("last_seq", *names), str), chosen.after
    while True:
        values = (*chosen.values, at, chosen.before)
        rows = [*_read(connection, statement, values, len(by))]
        last = max((row[1][0] for row in rows if row[1][0] is not None), default=None)
        if last is None:
            return sums
        _add(sums, ((key, amounts[1:]) for key, amounts in rows), names)
        at = last


def sum_minutes(
    connection: sqlite3.Connection,
    times_ns: tuple[int | None, int | None],
    by: Sequence[Group],
    names: Sequence[str],
    is_late: Callable[[], bool] | None,
) -> tuple[Sums, bool]:
    """Sum up the minutes from one time to before another; else as :func:`sum_rows`."""
    sums: Sums = {}
    since_ns, until_ns = times_ns
    low = 0 if since_ns is None else since_ns // MINUTE_NS
    high = _LAST_MINUTE + 1 if until_ns is None else until_ns // MINUTE_NS
    groups = [
        f"coalesce(CAST(minute AS INTEGER), 0) * 60 / {group}"
        if isinstance(group, int)
        else f"CAST({group} AS TEXT)"
        for group in by
    ]
    statement = (
        f"SELECT {', '.join((*groups, *map(write_sum, names)))} FROM minutes"  # noqa: S608 - constants
        f" WHERE {IS_MINUTE} AND minute >= ? AND minute < ?{_write_groups(by)}"
    )
    if is_late is None:
        _add(sums, _read(connection, statement, (low, high), len(by)), names)
        return sums, True
    first, at = connection.execute(_MINUTE_ENDS, (low, high)).fetchone()
    while at is not None and at >= first:
        low = max(first, at - STEP_MINUTES + 1)
        _add(sums, _read(connection, statement, (low, at + 1), len(by)), names)
        at = low - 1
        if at >= first and is_late():
            return sums, False
    return sums, True


def can_be_minutes(
    times_ns: Iterable[int | None], by: Sequence[Group], names: Sequence[str]
) -> bool:
    """Tell whether the sums by minute have these amounts by these groups, and these times."""
    return (
        set(names) <= set(SUM_NAMES)
        and all(isinstance(group, int) or group in {"model", "upstream"} for group in by)
        and not any((at_ns or 0) % MINUTE_NS for at_ns in times_ns)
    )


def merge(sums: Sums, more: Sums, names: Sequence[str]) -> Sums:
    """Add amounts to others."""
    _add(sums, more.items(), names)
    return sums


def _write(
    source: str,
    chosen: Chosen,
    by: Sequence[Group],
    names: Sequence[str],
    write: Callable[[Group], str] = write_group,
) -> str:
    of_calls = _OF_ROWS | _OF_CALLS if chosen.is_calls else _OF_ROWS
    columns = ", ".join((*map(write, by), *(of_calls[name] for name in names)))
    return f"SELECT {columns} {source}{_write_groups(by)}"


def _write_groups(by: Sequence[Group]) -> str:
    return f" GROUP BY {', '.join(map(str, range(1, len(by) + 1)))}" if by else ""


def _bound(source: str, chosen: Chosen) -> tuple[str, tuple[Any, ...]]:
    """Add the bounds of numbers, where there are any."""
    values = [*chosen.values]
    for sign, number, none in ((">", chosen.after, 0), ("<", chosen.before, LAST_SEQ)):
        if number != none:
            source += f" AND seq {sign} ?"
            values.append(number)
    return source, tuple(values)


def _read(
    connection: sqlite3.Connection, statement: str, values: Sequence[Any], width: int
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Yield groups and their amounts; of no rows there is one where they need nothing in common."""
    for row in connection.execute(statement, values):
        yield row[:width], row[width:]


def _add(
    sums: Sums,
    rows: Iterable[tuple[tuple[Any, ...], tuple[Any, ...]]],
    names: Sequence[str],
) -> None:
    """Add what one read has found."""
    merging = [_MERGE[AMOUNTS[name]] for name in names]
    for key, amounts in rows:
        known = sums.get(key)
        if known is None:
            sums[key] = amounts
            continue
        sums[key] = tuple(
            other if one is None else one if other is None else add(one, other)
            for add, one, other in zip(merging, known, amounts, strict=True)
        )
