"""Spans to OTLP bytes and back.

The store holds, per span, one serialised ``ExportTraceServiceRequest``
(``docs/contract/promises.md#the-store``).

Several such blobs, concatenated, are also a valid request, because protobuf appends repeated fields
that it meets again. Batches are made in this way, without decoding anything.

A blob's bytes are those that the SDK's exporter makes of the span. The exporter itself writes
resource and scope, once for all spans of a process; :mod:`telemetry.spans.otlp.writer` writes the
span. If a span has attributes that cannot be written, which the recorder never makes, the exporter
writes all of it, and leaves these out.

The exporter and protobuf are imported when they are first used: they cost a tenth of a second and
5 MB, and a port that opens late is worse than a first span that comes late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from telemetry.spans.otlp.attributes import write_length
from telemetry.spans.otlp.writer import write_span

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope


def encode_span(span: ReadableSpan) -> bytes:
    """Encode one span as a serialised ``ExportTraceServiceRequest``."""
    envelope = _open_envelope(span)
    try:
        written = write_span(span)
    except (UnicodeEncodeError, OverflowError, TypeError):
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import (  # noqa: PLC0415 - late
            encode_spans,
        )

        blob: bytes = encode_spans([span]).SerializeToString()
        return blob
    # From the inside out, but joined in one step, because a span may have megabytes.
    span_head = b"\x12" + write_length(len(written))
    scope_spans = (envelope.before_span, span_head, written, envelope.after_span)
    scope_head = b"\x12" + write_length(sum(map(len, scope_spans)))
    resource_spans = (envelope.before_scope, scope_head, *scope_spans, envelope.after_scope)
    return b"".join((b"\x0a", write_length(sum(map(len, resource_spans))), *resource_spans))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Envelope:
    """The envelope of a span: serialised fields of ``ResourceSpans`` and ``ScopeSpans``."""

    resource: Resource
    scope: InstrumentationScope | None
    before_scope: bytes
    before_span: bytes
    after_span: bytes
    after_scope: bytes


_envelopes: list[_Envelope] = []
"""The envelope that was written last: all spans of a process have the same resource and scope
objects."""


def _open_envelope(span: ReadableSpan) -> _Envelope:
    for envelope in _envelopes:
        if envelope.resource is span.resource and envelope.scope is span.instrumentation_scope:
            return envelope
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import (  # noqa: PLC0415 - late
        encode_spans,
    )
    from opentelemetry.proto.trace.v1.trace_pb2 import (  # noqa: PLC0415 - late
        ResourceSpans,
        ScopeSpans,
    )

    [resource_spans] = encode_spans([span]).resource_spans
    [scope_spans] = resource_spans.scope_spans
    envelope = _Envelope(
        resource=span.resource,
        scope=span.instrumentation_scope,
        before_scope=ResourceSpans(resource=resource_spans.resource).SerializeToString(),
        before_span=ScopeSpans(scope=scope_spans.scope).SerializeToString(),
        after_span=ScopeSpans(schema_url=scope_spans.schema_url).SerializeToString(),
        after_scope=ResourceSpans(schema_url=resource_spans.schema_url).SerializeToString(),
    )
    _envelopes[:] = [envelope]
    return envelope
