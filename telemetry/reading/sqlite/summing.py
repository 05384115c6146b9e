"""What calls come to, by what they have in common: counts, tokens, cost, and how long they took.

Functions on an open connection.

Rules:

1. Sums are exact. Those of all calls by model, upstream or hour are made of the sums by minute
   (:mod:`telemetry.store.minutes`) and of the rows that these leave out; others are made of rows.
2. How long calls took is known by rank (:mod:`telemetry.reading.sqlite.ranking`).
3. What is not known counts nowhere, and a number has the limits that it has in the sums by minute.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from telemetry.reading.sqlite.ranking import (
    choose_numbers,
    list_numbers,
    rank,
    read_times,
    spread,
)
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

    from telemetry.reading.sqlite.ranking import Ranks

HOUR_NS: Final = 60 * MINUTE_NS

_MINUTES_OF_HOUR: Final = 60

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


class CallUsages(NamedTuple):
    """Calls of a group that have the same counts of tokens; ``None`` where one is not known."""

    key: str | int
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    calls: int


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
    list_all = partial(list_numbers, connection, spans, where, values)
    numbers = choose_numbers(connection, calls, list_all) if is_all else spread(list_all())
    times, _ = read_times(
        connection, GROUPS[by], numbers, spans=spans, where=IS_CALL if is_all else "1"
    )
    took, ttft = times.took, times.ttft
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
        took=rank(took),
        ttft=rank(ttft),
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
