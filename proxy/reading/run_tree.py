"""The run of an agent as a tree: which row stands below which.

A request that failed and was sent again is one step: the last attempt, with the failed ones below
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from telemetry.conversations.continuation import Rule
from telemetry.store.calls import is_call

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from telemetry.reading.runs import RunSums
    from telemetry.store.rows import SpanSummary

MAX_DEPTH: Final = 100
"""The deepest level of a tree; no terminal has room for more."""

MAX_WAITING: Final = 16
"""How many failed calls of one request may wait for their retries. The matcher remembers as many
calls of a request."""

_Place = int | str
"""A row stands below the agent of the run with this number, or below the span with this id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A row of the tree.

    Attributes:
        row: ``None`` for an agent that has no span yet.
        run: the number of the run that it belongs to; ``None`` for a sub-agent of one call.
        depth: 0 for the root.
        is_last: whether it is the last among its siblings; before that, the same for each row above
            it.
        start_ns: when it began; an agent without a span begins with the first row below it.
        end_ns: when it ended.
        too_deep: how many rows below it have no place in the tree (:data:`MAX_DEPTH`).
        tries: how many attempts the step took. The failed ones before it are below it.
    """

    row: SpanSummary | None
    run: int | None
    depth: int
    is_last: tuple[bool, ...]
    start_ns: int
    end_ns: int
    too_deep: int = 0
    tries: int = 1


def count_too_deep(nodes: Iterable[Node]) -> int:
    """Count the rows that are left out of a tree because they are too deep."""
    return sum(node.too_deep for node in nodes)


@dataclass(slots=True)
class _Agent:
    """An agent: its run, and its row if there is one."""

    run: int
    row: SpanSummary | None = None


def build_tree(sums: RunSums, rows: Sequence[SpanSummary]) -> list[Node]:
    """Build the tree of a run from its rows and others of its trace, in the order of lines.

    Tools are siblings of calls, in the order of time. A sub-agent is below the tool that started
    it; if that tool has no row yet, because its result did not come, it is below the outermost
    agent of the trace. Other rows of the trace are left out.
    """
    agents: dict[int, _Agent] = {}
    for row in rows:
        if (run := row.columns.run) is not None:
            agent = agents.setdefault(run, _Agent(run))
            if row.columns.kind == "AGENT":
                agent.row = row
    root = agents.setdefault(sums.run, _Agent(sums.run, sums.agent))
    ids = {row.span_id for row in rows}
    outermost = min(agents)
    below: dict[_Place, list[SpanSummary | _Agent]] = {}
    for row in rows:
        run, parent = row.columns.run, row.columns.parent_span_id
        if row.columns.kind in {"AGENT", "MARKER"}:
            continue
        if run is not None:
            below.setdefault(run, []).append(row)
        elif parent is not None and is_call(row.columns.kind):  # a sub-agent of one call
            below.setdefault(parent if parent in ids else outermost, []).append(row)
    for agent in agents.values():
        if agent is not root:
            above = None if agent.row is None else agent.row.columns.parent_span_id
            place = above if above is not None and above in ids else outermost
            below.setdefault(place, []).append(agent)
    tries = _join_attempts(below)
    # Each row is below one other row, and the root below none: so there is never a circle.
    return [*_walk(root, below, tries, ())]


def _join_attempts(below: dict[_Place, list[SpanSummary | _Agent]]) -> dict[str, int]:
    """Put failed attempts of a request below the last one; return how many it took, by its id.

    A retry repeats a call in the same place that failed before it began, and whose request looks
    the same. If that is not exactly one call, the retry is a step by itself.
    """
    tries: dict[str, int] = {}
    for place, children in [*below.items()]:
        calls = [one for one in children if not isinstance(one, _Agent)]
        if not any(one.columns.link_rule == Rule.RETRY for one in calls):  # as most of the time
            continue
        waiting: dict[tuple[object, ...], list[SpanSummary]] = {}
        before: dict[str, list[SpanSummary]] = {}
        for call in sorted(calls, key=lambda one: (one.start_ns, one.end_ns)):
            if not is_call(call.columns.kind):
                continue
            failed = waiting.setdefault(_describe_request(call), [])
            if call.columns.link_rule == Rule.RETRY and len(failed) <= MAX_WAITING:
                found = [one for one in failed if one.end_ns <= call.start_ns]
                if len(found) == 1:
                    failed.remove(found[0])
                    before[call.span_id] = before.pop(found[0].span_id, [])
                    before[call.span_id].append(found[0])
            if call.status == "ERROR":
                failed.append(call)
        joined = {one.span_id for attempts in before.values() for one in attempts}
        below[place] = [
            one for one in children if isinstance(one, _Agent) or one.span_id not in joined
        ]
        for span_id, attempts in before.items():
            below.setdefault(span_id, []).extend(attempts)
            tries[span_id] = len(attempts) + 1
    return tries


def _describe_request(call: SpanSummary) -> tuple[object, ...]:
    """Return what the columns of all attempts of a request have in common."""
    columns = call.columns
    return columns.conversation, columns.turn, columns.new_messages, columns.preview


def _walk(
    one: SpanSummary | _Agent,
    below: dict[_Place, list[SpanSummary | _Agent]],
    tries: dict[str, int],
    is_last: tuple[bool, ...],
) -> Iterator[Node]:
    children = sorted(below.get(_place(one), ()), key=lambda child: _times(child, below))
    too_deep = 0
    if len(is_last) == MAX_DEPTH:
        too_deep, children = _count(children, below), []
    nested: list[Node] = []
    for child in children:
        nested += _walk(child, below, tries, (*is_last, child is children[-1]))
    row = one.row if isinstance(one, _Agent) else one
    if row is None and not nested:  # everything that was known of it is deleted
        return
    yield Node(
        row=row,
        run=one.run if isinstance(one, _Agent) else one.columns.run,
        depth=len(is_last),
        is_last=is_last,
        start_ns=min(node.start_ns for node in nested) if row is None else row.start_ns,
        end_ns=max(node.end_ns for node in nested) if row is None else row.end_ns,
        too_deep=too_deep,
        tries=1 if row is None else tries.get(row.span_id, 1),
    )
    yield from nested


def _place(one: SpanSummary | _Agent) -> _Place:
    """Return the place below a row or an agent."""
    return one.run if isinstance(one, _Agent) else one.span_id


def _count(
    waiting: list[SpanSummary | _Agent], below: dict[_Place, list[SpanSummary | _Agent]]
) -> int:
    """Count the rows among these, and below them."""
    count = 0
    while waiting:
        one = waiting.pop()
        count += not (isinstance(one, _Agent) and one.row is None)
        waiting += below.get(_place(one), ())
    return count


def _times(
    one: SpanSummary | _Agent, below: dict[_Place, list[SpanSummary | _Agent]]
) -> tuple[int, int]:
    """Return the sort key of siblings: their start, then their end."""
    if isinstance(one, _Agent):
        if one.row is not None:
            return one.row.start_ns, one.row.end_ns
        rows = below.get(one.run, ())
        return min((row.start_ns for row in rows if not isinstance(row, _Agent)), default=0), 0
    return one.start_ns, one.end_ns
