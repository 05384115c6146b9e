"""Recorded calls as JSON, for programs: one object per line.

Rules:

1. Both shapes begin with the members of an audit record: ``schema_version``, ``request_id``,
   ``requested_streaming``, ``model`` (and, in full, ``request`` and ``response``).
2. Times are UTC in ISO 8601, to the nanosecond. What is not known is ``null``.
3. A line is ASCII, so that no byte of a hostile message can steer a terminal, and strict JSON.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from telemetry.launch_labels import read_name

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from proxy.commands.call import RecordedCall

__all__ = ("SCHEMA_VERSION", "build_call_record", "build_summary_record", "encode_line")

SCHEMA_VERSION = 1
"""Rises when a member changes its meaning or goes; a new member does not raise it."""


def build_summary_record(call: RecordedCall) -> JsonObject:
    """Build the record of a call in one row, without messages."""
    summary = call.summary
    return {
        "schema_version": SCHEMA_VERSION,
        "request_id": call.request_id,
        "requested_streaming": call.requested_streaming,
        "model": summary.model,
        "span_id": summary.span_id,
        "trace_id": summary.trace_id,
        "name": summary.name,
        "start_time": _iso(summary.start_ns),
        "end_time": _iso(summary.end_ns),
        "duration_ms": call.duration_ns / 1e6,
        "ttft_ms": call.ttft_ms,
        "status": summary.status,
        "outcome": summary.outcome,
        "error_type": call.error_type,
        "finish_reason": call.finish_reason,
        "prompt_tokens": summary.prompt_tokens,
        "completion_tokens": summary.completion_tokens,
        "total_tokens": summary.total_tokens,
        "launch": None if summary.launch is None else read_name(summary.launch),
        "state": summary.state,
        "attempts": summary.attempts,
        "last_error": summary.last_error,
    }


def build_call_record(call: RecordedCall) -> JsonObject:
    """Build the record of a call in full: its row, request, answer, and whole span."""
    span = call.span
    return build_summary_record(call) | {
        "request": call.request,
        "response": call.response,
        "span": {
            "name": span.name,
            "trace_id": span.trace_id,
            "span_id": span.span_id,
            "parent_span_id": span.parent_span_id,
            "trace_state": span.trace_state,
            "start_time": _iso(span.start_ns),
            "end_time": _iso(span.end_ns),
            "status": span.status,
            "status_message": span.status_message,
            "attributes": dict(span.attributes),
            "events": [
                {
                    "name": event.name,
                    "time": _iso(event.at_ns),
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


def _iso(at_ns: int) -> str:
    seconds, nanoseconds = divmod(at_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"
