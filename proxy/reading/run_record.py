"""The run of an agent: its rows as a tree, its JSON, and what its agent's span says about it.

Sums cover the run's own calls, because sub-agents are separate runs; a value that no provider
reported is ``null``. A run without the span of its agent counts as open. The span may also have
been deleted, and nobody can distinguish the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from proxy.reading.record import SCHEMA_VERSION, build_summary_record, format_time
from telemetry.facts import NO_COLUMNS
from telemetry.launch_labels import read_name
from telemetry.store.calls import is_call

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codec.text.jsontext import JsonObject
    from telemetry.reading.calls import Calls
    from telemetry.reading.conversations import ConversationSums
    from telemetry.reading.runs import RunSums
    from telemetry.store.rows import SpanSummary

MAX_DEPTH: Final = 100
"""The deepest level of a tree; no terminal has room for more."""

_Place = int | str
"""The number of a run, whose agent it stands below, or the id of a span."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A row of the tree.

    Attributes:
        row: ``None`` for an agent that has no span yet.
        depth: 0 for the root.
        is_last: whether it is the last among its siblings; before that, the same for each row above
            it.
        start_ns: when it began; an agent without a span begins with the first row below it.
        end_ns: when it ended.
    """

    row: SpanSummary | None
    depth: int
    is_last: tuple[bool, ...]
    start_ns: int
    end_ns: int


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
    # Each row is below one other row, and the root below none: so there is never a circle.
    return [*_walk(root, below, ())]


def _walk(
    one: SpanSummary | _Agent,
    below: dict[_Place, list[SpanSummary | _Agent]],
    is_last: tuple[bool, ...],
) -> Iterator[Node]:
    if len(is_last) > MAX_DEPTH:
        return
    place: _Place = one.run if isinstance(one, _Agent) else one.span_id
    children = sorted(below.get(place, ()), key=lambda child: _times(child, below))
    nested: list[Node] = []
    for child in children:
        nested += _walk(child, below, (*is_last, child is children[-1]))
    row = one.row if isinstance(one, _Agent) else one
    if row is None and not nested:  # everything that was known of it is deleted
        return
    yield Node(
        row=row,
        depth=len(is_last),
        is_last=is_last,
        start_ns=min(node.start_ns for node in nested) if row is None else row.start_ns,
        end_ns=max(node.end_ns for node in nested) if row is None else row.end_ns,
    )
    yield from nested


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


def read_agent(sums: RunSums, reader: Calls) -> JsonObject:
    """Read the metadata of the agent's span; empty for an open run or a damaged span."""
    if sums.agent is None:
        return {}
    from codec.text.jsontext import decode_json_object  # noqa: PLC0415 - few lists need it
    from telemetry.spans.otlp.decoding import decode_spans  # noqa: PLC0415

    for stored in reader.with_bytes([sums.agent]):
        try:
            (span,) = decode_spans(stored.span)
            return decode_json_object(span.attributes.get("metadata", "{}"))
        except (ValueError, TypeError, RecursionError):
            pass
    return {}


def find_caller(sums: RunSums, reader: Calls) -> SpanSummary | None:
    """Find the row of the tool that started a sub-agent; ``None`` for any other agent."""
    parent_id = None if sums.agent is None else sums.agent.columns.parent_span_id
    found = [] if parent_id is None else reader.find(parent_id)
    rows = (one.summary for one in found if one.summary.span_id == parent_id)
    return next((row for row in rows if row.columns.kind == "TOOL"), None)


def find_ending(sums: RunSums, reader: Calls) -> str | None:
    """Find how a run has ended; ``None`` if it is open, or that is not known.

    The column of the finish reason says it, or else the span's metadata.
    """
    if sums.agent is None:
        return None
    reason = sums.agent.columns.finish_reason or read_agent(sums, reader).get("ended_by")
    return reason if isinstance(reason, str) else None


def find_preview(sums: RunSums) -> str | None:
    """Find what the user asked: in the agent's row, else in that of the first call."""
    rows = (row for row in (sums.agent, sums.first_call) if row is not None)
    return next((row.columns.preview for row in rows if row.columns.preview is not None), None)


def build_run_record(sums: RunSums, ended_by: str | None) -> JsonObject:
    """Build the record of a run, without its rows."""
    agent, known = sums.agent, sums.agent or sums.first_call
    columns = NO_COLUMNS if known is None else known.columns
    first = NO_COLUMNS if sums.first_call is None else sums.first_call.columns
    start_ns, end_ns = find_times(sums)
    launch = None if known is None else known.launch
    return {
        "schema_version": SCHEMA_VERSION,
        "run": sums.run,
        "open": agent is None,
        "ended_by": ended_by,
        "status": None if agent is None else agent.status,
        "name": None if agent is None else agent.name,
        "span_id": None if agent is None else agent.span_id,
        "trace_id": None if known is None else known.trace_id,
        "parent_span_id": None if agent is None else agent.columns.parent_span_id,
        "conversation": columns.conversation,
        "turn": columns.turn,
        "session": columns.session,
        "user": columns.user or first.user,
        "client": columns.client or first.client,
        "launch": None if launch is None else read_name(launch),
        "launch_label": launch,
        "preview": find_preview(sums),
        "start_time": format_time(start_ns),
        "end_time": format_time(end_ns),
        "duration_ms": (end_ns - start_ns) / 1e6,
        **build_sums(sums),
    }


def build_sums(sums: RunSums | ConversationSums) -> JsonObject:
    """Build the sums of calls and tools."""
    return {
        "calls": sums.calls,
        "errors": sums.errors,
        "tools": sums.tools,
        "tool_errors": sums.tool_errors,
        "prompt_tokens": sums.prompt_tokens,
        "cached_tokens": sums.cached_tokens,
        "completion_tokens": sums.completion_tokens,
        "cost_usd": sums.cost_usd,
        "priced": sums.priced,
        "list_usd": sums.list_usd,
        "saved_usd": sums.saved_usd,
    }


def build_tree_record(
    sums: RunSums,
    metadata: JsonObject,
    ended_by: str | None,
    nodes: Iterable[Node],
    caller: SpanSummary | None,
) -> JsonObject:
    """Build the record of a run with its rows, in the order in which they are drawn."""
    return build_run_record(sums, ended_by) | {
        "parent_run": None if caller is None else caller.columns.run,
        "metadata": metadata,
        "spans": [
            {"depth": node.depth, **build_summary_record(node.row)}
            for node in nodes
            if node.row is not None
        ],
    }


def find_times(sums: RunSums) -> tuple[int, int]:
    """Find when a run began and ended, by its agent's span, else by its rows."""
    if sums.agent is not None:
        return sums.agent.start_ns, sums.agent.end_ns
    return sums.start_ns, sums.end_ns
