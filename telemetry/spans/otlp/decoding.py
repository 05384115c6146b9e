"""Reads OTLP bytes back, as spans or as JSON.

The bytes are those that :func:`telemetry.spans.otlp.encoding.encode_span` wrote; attribute values
keep their types. protobuf is imported when the first span is decoded, and the SDK is never
imported, because ``spantap traces`` waits for these imports.
"""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from telemetry.semconv import LINK_RELATION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
    )
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

_STATUSES: Final = ("UNSET", "OK", "ERROR")
"""Status codes in the order of their numbers (``opentelemetry/proto/trace/v1/trace.proto``)."""

_IDS: Final = ("traceId", "spanId", "parentSpanId")


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
        relations: the relation of the span to each linked span
            (:data:`telemetry.semconv.LINK_RELATION`); an empty text if the link has none.
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
    relations: tuple[str, ...] = ()


def decode_spans(blob: bytes) -> list[DecodedSpan]:
    """Decode the spans of one serialised request, or of several that were concatenated.

    Raises:
        ValueError: the bytes are not such a request.
    """
    request = _parse(blob)
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


def find_texts(blob: bytes, name: str) -> Iterator[str]:
    """Yield the texts that spans have in the attribute `name`, without decoding the others.

    Raises:
        ValueError: the bytes are not such a request.
    """
    for resource_spans in _parse(blob).resource_spans:
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                for pair in span.attributes:
                    if pair.key == name and pair.value.HasField("string_value"):
                        yield pair.value.string_value


def _parse(blob: bytes) -> ExportTraceServiceRequest:
    from google.protobuf.message import (  # type: ignore[import-untyped] # noqa: PLC0415 - late
        DecodeError,
    )
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415 - late
        ExportTraceServiceRequest,
    )

    request: ExportTraceServiceRequest
    try:
        request = ExportTraceServiceRequest.FromString(blob)
    except DecodeError as error:
        raise ValueError(f"no OTLP trace request: {error}") from error
    return request


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
        status=_name_status(span.status.code),
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
        relations=tuple(_tell_relation(link.attributes) for link in span.links),
        resource=resource,
        scope=scope,
    )


def _tell_relation(pairs: Iterable[KeyValue]) -> str:
    return next((one.value.string_value for one in pairs if one.key == LINK_RELATION), "")


def _name_status(code: int) -> str:
    if not 0 <= code < len(_STATUSES):
        raise ValueError(f"no OTLP trace request: no status has the code {code}")
    return _STATUSES[code]


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


def encode_json_line(blob: bytes) -> str:
    """Encode a serialised ``ExportTraceServiceRequest`` as a line of JSON, without its end.

    OTLP/JSON is protobuf's JSON, with names in lower camel case, except for two things: ids of
    traces and spans are hexadecimal, and enumerations are numbers (OTLP specification 1.10, "JSON
    Protobuf Encoding"). The Collector's ``otlpjsonfile`` receiver reads it, a request a line. A
    line is ASCII, so that no byte of a message can control a terminal.

    Raises:
        ValueError: the bytes are not such a request.
    """
    from google.protobuf.json_format import (  # type: ignore[import-untyped] # noqa: PLC0415 - late
        MessageToDict,
    )
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - late
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415 - late
        ExportTraceServiceRequest,
    )

    try:
        request = ExportTraceServiceRequest.FromString(blob)
    except DecodeError as error:
        raise ValueError(f"no OTLP trace request: {error}") from error
    form: dict[str, Any] = MessageToDict(request, use_integers_for_enums=True)
    for holder in _find_holders(form):
        for name in _IDS:
            if name in holder:
                holder[name] = b64decode(holder[name]).hex()
    return json.dumps(form, separators=(",", ":"))


def _find_holders(form: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Find the objects that have ids: spans and their links."""
    for resource_spans in form.get("resourceSpans", ()):
        for scope_spans in resource_spans.get("scopeSpans", ()):
            for span in scope_spans.get("spans", ()):
                yield span
                yield from span.get("links", ())
