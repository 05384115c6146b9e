"""What a proxy's store says it sent, in OpenTelemetry's own messages.

The bytes of a store are what went out (``docs/contract/spans.md#delivery``), so a backend must hold
neither more nor less than them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from telemetry.reading.stored_calls import open_calls
from telemetry.store.rows import SpanState
from tests.e2e.processes import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

__all__ = ("read_delivered", "wait_for_delivery")

_DELIVERY_SECONDS = 20.0
"""The exporter looks once a second; the rest is for a loaded machine."""


def wait_for_delivery(store: Path, count: int) -> dict[str, ResourceSpans]:
    """What :func:`read_delivered` gives once it is `count` spans."""
    wait_until(
        lambda: len(read_delivered(store)) == count, _DELIVERY_SECONDS, f"{count} spans delivered"
    )
    return read_delivered(store)


def read_delivered(store: Path) -> dict[str, ResourceSpans]:
    """The spans that the backend has acknowledged, each with its resource, by span id."""
    with open_calls(store) as reader:
        ids = [row.span_id for row in reader.after(0) if row.state is SpanState.DELIVERED]
        return {span_id: _parse(reader.find(span_id)[0].span) for span_id in ids}


def _parse(request: bytes) -> ResourceSpans:
    resource_spans: ResourceSpans
    (resource_spans,) = ExportTraceServiceRequest.FromString(request).resource_spans
    return resource_spans
