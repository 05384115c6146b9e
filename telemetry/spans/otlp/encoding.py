"""Spans to OTLP bytes and back.

The store holds, per span, one serialised ``ExportTraceServiceRequest`` (``design.md`` section 3).

Rules:

1. Such blobs, concatenated, are again a valid request: protobuf appends repeated fields when it
   meets them once more. Batches are made that way, without decoding anything.
2. What is read back is what was written: attribute values keep their types.
3. A blob's bytes are those that the SDK's exporter makes of the span. What all spans of a process
   share, resource and scope, is written by that very exporter, once; the span itself by
   :mod:`telemetry.spans.otlp.writer`. A span with attributes that cannot be written is the
   exporter's again, which leaves them out; the recorder makes none.
4. The exporter and protobuf are imported where they are first used: they cost a tenth of a second
   and 5 MB, and a port that opens late is worse than a first span that comes late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import StatusCode

from telemetry.spans.otlp.attributes import write_length
from telemetry.spans.otlp.writer import write_span

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

__all__ = ("DecodedEvent", "DecodedSpan", "decode_spans", "encode_span")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedEvent:
    """An event of a span; its time is nanoseconds since the epoch."""

    name: str
    at_ns: int
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedSpan:
    """A span read back from its bytes. Ids are lower-case hexadecimal, times are Unix nanoseconds.

    Attributes:
        parent_span_id: ``None`` for a root.
        status: ``UNSET``, ``OK`` or ``ERROR``.
        status_message: empty unless the status is ``ERROR``.
        links: ``(trace id, span id)`` of each linked span.
        resource: the resource's attributes.
        scope: name and version of the instrumentation scope.
    """

    name: str
    trace_id: str
    span_id: str
    parent_span_id: str | None
    trace_state: str
    start_ns: int
    end_ns: int
    status: str
    status_message: str
    attributes: Mapping[str, Any]
    events: tuple[DecodedEvent, ...]
    links: tuple[tuple[str, str], ...]
    resource: Mapping[str, Any]
    scope: tuple[str, str]


def encode_span(span: ReadableSpan) -> bytes:
    """Encode one span as a serialised ``ExportTraceServiceRequest``."""
    envelope = _open_envelope(span)
    try:
        written = write_span(span)
    except (UnicodeEncodeError, OverflowError, TypeError):
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import (  # noqa: PLC0415 - rule 4
            encode_spans,
        )

        blob: bytes = encode_spans([span]).SerializeToString()
        return blob
    # From the inside out, but put together at once: a span may have megabytes.
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
"""The last one: all spans of a process have one resource and one scope, the very same objects."""


def _open_envelope(span: ReadableSpan) -> _Envelope:
    for envelope in _envelopes:
        if envelope.resource is span.resource and envelope.scope is span.instrumentation_scope:
            return envelope
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import (  # noqa: PLC0415 - rule 4
        encode_spans,
    )
    from opentelemetry.proto.trace.v1.trace_pb2 import (  # noqa: PLC0415 - rule 4
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


def decode_spans(blob: bytes) -> list[DecodedSpan]:
    """The spans of one serialised request, or of several that were concatenated (rule 1).

    Raises:
        ValueError: the bytes are not such a request.
    """
    from google.protobuf.message import (  # type: ignore[import-untyped] # noqa: PLC0415 - rule 4
        DecodeError,
    )
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415 - rule 4
        ExportTraceServiceRequest,
    )

    try:
        request = ExportTraceServiceRequest.FromString(blob)
    except DecodeError as error:
        raise ValueError(f"no OTLP trace request: {error}") from error
    return [
        _decoded_span(
            span,
            resource=_attributes(resource_spans.resource.attributes),
            scope=(scope_spans.scope.name, scope_spans.scope.version),
        )
        for resource_spans in request.resource_spans
        for scope_spans in resource_spans.scope_spans
        for span in scope_spans.spans
    ]


def _decoded_span(
    span: ProtoSpan, *, resource: Mapping[str, Any], scope: tuple[str, str]
) -> DecodedSpan:
    return DecodedSpan(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_span_id=span.parent_span_id.hex() or None,
        trace_state=span.trace_state,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        status=StatusCode(span.status.code).name,
        status_message=span.status.message,
        attributes=_attributes(span.attributes),
        events=tuple(
            DecodedEvent(
                name=event.name,
                at_ns=event.time_unix_nano,
                attributes=_attributes(event.attributes),
            )
            for event in span.events
        ),
        links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        resource=resource,
        scope=scope,
    )


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    return getattr(value, kind)
