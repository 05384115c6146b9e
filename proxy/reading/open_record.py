"""An open call as JSON, for programs, in the words of a recorded one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.reading.record import SCHEMA_VERSION, format_time
from telemetry.launch_labels import read_name

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from telemetry.observing.open_call import OpenCall


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
