"""The run of an agent: its JSON, and what its agent's span says about it.

Sums cover the run's own calls, because sub-agents are separate runs; a value that no provider
reported is ``null``. A run without the span of its agent counts as open. The span may also have
been deleted, and nobody can distinguish the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.reading.record import SCHEMA_VERSION, build_summary_record, format_time
from proxy.reading.run_tree import count_too_deep
from proxy.reading.spent_time import build_time, measure_time
from proxy.reading.sum_members import build_step_sums
from telemetry.facts import NO_COLUMNS
from telemetry.launch_labels import find_name, write_title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.text.jsontext import JsonObject
    from proxy.reading.run_tree import Node
    from telemetry.reading.calls import Calls
    from telemetry.reading.runs import RunSums
    from telemetry.store.rows import SpanSummary


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


def find_launch(sums: RunSums) -> str | None:
    """Find the label of the launch that a run belongs to."""
    known = sums.agent or sums.first_call
    return None if known is None else known.launch


def find_title(sums: RunSums) -> str | None:
    """Find the title of a run: the name of its launch, and what the user asked."""
    return write_title(find_launch(sums), find_preview(sums))


def find_place(conversation: int | None, run: int | None, reader: Calls) -> JsonObject:
    """Find which run of its conversation a run is, from 1, and how many there are."""
    numbers = [] if conversation is None else reader.of_conversation(conversation).run_numbers()
    place = numbers.index(run) + 1 if run in numbers else None
    return {"run_place": place, "runs": len(numbers)}


def build_run_record(sums: RunSums, ended_by: str | None) -> JsonObject:
    """Build the record of a run, without its rows."""
    agent, known = sums.agent, sums.agent or sums.first_call
    columns = NO_COLUMNS if known is None else known.columns
    first = NO_COLUMNS if sums.first_call is None else sums.first_call.columns
    start_ns, end_ns = find_times(sums)
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
        "launch": find_name(find_launch(sums)),
        "launch_label": find_launch(sums),
        "preview": find_preview(sums),
        "start_time": format_time(start_ns),
        "end_time": format_time(end_ns),
        "duration_ms": (end_ns - start_ns) / 1e6,
        **build_step_sums(sums),
    }


def build_tree_record(
    sums: RunSums,
    metadata: JsonObject,
    ended_by: str | None,
    nodes: Sequence[Node],
    caller: SpanSummary | None,
) -> JsonObject:
    """Build the record of a run with its rows, in the order in which they are drawn."""
    rows = [node.row for node in nodes if node.row and node.row.columns.run == sums.run]
    return build_run_record(sums, ended_by) | {
        "parent_run": None if caller is None else caller.columns.run,
        "metadata": metadata,
        "time": build_time(measure_time(rows)),
        "too_deep": count_too_deep(nodes),
        "spans": [
            {"depth": node.depth, "tries": node.tries, **build_summary_record(node.row)}
            for node in nodes
            if node.row is not None
        ],
    }


def find_times(sums: RunSums) -> tuple[int, int]:
    """Find when a run began and ended, by its agent's span, else by its rows."""
    if sums.agent is not None:
        return sums.agent.start_ns, sums.agent.end_ns
    return sums.start_ns, sums.end_ns
