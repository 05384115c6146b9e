"""Rows of the store as JSON of the API, also rows with a damaged column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.reading.record import NO_ROW, build_summary_record, format_time
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


def write_time(at_ns: object) -> str | None:
    """Write a time, given in nanoseconds since the epoch; ``None`` if it is not a time."""
    try:
        return format_time(at_ns) if isinstance(at_ns, int) else None
    except (ValueError, OverflowError, OSError):
        return None
