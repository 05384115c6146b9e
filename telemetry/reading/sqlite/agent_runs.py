"""The runs of agents: which there are, what one comes to, and its rows.

Functions on an open connection. A run has the rows with its number: its calls, its tools, and once
it is over that of the agent.

Rules:

1. Runs are found by the index of their numbers, in steps of :data:`STEP_RUNS` of these: no read is
   long, however few of them are wanted.
2. A sub-agent has a run of its own, in the trace of the one that started it. Its rows are near by
   number: they are looked for up to :data:`NEAR_ROWS` behind the last row of that run, without an
   index, and so is a sub-agent of one call, which has no run.
3. What is not known is ``None``, and a number has the limits that it has in the sums by minute.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from telemetry.store.calls import IS_CALL
from telemetry.store.minutes import MAX_COST_USD, MAX_TOKENS, limited
from telemetry.store.summaries import SUMMARY_COLUMNS, make_summary

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from telemetry.store.rows import SpanSummary

STEP_RUNS: Final = 20_000
"""Numbers of runs whose rows are held against a condition in one read. A run has the number of its
first call, so these are some 40,000 rows: 50 ms."""

NEAR_ROWS: Final = 20_000
"""Rows behind a run among which its sub-agents may still be: those that nobody waits for."""

MAX_TREE_ROWS: Final = 2_000
"""Rows of a tree that are read, some 2 MB; a person reads no more."""

_STEP_ROWS: Final = 100_000
"""Rows of other runs that are passed over in one read: some 25 ms."""

_LAST_RUN: Final = (1 << 63) - 1

_NEWEST = "SELECT max(run) FROM {spans} WHERE run BETWEEN 0 AND ?"  # a disk may make it -inf

_OUTERMOST = "SELECT min(run) FROM {spans} WHERE run IS NOT NULL AND trace_id = ?"

_SOME = """
SELECT DISTINCT run FROM {spans} WHERE run BETWEEN ? AND ? AND {where} ORDER BY run DESC LIMIT ?
"""


_SUMS = f"""
SELECT count(*) FILTER (WHERE {IS_CALL}), count(*) FILTER (WHERE {IS_CALL} AND status = 'ERROR'),
    count(*) FILTER (WHERE kind = 'TOOL'),
    count(*) FILTER (WHERE kind = 'TOOL' AND status = 'ERROR'),
    sum({limited("prompt_tokens", MAX_TOKENS)}), sum({limited("cached_tokens", MAX_TOKENS)}),
    sum({limited("completion_tokens", MAX_TOKENS)}), sum({limited("cost_usd", MAX_COST_USD)}),
    count(cost_usd) FILTER (WHERE {IS_CALL}),
    coalesce(min(start_ns) FILTER (WHERE typeof(start_ns) = 'integer'), 0),
    coalesce(max(end_ns) FILTER (WHERE typeof(end_ns) = 'integer'), 0), min(seq), max(seq)
FROM {{spans}} WHERE run = ?
"""  # noqa: S608 - constants

_FIRST_CALL = f"""
SELECT {SUMMARY_COLUMNS} FROM {{spans}} WHERE run = ? AND {IS_CALL} ORDER BY seq LIMIT 1
"""  # noqa: S608 - constants

_AGENT = f"""
SELECT {SUMMARY_COLUMNS} FROM {{spans}} WHERE run = ? AND kind = 'AGENT' ORDER BY seq DESC LIMIT 1
"""  # noqa: S608 - constants

_NEAR = f"""
SELECT {SUMMARY_COLUMNS} FROM {{spans}}
WHERE seq BETWEEN ? AND ? AND (run = ? OR trace_id = ?) ORDER BY seq LIMIT ?
"""  # noqa: S608 - constants

_LAST_SEQ = "SELECT max(seq) FROM spans"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSums:
    """What a run comes to, sub-agents apart.

    Attributes:
        errors: calls that failed.
        tools: how many tools have answered.
        tool_errors: those of them that said that they failed.
        prompt_tokens: of its calls, as all tokens; ``None`` where no provider told them.
        cost_usd: of the calls that have a cost; ``None`` where none has.
        priced: how many these are.
        start_ns: when its first row began.
        end_ns: when its last one ended.
        first_seq: the number of its first row.
        last_seq: and of its last one.
        first_call: ``None`` where its calls were removed.
        agent: the row of the agent, ``None`` where there is none: the run is open, or was removed
            in part.
    """

    run: int
    calls: int
    errors: int
    tools: int
    tool_errors: int
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    priced: int
    start_ns: int
    end_ns: int
    first_seq: int
    last_seq: int
    first_call: SpanSummary | None
    agent: SpanSummary | None


def find_runs(
    connection: sqlite3.Connection,
    spans: str,
    limit: int,
    where: str = IS_CALL,
    values: Sequence[str | float] = (),
) -> Sequence[int]:
    """Find the numbers of runs that have a row for which a condition holds, the newest first.

    Args:
        connection: to a store, for reading.
        spans: the table, with its indexes (:func:`telemetry.store.spans_table.name_spans`).
        limit: how many at most.
        where: the condition.
        values: of its parameters.
    """
    found = array("q")
    newest, some = _NEWEST.format(spans=spans), _SOME.format(spans=spans, where=where)
    (until,) = connection.execute(newest, (_LAST_RUN,)).fetchone()
    while until is not None and len(found) < limit:
        since = until - STEP_RUNS + 1
        rows = connection.execute(some, (since, until, *values, limit - len(found)))
        found.extend(run for (run,) in rows if isinstance(run, int))
        (until,) = connection.execute(newest, (since - 1,)).fetchone()
    return found


def find_outermost(connection: sqlite3.Connection, spans: str, trace_id: str) -> int | None:
    """Find the number of the first run in a trace; ``None`` where it has none."""
    (run,) = connection.execute(_OUTERMOST.format(spans=spans), (trace_id,)).fetchone()
    return None if run is None else int(run)


def sum_run(connection: sqlite3.Connection, spans: str, run: int) -> RunSums | None:
    """Sum a run up; ``None`` where there is none of that number."""
    sums = connection.execute(_SUMS.format(spans=spans), (run,)).fetchone()
    if sums[-1] is None:
        return None
    first, agent = (
        connection.execute(statement.format(spans=spans), (run,)).fetchone()
        for statement in (_FIRST_CALL, _AGENT)
    )
    return RunSums(
        run=run,
        calls=sums[0],
        errors=sums[1],
        tools=sums[2],
        tool_errors=sums[3],
        prompt_tokens=sums[4],
        cached_tokens=sums[5],
        completion_tokens=sums[6],
        cost_usd=sums[7],
        priced=sums[8],
        start_ns=sums[9],
        end_ns=sums[10],
        first_seq=sums[11],
        last_seq=sums[12],
        first_call=first and make_summary(first),
        agent=agent and make_summary(agent),
    )


def read_tree(connection: sqlite3.Connection, spans: str, sums: RunSums) -> list[SpanSummary]:
    """Read the rows of a run, and those of its trace that are near (rule 2), oldest first.

    There is one more than :data:`MAX_TREE_ROWS` where there are more.
    """
    known = sums.first_call or sums.agent
    trace_id = known.trace_id if known is not None else ""
    (last_seq,) = connection.execute(_LAST_SEQ).fetchone()
    # The last row of the run is found whatever lies between.
    end = min(last_seq, sums.last_seq + NEAR_ROWS)
    statement = _NEAR.format(spans=spans)
    found: list[SpanSummary] = []
    for since in range(sums.first_seq, end + 1, _STEP_ROWS):
        until = min(end, since + _STEP_ROWS - 1)
        room = MAX_TREE_ROWS + 1 - len(found)
        rows = connection.execute(statement, (since, until, sums.run, trace_id, room))
        found += map(make_summary, rows)
        if len(found) > MAX_TREE_ROWS:
            break
    return found
