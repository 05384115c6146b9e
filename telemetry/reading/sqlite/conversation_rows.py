"""The rows of a conversation: how many there are, what they come to, and who is beside whom.

Functions on an open connection. A conversation has the rows with its number: its calls, its tools,
and the agents of its runs.

Rules:

1. Rows are found by the index of conversations, :data:`STEP_ROWS` in one read: no read is long,
   however long a conversation is. A store that no owner has migrated yet has no such index: there
   each read goes through all rows.
2. Sums are of calls, and of tools. What is not known is ``None``, and a number has the limits that
   it has in the sums by minute.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from telemetry.store.calls import IS_CALL
from telemetry.store.minutes import MAX_COST_USD, MAX_TOKENS, limited
from telemetry.store.summaries import SUMMARY_COLUMNS, make_summary

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from telemetry.store.rows import SpanSummary

STEP_ROWS: Final = 5_000
"""Rows of a conversation in one read: some 25 ms where they lie far from each other."""

MAX_NAMES: Final = 20
"""Models that are told of a conversation: it has one or two."""

_COUNT = f"""
SELECT count(*) FILTER (WHERE {IS_CALL}), max(seq) FROM (
    SELECT seq, kind, prompt_tokens FROM {{spans}}
    WHERE conversation = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT {STEP_ROWS}
)
"""  # noqa: S608 - constants

_BESIDE = f"""
SELECT span_id FROM {{spans}} WHERE conversation = ? AND seq {{sign}} ? AND {IS_CALL}
ORDER BY seq {{order}} LIMIT 1
"""  # noqa: S608 - constants

_NEWEST = """
SELECT seq FROM {spans} WHERE conversation = ? AND {where} ORDER BY seq DESC LIMIT 1
"""


_STEP = f"""
FROM (SELECT * FROM {{spans}} WHERE conversation = ? AND seq > ? ORDER BY seq LIMIT {STEP_ROWS})
"""  # noqa: S608 - constants

_SUMS = f"""
SELECT count(*) FILTER (WHERE {IS_CALL}), count(*) FILTER (WHERE {IS_CALL} AND status = 'ERROR'),
    count(*) FILTER (WHERE kind = 'TOOL'),
    count(*) FILTER (WHERE kind = 'TOOL' AND status = 'ERROR'),
    count(*) FILTER (WHERE {IS_CALL} AND run IS NULL), count(cost_usd) FILTER (WHERE {IS_CALL}),
    sum({limited("prompt_tokens", MAX_TOKENS)}), sum({limited("cached_tokens", MAX_TOKENS)}),
    sum({limited("completion_tokens", MAX_TOKENS)}), sum({limited("cost_usd", MAX_COST_USD)}),
    min(start_ns) FILTER (WHERE typeof(start_ns) = 'integer'),
    max(end_ns) FILTER (WHERE typeof(end_ns) = 'integer'),
    max(seq), max(seq) FILTER (WHERE {IS_CALL}), min(seq)
{_STEP}
"""

_NAMES = f"SELECT DISTINCT run, model, session, client {_STEP}"

_PREVIEW = f"""
SELECT preview FROM {{spans}} WHERE conversation = ? AND preview IS NOT NULL AND {IS_CALL}
ORDER BY seq LIMIT 1
"""  # noqa: S608 - constants

_ROWS = f"""
SELECT {SUMMARY_COLUMNS} FROM {{spans}} WHERE conversation = ? AND seq > ? AND {{where}}
ORDER BY seq LIMIT ?
"""  # noqa: S608 - constants


class Neighbours(NamedTuple):
    """The calls beside one of a conversation.

    Attributes:
        calls: how many the conversation has.
        position: of this one, from 1.
        before: the span id of the one before; ``None`` for the first one.
        behind: that of the one behind.
    """

    calls: int
    position: int
    before: str | None
    behind: str | None


@dataclass(slots=True, kw_only=True)
class ConversationSums:
    """What a conversation comes to.

    Attributes:
        runs: how many runs its calls are in; a call that no other follows is one by itself.
        run_numbers: of those runs that have one, oldest first.
        errors: calls that failed.
        tools: how many tools have answered.
        tool_errors: those of them that said that they failed.
        priced: how many calls have a cost.
        models: those that answered, in the order in which they came.
        preview: what the user asked first.
        first_seq: the number of its first row.
        last_seq: that of its newest call; of a row that is none, where no call is left.
    """

    number: int
    calls: int = 0
    errors: int = 0
    tools: int = 0
    tool_errors: int = 0
    runs: int = 0
    run_numbers: list[int] = field(default_factory=list)
    priced: int = 0
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    start_ns: int = 0
    end_ns: int = 0
    first_seq: int = 0
    last_seq: int = 0
    models: list[str] = field(default_factory=list)
    session: str | None = None
    client: str | None = None
    preview: str | None = None


def find_neighbours(
    connection: sqlite3.Connection, spans: str, conversation: int, seq: int
) -> Neighbours:
    """Find the calls beside that of a number, and its place among them."""
    position = _count_calls(connection, spans, conversation, 0, seq)
    calls = position + _count_calls(connection, spans, conversation, seq, (1 << 63) - 1)
    before, behind = (
        connection.execute(
            _BESIDE.format(spans=spans, sign=sign, order=order), (conversation, seq)
        ).fetchone()
        for sign, order in (("<", "DESC"), (">", "ASC"))
    )
    return Neighbours(calls, position, before and before[0], behind and behind[0])


def _count_calls(
    connection: sqlite3.Connection, spans: str, conversation: int, after: int, until: int
) -> int:
    statement, count = _COUNT.format(spans=spans), 0
    while True:
        step = connection.execute(statement, (conversation, after, until)).fetchone()
        if step[1] is None:
            return count
        count, after = count + step[0], step[1]


def find_newest(
    connection: sqlite3.Connection,
    spans: str,
    conversation: int,
    where: str = IS_CALL,
    values: Sequence[str | float] = (),
) -> int:
    """Find the number of the newest row for which a condition holds; 0 where there is none."""
    statement = _NEWEST.format(spans=spans, where=where)
    found = connection.execute(statement, (conversation, *values)).fetchone()
    return int(found[0]) if found is not None else 0


def sum_conversation(
    connection: sqlite3.Connection, spans: str, number: int
) -> ConversationSums | None:
    """Sum a conversation up; ``None`` where there is none of that number."""
    sums = ConversationSums(number=number)
    at, last_row = 0, 0
    runs: dict[int, None] = {}
    models: dict[str, None] = {}
    while True:
        values = (number, at)
        found = connection.execute(_SUMS.format(spans=spans), values).fetchone()
        if found[12] is None:
            break
        _add(sums, found)
        for run, model, session, client in connection.execute(_NAMES.format(spans=spans), values):
            if isinstance(run, int):
                runs[run] = None
            if model and isinstance(model, str) and len(models) < MAX_NAMES:
                models[model] = None
            sums.session = sums.session or (session if isinstance(session, str) else None)
            sums.client = sums.client or (client if isinstance(client, str) else None)
        at = last_row = found[12]
    if not last_row:
        return None
    preview = connection.execute(_PREVIEW.format(spans=spans), (number,)).fetchone()
    sums.preview = preview[0] if preview and isinstance(preview[0], str) else None
    sums.runs += len(runs)
    sums.run_numbers, sums.models = sorted(runs), [*models]
    sums.last_seq = sums.last_seq or last_row
    return sums


def _add(sums: ConversationSums, found: tuple[int, ...]) -> None:
    """Add a step to the sums."""
    sums.calls += found[0]
    sums.errors += found[1]
    sums.tools += found[2]
    sums.tool_errors += found[3]
    sums.runs += found[4]
    sums.priced += found[5]
    sums.prompt_tokens = _plus(sums.prompt_tokens, found[6])
    sums.cached_tokens = _plus(sums.cached_tokens, found[7])
    sums.completion_tokens = _plus(sums.completion_tokens, found[8])
    if found[9] is not None:
        sums.cost_usd = (sums.cost_usd or 0.0) + found[9]
    sums.start_ns = min(filter(None, (sums.start_ns, found[10])), default=0)
    sums.end_ns = max(sums.end_ns, found[11] or 0)
    sums.last_seq = max(sums.last_seq, found[13] or 0)
    sums.first_seq = sums.first_seq or found[14]


def _plus(sum_: int | None, more: int | None) -> int | None:
    return sum_ if more is None else (sum_ or 0) + more


def read_rows(
    connection: sqlite3.Connection,
    spans: str,
    conversation: int,
    limit: int,
    *,
    after: int = 0,
    where: str = "1",
) -> Iterator[SpanSummary]:
    """Yield rows of a conversation, oldest first, step by step.

    Args:
        connection: to a store, for reading.
        spans: the table, with its indexes.
        conversation: its number.
        limit: how many at most.
        after: only rows with a greater number.
        where: what else must hold.
    """
    statement = _ROWS.format(spans=spans, where=where)
    while limit > 0:
        step = min(limit, STEP_ROWS)
        rows = connection.execute(statement, (conversation, after, step)).fetchall()
        yield from map(make_summary, rows)
        if len(rows) < step:
            return
        limit, after = limit - len(rows), rows[-1][0]
