"""Recorded calls, and open ones in the same words, as JSON for programs: one object per line.

Rules:

1. A row has every column of the store, and is made of those alone. A call in full has, beside its
   row and its span, the members of an audit record: ``schema_version``, ``request_id``,
   ``requested_streaming``, ``model``, ``request`` and ``response``.
2. Times are UTC in ISO 8601, to the nanosecond. What is not known is ``null``.
3. A line is ASCII, so that no byte of a hostile message can steer a terminal, and strict JSON.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING

from telemetry.launch_labels import read_name

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from proxy.reading.call import RecordedCall
    from telemetry.observing.open_call import OpenCall
    from telemetry.store.rows import SpanSummary

SCHEMA_VERSION = 2
"""Rises when a member changes its meaning or goes; a new member does not raise it."""


def build_summary_record(row: SpanSummary) -> JsonObject:
    """Build the record of a call in one row, without messages."""
    columns = row.columns
    return {
        "schema_version": SCHEMA_VERSION,
        "request_id": columns.request_id,
        "model": row.model,
        "span_id": row.span_id,
        "trace_id": row.trace_id,
        "parent_span_id": columns.parent_span_id,
        "name": row.name,
        "kind": columns.kind,
        "api": columns.api,
        "upstream": columns.upstream,
        "client": columns.client,
        "start_time": format_time(row.start_ns),
        "end_time": format_time(row.end_ns),
        "duration_ms": (row.end_ns - row.start_ns) / 1e6,
        "ttft_ms": None if columns.ttft_ns is None else columns.ttft_ns / 1e6,
        "status": row.status,
        "outcome": row.outcome,
        "http_status": columns.http_status,
        "error_type": columns.error_type,
        "finish_reason": columns.finish_reason,
        "streamed": None if columns.streamed is None else bool(columns.streamed),
        "retry": columns.retry,
        "anomalies": _split(columns.anomalies, " "),
        "prompt_tokens": row.prompt_tokens,
        "completion_tokens": row.completion_tokens,
        "total_tokens": row.total_tokens,
        "cached_tokens": columns.cached_tokens,
        "cost_usd": _finite(columns.cost_usd),
        "session": columns.session,
        "user": columns.user,
        "launch": None if row.launch is None else read_name(row.launch),
        "launch_label": row.launch,
        "preview": columns.preview,
        "new_messages": columns.new_messages,
        "tools": _split(columns.tools, "\n"),
        "tool_calls": columns.tool_calls,
        "conversation": columns.conversation,
        "run": columns.run,
        "turn": columns.turn,
        "link_rule": columns.link_rule,
        "seq": row.seq,
        "size_bytes": row.size_bytes,
        "recorded_time": format_time(row.recorded_ns),
        "state": row.state,
        "attempts": row.attempts,
        "next_try_time": format_time(row.next_try_ns) if row.next_try_ns else None,
        "last_error": row.last_error,
    }


def build_call_record(call: RecordedCall) -> JsonObject:
    """Build the record of a call in full: its row, request, answer, and whole span.

    What the row of an older store lacks is told as the span has it.
    """
    span, record = call.span, build_summary_record(call.summary)
    known = {
        "request_id": call.request_id,
        "ttft_ms": call.ttft_ms,
        "error_type": call.error_type,
        "finish_reason": call.finish_reason,
        "cost_usd": _finite(call.cost_usd),
    }
    record |= {name: value for name, value in known.items() if record[name] is None}
    return record | {
        "requested_streaming": call.requested_streaming,
        "request": call.request,
        "response": call.response,
        "span": {
            "name": span.name,
            "trace_id": span.trace_id,
            "span_id": span.span_id,
            "parent_span_id": span.parent_span_id,
            "trace_state": span.trace_state,
            "start_time": format_time(span.start_ns),
            "end_time": format_time(span.end_ns),
            "status": span.status,
            "status_message": span.status_message,
            "attributes": dict(span.attributes),
            "events": [
                {
                    "name": event.name,
                    "time": format_time(event.at_ns),
                    "attributes": dict(event.attributes),
                }
                for event in span.events
            ],
            "links": [{"trace_id": trace, "span_id": span_id} for trace, span_id in span.links],
            "resource": dict(span.resource),
            "scope": {"name": span.scope[0], "version": span.scope[1]},
        },
    }


def encode_line(record: JsonObject) -> str:
    """Encode a record as a line of JSON, without the line end (rule 3)."""
    return json.dumps(record, allow_nan=False)


def _split(joined: str | None, separator: str) -> list[str]:
    return joined.split(separator) if joined else []


def _finite(number: float | None) -> float | None:
    """Leave out what strict JSON has no word for (rule 3)."""
    return number if number is not None and isfinite(number) else None


def format_time(at_ns: int) -> str:
    """Write a time of nanoseconds since the epoch (rule 2)."""
    seconds, nanoseconds = divmod(at_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"


def build_open_record(call: OpenCall, now_ns: int) -> JsonObject:
    """Build the record of an open call, in the words of that of a recorded one."""
    return {
        "schema_version": SCHEMA_VERSION,
        "open": True,
        "model": call.model,
        "span_id": call.span_id,
        "trace_id": call.trace_id,
        "api": call.api,
        "upstream": call.upstream,
        "client": call.client,
        "start_time": format_time(call.start_ns),
        "duration_ms": max(0, now_ns - call.start_ns) / 1e6,
        "http_status": call.http_status,
        "chunks": call.chunks,
        "launch": None if call.launch is None else read_name(call.launch),
        "launch_label": call.launch,
    }
