"""Recorded and open calls as JSON for programs, with the same members: one object for each line.

A row has every fact of a call (:mod:`telemetry.facts`), and is made only from columns. A call in
full also has its span and the members of an audit record: ``schema_version``, ``request_id``,
``requested_streaming``, ``model``, ``request`` and ``response``; and what was left of each rate
limit. An unknown value is ``null``.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from telemetry.fact import Form
from telemetry.facts import FACTS
from telemetry.launch_labels import read_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.rate_limits import RateLimit
    from codec.text.jsontext import JsonObject
    from proxy.reading.call import RecordedCall
    from telemetry.fact import Fact
    from telemetry.observing.open_call import OpenCall
    from telemetry.store.rows import SpanSummary

SCHEMA_VERSION = 2
"""Rises when a member changes its meaning or is removed, not when a member is added."""


def build_summary_record(row: SpanSummary) -> JsonObject:
    """Build the record of a call in one row, without messages."""
    record: JsonObject = {"schema_version": SCHEMA_VERSION}
    for name, get, write in _MEMBERS:
        value = get(row)
        record[name] = value if write is None else write(value)
    return record


def build_call_record(call: RecordedCall) -> JsonObject:
    """Build the record of a call in full: its row, request, answer, and whole span.

    Members that the row of an older store lacks come from the span.
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
        "rate_limits": [build_limit_record(limit) for limit in call.limits],
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


def build_limit_record(limit: RateLimit) -> JsonObject:
    """Build the record of what was left of a rate limit."""
    return {
        "name": limit.name,
        "left": limit.left,
        "remaining": limit.remaining,
        "limit": limit.limit,
        "reset": limit.reset,
    }


def encode_line(record: JsonObject) -> str:
    """Encode a record as a line of strict JSON, without the line end.

    It is ASCII, so that no byte of a hostile message can steer a terminal.
    """
    return json.dumps(record, allow_nan=False)


def _finite(number: float | None) -> float | None:
    """Leave out infinities and NaN, which strict JSON does not have."""
    return number if number is not None and isfinite(number) else None


def format_time(at_ns: int) -> str:
    """Write a time, given in nanoseconds since the epoch: UTC in ISO 8601, to the nanosecond."""
    seconds, nanoseconds = divmod(at_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"


def write_time(at_ns: object) -> str | None:
    """Write a time, given in nanoseconds since the epoch; ``None`` if it is not a time."""
    try:
        return format_time(at_ns) if isinstance(at_ns, int) else None
    except (ValueError, OverflowError, OSError):
        return None


def build_open_record(call: OpenCall, now_ns: int) -> JsonObject:
    """Build the record of an open call, with the member names of a recorded one."""
    return {
        "schema_version": SCHEMA_VERSION,
        "open": True,
        "model": call.model,
        "span_id": call.span_id,
        "trace_id": call.trace_id,
        "what": call.what,
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


def _write_items(fact: Fact) -> Callable[[str | None], list[str]]:
    return lambda joined: joined.split(fact.separators) if joined else []


def _make_writer(fact: Fact) -> Callable[[Any], Any] | None:
    """Make the function that writes the values of a fact; ``None`` if they stay as they are."""
    if fact.form is Form.ITEMS:
        return _write_items(fact)
    return _WRITERS.get(fact.form)


_WRITERS: Final[dict[Form, Callable[[Any], Any]]] = {
    Form.DOLLARS: _finite,
    Form.DURATION: lambda duration_ns: None if duration_ns is None else duration_ns / 1e6,
    Form.FLAG: lambda flag: None if flag is None else bool(flag),
    Form.TIME: lambda at_ns: None if at_ns is None else format_time(at_ns),
}

_MEMBERS: Final = tuple(
    (fact.json_name, fact.get, _make_writer(fact))
    for fact in sorted(FACTS, key=lambda fact: fact.place)
    if fact.json_name is not None
)
"""The members of a row in their order: the name, and the functions that get and write the value."""

NO_ROW: Final[JsonObject] = {
    "schema_version": SCHEMA_VERSION,
    **{name: [] if write and write(None) == [] else None for name, _, write in _MEMBERS},
}
"""The record of a row about which nothing is known."""
