"""Spans by the SDK's own tracer, and bytes by its own exporter: what ours are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from codec._version import __version__
from telemetry.semconv import SCOPE_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, SpanLimits
    from opentelemetry.util.types import AttributeValue

    from telemetry.observing.exchange import Exchange
    from telemetry.span_identity import SpanIdentity

Event = tuple[str, int, "Mapping[str, AttributeValue]"]
"""Name, time and attributes."""


def encode_with_sdk(span: ReadableSpan) -> bytes:
    """The span as a serialised request, by ``opentelemetry-exporter-otlp``."""
    blob: bytes = encode_spans([span]).SerializeToString()
    return blob


def trace_with_sdk(
    exchange: Exchange,
    *,
    resource: Resource,
    limits: SpanLimits,
    name: str,
    attributes: Mapping[str, AttributeValue],
    events: Sequence[Event],
    status: Status,
) -> ReadableSpan:
    """The span that the SDK's tracer makes of these values, with an exchange's ids and times."""
    ended = _LastEndedSpan()
    provider = TracerProvider(
        resource=resource,
        sampler=ALWAYS_ON,
        span_limits=limits,
        id_generator=_GivenIds(exchange.identity),
        shutdown_on_exit=False,
        meter_provider=NoOpMeterProvider(),
    )
    provider.add_span_processor(ended)
    linked = exchange.identity.linked
    span = provider.get_tracer(SCOPE_NAME, __version__).start_span(
        name,
        context=_parent_context(exchange.identity),
        kind=SpanKind.CLIENT,
        attributes=attributes,
        links=() if linked is None else (Link(_remote(*linked, exchange.identity)),),
        start_time=exchange.start_ns,
    )
    for event, at_ns, event_attributes in events:
        span.add_event(event, event_attributes, timestamp=at_ns)
    if status.status_code is not StatusCode.UNSET:
        span.set_status(status)
    span.end(end_time=exchange.end_ns)
    assert ended.span is not None
    return ended.span


def _parent_context(identity: SpanIdentity) -> Context:
    if identity.parent_span_id is None:
        return Context()
    parent = _remote(identity.trace_id, identity.parent_span_id, identity)
    return set_span_in_context(NonRecordingSpan(parent), Context())


def _remote(trace_id: str, span_id: str, identity: SpanIdentity) -> SpanContext:
    return SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(identity.trace_flags),
        trace_state=TraceState.from_header([identity.trace_state]),
    )


class _GivenIds(IdGenerator):
    """Hands out the ids of an identity."""

    def __init__(self, identity: SpanIdentity) -> None:
        self._identity = identity

    def generate_trace_id(self) -> int:
        return int(self._identity.trace_id, 16)

    def generate_span_id(self) -> int:
        return int(self._identity.span_id, 16)


class _LastEndedSpan(SpanProcessor):
    """Keeps the span that ended last."""

    span: ReadableSpan | None = None

    def on_end(self, span: ReadableSpan) -> None:
        self.span = span
