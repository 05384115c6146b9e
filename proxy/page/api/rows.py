"""Rows of the store as JSON of the API, also rows with a damaged column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.reading.record import NO_ROW, build_summary_record
from telemetry.facts import tell_what
from telemetry.store.checksum import DAMAGED_WORDS

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from telemetry.store.rows import SpanSummary


def build_row(row: SpanSummary) -> JsonObject:
    """Build the record of a row; the record of a damaged row says so, and has little else."""
    try:
        record = build_summary_record(row)
    except (TypeError, ValueError, OverflowError, AttributeError):
        known = {"seq": row.seq, "span_id": row.span_id, "last_error": DAMAGED_WORDS}
        return {**NO_ROW, **known}
    if not (row.start_ns and row.end_ns):
        record |= {"start_time": None, "end_time": None, "duration_ms": None}
    return record


def build_bar(row: SpanSummary, depth: int, begin_ns: int) -> JsonObject:
    """Build the record of a row in a timeline or a tree, with times in ms since a beginning."""
    columns = row.columns
    return {
        "seq": row.seq,
        "kind": columns.kind,
        "span_id": row.span_id,
        "parent_span_id": columns.parent_span_id,
        "name": row.name,
        "conversation": columns.conversation,
        "run": columns.run,
        "turn": columns.turn,
        "depth": depth,
        "start_ms": since_ms(row.start_ns, begin_ns),
        "end_ms": since_ms(row.end_ns, begin_ns),
        "status": row.status,
        "outcome": row.outcome,
        "error_type": columns.error_type,
        "model": row.model,
        "preview": columns.preview,
        "step": columns.step,
        "what": tell_what(row),
        "finish_reason": columns.finish_reason,
        "prompt_tokens": row.prompt_tokens,
        "cached_tokens": columns.cached_tokens,
        "completion_tokens": row.completion_tokens,
        "cost_usd": columns.cost_usd,
        "cost_basis": columns.cost_basis,
        "ttft_ms": since_ms(columns.ttft_ns, 0),
        "tools": columns.tools.split("\n") if isinstance(columns.tools, str) else [],
    }


def since_ms(at_ns: object, begin_ns: object) -> float | None:
    """Write a time of nanoseconds as milliseconds since another; ``None`` if one is not a time."""
    if not isinstance(at_ns, int) or not isinstance(begin_ns, int):
        return None
    return (at_ns - begin_ns) / 1e6
