"""Sums of calls by minute, model and upstream, kept beside the spans: what charts and totals read.

Summing up a million spans takes a second; reading the sums of their minutes takes some
milliseconds. Functions on an open connection.

What reads the sums relies on these rules (``docs/contract/page.md#sums-by-minute``):

1. The sums cover the calls in the store whose number is greater than ``tally.minutes_after``. They
   change in the transaction that adds or removes calls, so a kill cannot separate the two. Rows
   that are not calls (:mod:`telemetry.store.calls`) are in no sum.
2. A span with a smaller number is in no sum: it was recorded before there were any, or was carried
   over from another file. It is removed by age like any other, and the reader sums it up.
3. A call belongs to the minute of its beginning. An unknown model or upstream is the empty text.
4. No provider can break a sum: the numbers of a call have limits, :data:`MAX_TOKENS`,
   :data:`MAX_COST_USD` and :data:`MAX_OUTPUT_MS`.
5. The time of an answer's output begins with its first output or, if that is unknown, with the
   call, and ends with the call. It counts only for calls with completion tokens.
6. A call is without a price if its ``cost_gap`` is known. A minute from before that was counted has
   ``NULL``, and keeps it: there, all calls without a cost count as without a price, also those that
   failed.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

from telemetry.facts import LIST_BASIS
from telemetry.store.calls import IS_CALL, is_call
from telemetry.store.ranges import group_ranges

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from telemetry.store.rows import SpanRow

MINUTE_NS: Final = 60_000_000_000

IS_MINUTE: Final = (
    f"typeof(minute) = 'integer' AND minute BETWEEN 0 AND {((1 << 63) - 1) // MINUTE_NS}"
)
"""SQL: true of a row of the sums whose minute fits a time in nanoseconds. Any other minute is
damage."""

MAX_TOKENS: Final = 1 << 40
"""A thousand times the largest context. Even the sum of as many calls as a store has room for fits
the 64 bits of SQLite."""

MAX_COST_USD: Final = 1e6
"""Ten thousand times the dearest call. Without a limit two amounts could make a sum infinite."""

MAX_OUTPUT_MS: Final = 1 << 32
"""Seven weeks, in milliseconds."""

_MS_NS: Final = 1_000_000

_FIRST_MINUTE = f"SELECT min(minute) FROM minutes WHERE {IS_MINUTE}"  # noqa: S608 - constants

_KEYS = ("minute", "model", "upstream")

SUM_NAMES: Final = (
    *("calls", "errors", "prompt_tokens", "completion_tokens"),
    *("cost_usd", "priced", "cached_tokens", "output_ms", "saved_usd", "list_usd"),
    *("unpriced", "input_usd"),
)

_DOLLARS = frozenset({"cost_usd", "saved_usd", "list_usd", "input_usd"})

_UNUSED = tuple(f"took_{bucket}" for bucket in range(16))
"""Columns that must have a value. An older spantap counts calls in them by how long they took; here
they are 0 in a new row, and nobody reads them."""

MAX_SUM: Final = 1 << 53
"""The greatest sum of a minute. A greater value means that the disk damaged it."""


def write_sum(name: str) -> str:
    """Write the SQL that sums a column of the minutes up; damaged values are limited."""
    kind = "REAL" if name in _DOLLARS else "INTEGER"
    value = "coalesce(unpriced, calls - priced)" if name == "unpriced" else name  # rule 6
    return f"sum(min(max(CAST({value} AS {kind}), 0), {MAX_SUM}))"


_NO_SUMS: Final = (0, 0, 0, 0, 0.0, 0, 0, 0, 0.0, 0.0, 0, 0.0)

_ADD = f"""
INSERT INTO minutes ({", ".join((*_KEYS, *SUM_NAMES, *_UNUSED))})
VALUES ({", ".join("?" * len((*_KEYS, *SUM_NAMES)))}, {", ".join("0" * len(_UNUSED))})
ON CONFLICT ({", ".join(_KEYS)}) DO UPDATE
SET {", ".join(f"{name} = {name} + excluded.{name}" for name in SUM_NAMES)}
"""  # noqa: S608 - constants

_OF_KEYS = " AND ".join(f"{name} = ?" for name in _KEYS)

_SUBTRACT = f"UPDATE minutes SET {', '.join(f'{n} = {n} - ?' for n in SUM_NAMES)} WHERE {_OF_KEYS}"  # noqa: S608 - constants

_FORGET = f"DELETE FROM minutes WHERE {_OF_KEYS} AND calls <= 0"  # noqa: S608 - constants

# In a damaged row a number may be text, which must not keep the row from being removed.
_SUMMED = f"""
SELECT
    start_ns, end_ns, model, status, CAST(prompt_tokens AS INTEGER),
    CAST(completion_tokens AS INTEGER), upstream, CAST(cost_usd AS REAL),
    CAST(cached_tokens AS INTEGER), CAST(ttft_ns AS INTEGER), CAST(saved_usd AS REAL), cost_basis,
    cost_gap, CAST(input_usd AS REAL)
FROM spans WHERE seq BETWEEN ? AND ? AND seq > (SELECT minutes_after FROM tally)
AND typeof(start_ns) = 'integer' AND typeof(end_ns) = 'integer' AND {IS_CALL}
"""  # noqa: S608 - constants

_read_call = attrgetter(
    "start_ns", "end_ns", "model", "status", "prompt_tokens", "completion_tokens"
)
_read_amounts = attrgetter(
    *("upstream", "cost_usd", "cached_tokens", "ttft_ns", "saved_usd", "cost_basis"),
    *("cost_gap", "input_usd"),
)

_Key = tuple[int, str, str]

_Call = tuple[
    int,
    int,
    "str | None",
    str,
    "int | None",
    "int | None",
    "str | None",
    "float | None",
    "int | None",
    "int | None",
    "float | None",
    "str | None",
    "str | None",
    "float | None",
]
"""Start, end, model, status, tokens of prompt and answer, upstream, cost, cached tokens, time to
the first output, what the cache saved, what the cost means, why it is unknown, the part of it that
is input."""


def sum_added(connection: sqlite3.Connection, rows: Iterable[SpanRow]) -> None:
    """Add calls that are new: one statement for each minute, model and upstream among them."""
    calls = (row for row in rows if is_call(row.columns.kind))
    added = sum_up([(*_read_call(row), *_read_amounts(row.columns)) for row in calls])
    connection.executemany(_ADD, [(*key, *sums) for key, sums in added.items()])


def sum_removed(connection: sqlite3.Connection, seqs: Iterable[int]) -> None:
    """Subtract calls that are about to be removed, by their numbers (rules 1 and 2)."""
    calls: list[_Call] = []
    for ends in group_ranges(seqs):
        calls += connection.execute(_SUMMED, ends)
    removed = sum_up(calls)
    connection.executemany(_SUBTRACT, [(*sums, *key) for key, sums in removed.items()])
    connection.executemany(_FORGET, removed)


def begin_anew(connection: sqlite3.Connection, last_seq: int) -> None:
    """Forget all sums; from now on spans with a number above `last_seq` are summed up (rule 2)."""
    connection.execute("DELETE FROM minutes")
    connection.execute("UPDATE tally SET minutes_after = ?", (last_seq,))


def find_summed_after(connection: sqlite3.Connection) -> int | None:
    """Find the number of the last call that is in no sum.

    ``None`` if there are no sums, or if damage hides which calls they cover.
    """
    if not _has_sums(connection):
        return None
    (after,) = connection.execute("SELECT minutes_after FROM tally").fetchone()
    return after if isinstance(after, int) else None


def find_first_minute(connection: sqlite3.Connection) -> int | None:
    """Find the first minute that has sums; ``None`` if there are none."""
    if find_summed_after(connection) is None:
        return None
    (first,) = connection.execute(_FIRST_MINUTE).fetchone()
    return None if first is None else int(first)


def _has_sums(connection: sqlite3.Connection) -> bool:
    """Tell whether the store has all sums: no owner may have migrated it yet."""
    found = connection.execute("SELECT count(*) FROM pragma_table_info('minutes')").fetchone()
    return bool(found[0] == len((*_KEYS, *SUM_NAMES, *_UNUSED)))


def sum_up(calls: Iterable[_Call]) -> dict[_Key, list[float]]:
    """Sum calls up by minute, model and upstream, in the order of :data:`SUM_NAMES`."""
    found: dict[_Key, list[float]] = {}
    for call in calls:
        start_ns, end_ns, model, status, prompt, completion = call[:6]
        upstream, cost, cached, ttft, saved, basis, gap, of_input = call[6:]
        key = (start_ns // MINUTE_NS, model or "", upstream or "")
        if (sums := found.get(key)) is None:
            found[key] = sums = [*_NO_SUMS]
        sums[0] += 1
        if status == "ERROR":
            sums[1] += 1
        if prompt:
            sums[2] += prompt if 0 < prompt < MAX_TOKENS else _within(prompt, MAX_TOKENS)
        if completion:
            sums[3] += (
                completion if 0 < completion < MAX_TOKENS else _within(completion, MAX_TOKENS)
            )
            sums[7] += _within((end_ns - start_ns - (ttft or 0)) // _MS_NS, MAX_OUTPUT_MS)
        if cost is not None:
            dollars = _within(cost, MAX_COST_USD)
            sums[4] += dollars
            sums[5] += 1
            if basis == LIST_BASIS:
                sums[9] += dollars
            if of_input:
                sums[11] += _within(of_input, MAX_COST_USD)
        if gap is not None:
            sums[10] += 1
        if cached:
            sums[6] += _within(cached, MAX_TOKENS)
        if saved:
            sums[8] += _within(saved, MAX_COST_USD)
    return found


def limited(expression: str, limit: float) -> str:
    """Limit a value in SQL that is summed up (rule 4), whatever value a damaged disk gives."""
    return f"min(max(CAST({expression} AS NUMERIC), 0), {limit})"


def _within(amount: float, limit: float) -> float:
    """An amount from zero to a limit (rule 4); zero if the value is not a number."""
    return amount if 0 <= amount <= limit else limit if amount > limit else 0
