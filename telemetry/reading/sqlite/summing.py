"""What calls come to, by what they have in common: counts, tokens, cost, and how long they took.

Functions on an open connection.

Rules:

1. Sums are exact. Those of all calls by model, upstream or hour are made of the sums by minute
   (:mod:`telemetry.store.minutes`) and of the rows that these leave out; others are made of rows.
2. How long calls took is told by rank: of all, where they are :data:`MAX_RANKED` at most; of more,
   of as many of them, chosen evenly by number. :attr:`Ranks.calls` says of how many.
3. What is not known counts nowhere, and a number has the limits that it has in the sums by minute.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from telemetry.store.calls import IS_CALL
from telemetry.store.minutes import (
    IS_MINUTE,
    MAX_COST_USD,
    MAX_OUTPUT_MS,
    MAX_TOKENS,
    MINUTE_NS,
    find_summed_after,
    limited,
    write_sum,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

MAX_RANKED: Final = 20_000
"""Calls that are ranked: the rank of a percentile is right within less than one in a hundred."""

HOUR_NS: Final = 60 * MINUTE_NS

_MINUTES_OF_HOUR: Final = 60

_DENSE: Final = 0.9
"""The share of numbers that calls have, from the first to the last, from which on those without a
call hardly matter."""

_ROWS_AT_ONCE: Final = 500
"""Rows that one statement asks for by their numbers: SQLite takes some 30,000 parameters."""

GROUPS: Final = {
    **{
        name: f"CAST(coalesce({column}, '') AS TEXT)"
        for name, column in (
            ("model", "model"),
            ("upstream", "upstream"),
            ("client", "client"),
            ("session", "session"),
            ("user", "user"),
            ("tool", "tools"),
        )
    },
    "hour": f"coalesce(CAST(start_ns AS INTEGER), 0) / {HOUR_NS}",
    "": "''",
}
"""What calls may have in common, as SQL on a row of ``spans``. The last one is nothing at all. A
tool is what rows of tools have in common."""

_GROUPS_OF_MINUTES: Final = {
    "model": "CAST(model AS TEXT)",
    "upstream": "CAST(upstream AS TEXT)",
    "hour": f"coalesce(CAST(minute AS INTEGER), 0) / {_MINUTES_OF_HOUR}",
    "": "''",
}

_SUMS: Final = (
    *("calls", "errors", "prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd"),
    *("priced", "output_ms"),
)

_OF_MINUTES = f"""
SELECT {{group}}, {", ".join(map(write_sum, _SUMS))}
FROM minutes WHERE {IS_MINUTE} GROUP BY 1
"""  # noqa: S608 - constants

_OF_ROWS = f"""
SELECT {{group}}, count(*), count(*) FILTER (WHERE status = 'ERROR'),
    sum({limited("prompt_tokens", MAX_TOKENS)}), sum({limited("completion_tokens", MAX_TOKENS)}),
    sum({limited("cached_tokens", MAX_TOKENS)}), sum({limited("cost_usd", MAX_COST_USD)}),
    count(cost_usd),
    sum({limited("(end_ns - start_ns - coalesce(ttft_ns, 0)) / 1000000", MAX_OUTPUT_MS)})
        FILTER (WHERE completion_tokens > 0)
FROM {{spans}} WHERE {{where}} GROUP BY 1
"""  # noqa: S608 - constants

_USAGES = """
SELECT {group}, CAST(prompt_tokens AS INTEGER), CAST(completion_tokens AS INTEGER),
    CAST(cached_tokens AS INTEGER), count(*) FROM {spans}
WHERE {where} GROUP BY 1, 2, 3, 4
"""

_TIMES = """
SELECT {group}, end_ns - start_ns, ttft_ns FROM {spans} WHERE seq IN ({numbers}) AND {where}
"""


class CallUsages(NamedTuple):
    """Calls of a group that have the same counts of tokens; ``None`` where one is not known."""

    key: str | int
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    calls: int


class Ranks(NamedTuple):
    """How long some calls took, in nanoseconds; ``None`` where it is known of none.

    Attributes:
        calls: of how many it is told (rule 2).
        p50_ns: what half of them took at most; the others likewise.
    """

    calls: int = 0
    p50_ns: int | None = None
    p90_ns: int | None = None
    p99_ns: int | None = None


NO_RANKS: Final = Ranks()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSums:
    """What the calls of one group come to.

    Attributes:
        key: what they have in common: a text, empty where it is not known, or of hours the number
            of the hour since the epoch.
        priced: how many of them have a cost, which `cost_usd` sums up.
        output_ms: how long the output of those took that have completion tokens: from the first
            output, where that is known, or else from the beginning, to the end.
    """

    key: str | int
    calls: int
    errors: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cost_usd: float
    priced: int
    output_ms: int
    took: Ranks
    ttft: Ranks


def sum_calls(
    connection: sqlite3.Connection,
    by: str,
    *,
    spans: str,
    where: str = IS_CALL,
    values: Sequence[str | float] = (),
) -> tuple[list[CallSums], CallSums | None]:
    """Sum calls up, a group each of what they have in common, and all of them: each is read once.

    Args:
        connection: to a store, for reading.
        by: one of :data:`GROUPS`.
        spans: the table (:func:`telemetry.store.spans_table.name_spans`).
        where: a condition on the columns of ``spans``; by default all calls.
        values: of its parameters.

    Returns:
        The groups with most calls first, but hours in their order; and the sums of all, whose key
        is empty, ``None`` where there is no call.
    """
    is_all = where == IS_CALL
    of_minutes = is_all and by in _GROUPS_OF_MINUTES
    if of_minutes and (summed_after := find_summed_after(connection)) is not None:
        rows = _sum_minutes(connection, by, spans, summed_after)
    else:
        statement = _OF_ROWS.format(group=GROUPS[by], spans=spans, where=where)
        rows = connection.execute(statement, values)
    counted = {key: tuple(one or 0 for one in sums) for key, *sums in rows if sums[0]}
    if not counted:
        return [], None
    calls = sum(sums[0] for sums in counted.values())
    if is_all:
        numbers = _choose_numbers_of_all(connection, spans, calls)
    else:
        numbers = _spread(_list_numbers(connection, spans, where, values))
    took, ttft = _read_times(connection, by, spans, numbers, where=IS_CALL if is_all else "1")
    groups = [
        _make_sums(key, sums, took.get(key, ()), ttft.get(key, ())) for key, sums in counted.items()
    ]
    total = _make_sums(
        "",
        tuple(map(sum, zip(*counted.values(), strict=True))),
        [*chain.from_iterable(took.values())],
        [*chain.from_iterable(ttft.values())],
    )
    if by == "hour":
        return sorted(groups, key=lambda one: one.key), total
    return sorted(groups, key=lambda one: (-one.calls, one.key)), total


def _make_sums(
    key: str | int, sums: Sequence[Any], took: Sequence[int], ttft: Sequence[int]
) -> CallSums:
    calls, errors, prompt, completion, cached, cost, priced, output = sums
    return CallSums(
        key=key,
        calls=calls,
        errors=errors,
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=cached,
        cost_usd=float(cost),
        priced=priced,
        output_ms=output,
        took=_rank(took),
        ttft=_rank(ttft),
    )


def count_usages(
    connection: sqlite3.Connection,
    by: str,
    *,
    spans: str,
    where: str = IS_CALL,
    values: Sequence[str | float] = (),
) -> Iterator[CallUsages]:
    """Yield the counts of tokens that calls have, by group; the arguments are :func:`sum_calls`'.

    Of a million calls that takes some seconds.
    """
    statement = _USAGES.format(group=GROUPS[by], spans=spans, where=where)
    return map(CallUsages._make, connection.execute(statement, values))


def _sum_minutes(
    connection: sqlite3.Connection, by: str, spans: str, summed_after: int
) -> Iterator[tuple[Any, ...]]:
    """Sum all calls up, those of the minutes and those that are in none (rule 1)."""
    found: dict[str | int, list[float]] = {}
    older = _OF_ROWS.format(group=GROUPS[by], spans=spans, where=f"seq <= ? AND {IS_CALL}")
    for rows in (
        connection.execute(_OF_MINUTES.format(group=_GROUPS_OF_MINUTES[by])),
        connection.execute(older, (summed_after,)),
    ):
        for key, *sums in rows:
            told = [amount or 0 for amount in sums]
            into = found.setdefault(key, [0] * len(told))
            found[key] = [one + other for one, other in zip(into, told, strict=True)]
    return ((key, *sums) for key, sums in found.items())


def _choose_numbers_of_all(connection: sqlite3.Connection, spans: str, calls: int) -> Sequence[int]:
    """Choose the numbers of the calls that are ranked, of all; some may be of rows that are none.

    Args:
        connection: to a store, for reading.
        spans: the table.
        calls: how many there are.
    """
    # One statement for both would read all rows.
    (first,) = connection.execute("SELECT min(seq) FROM spans").fetchone()
    (last,) = connection.execute("SELECT max(seq) FROM spans").fetchone()
    (count,) = connection.execute("SELECT count(*) FROM spans").fetchone()
    if calls > MAX_RANKED and count > _DENSE * (last - first):
        # To list a million numbers takes 0.2 s.
        return _spread(range(first, last + 1), MAX_RANKED * count // calls)
    return _spread(_list_numbers(connection, spans, IS_CALL, ()))


def _list_numbers(
    connection: sqlite3.Connection, spans: str, where: str, values: Sequence[str | float]
) -> Sequence[int]:
    rows = connection.execute(f"SELECT seq FROM {spans} WHERE {where}", values)  # noqa: S608 - no foreign text
    return array("q", (seq for (seq,) in rows))


def _spread(numbers: Sequence[int], wanted: int | None = None) -> Sequence[int]:
    """Choose some numbers, by default as many as are ranked, evenly; all where they are no more."""
    count, wanted = len(numbers), MAX_RANKED if wanted is None else wanted
    if count <= wanted:
        return numbers
    return [numbers[at * count // wanted] for at in range(wanted)]


def _read_times(
    connection: sqlite3.Connection, by: str, spans: str, numbers: Sequence[int], *, where: str
) -> tuple[dict[str | int, list[int]], dict[str | int, list[int]]]:
    """Read how long these calls took, and how long their first output, by group.

    `where`: what else has to hold for a row with such a number.
    """
    took: dict[str | int, list[int]] = {}
    ttft: dict[str | int, list[int]] = {}
    for start in range(0, len(numbers), _ROWS_AT_ONCE):
        asked = numbers[start : start + _ROWS_AT_ONCE]
        marks = ", ".join("?" * len(asked))
        statement = _TIMES.format(group=GROUPS[by], spans=spans, numbers=marks, where=where)
        for key, took_ns, ttft_ns in connection.execute(statement, tuple(asked)):
            if isinstance(took_ns, int):
                took.setdefault(key, []).append(took_ns)
            if isinstance(ttft_ns, int):
                ttft.setdefault(key, []).append(ttft_ns)
    return took, ttft


def _rank(times: Sequence[int]) -> Ranks:
    """Rank times; of none nothing is known."""
    if not times:
        return NO_RANKS
    times, count = sorted(times), len(times)
    p50, p90, p99 = (times[-(-count * percent // 100) - 1] for percent in (50, 90, 99))
    return Ranks(count, p50, p90, p99)
