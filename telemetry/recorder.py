"""One finished exchange to one finished OpenTelemetry span.

The SDK's own span, limits and resource are used, its clock, sampler and processors are not.

Rules:

1. A span is built once, complete, with the times of the wire: it may be made later and elsewhere
   than the exchange happened (``span-contract.md`` section 1).
2. Ids, parent, link and sampling come from the exchange's identity; nothing is decided here.
3. Status: UNSET where the client went away, ERROR where the exchange has an error type, else OK
   (contract 2.1). An error also makes the ``exception`` event that Phoenix renders.
4. The limit of attributes is raised, unless the user sets one: the SDK's 128 is less than a
   conversation of sixty messages needs.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from opentelemetry.context import Context
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.environment_variables import (
    OTEL_ATTRIBUTE_COUNT_LIMIT,
    OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT,
)
from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.semconv.attributes.exception_attributes import (
    EXCEPTION_ESCAPED,
    EXCEPTION_MESSAGE,
    EXCEPTION_STACKTRACE,
    EXCEPTION_TYPE,
)
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
from codec.endpoint import Endpoint
from telemetry.attribute_values import clean_text
from telemetry.exchange import Outcome
from telemetry.exchange_attributes import build_span_content
from telemetry.semconv import (
    CHAT_COMPLETION_SPAN_NAME,
    COMPLETION_SPAN_NAME,
    EMBEDDING_SPAN_NAME,
    EXCEPTION_EVENT_NAME,
    FIRST_TOKEN_EVENT_NAME,
    GENAI_OPERATIONS,
    SCOPE_NAME,
)
from telemetry.size_limits import cut_text
from telemetry.span_rules import SpanNaming, SpanRules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Span

    from telemetry.exchange import Exchange
    from telemetry.identity import SpanIdentity

__all__ = ("MAX_SPAN_ATTRIBUTES", "SpanRecorder", "build_span_limits")

MAX_SPAN_ATTRIBUTES: Final = 10_000
"""What OpenInference's own tracer provider allows; about 5,000 plain messages."""

MAX_NAME_CHARS: Final = 128
"""Of a model in a span's name: a client writes it, and backends index names."""

_CLIENT_ERROR_NAMES: Final = {
    "400": "BadRequestError",
    "401": "AuthenticationError",
    "403": "PermissionDeniedError",
    "404": "NotFoundError",
    "409": "ConflictError",
    "422": "UnprocessableEntityError",
    "429": "RateLimitError",
    "connection_error": "APIConnectionError",
    "timeout": "APITimeoutError",
}
"""Error types by the names under which OpenAI's clients raise them (openai-python)."""


_SPAN_NAMES: Final[Mapping[str, str]] = {
    Endpoint.COMPLETIONS: COMPLETION_SPAN_NAME,
    Endpoint.EMBEDDINGS: EMBEDDING_SPAN_NAME,
}


class SpanRecorder:
    """Makes spans of exchanges. Not safe for concurrent calls.

    Args:
        resource: on every span, see :func:`telemetry.resource.build_resource`.
        limits: see :func:`build_span_limits`.
        rules: what the settings say about every span.

    Attributes:
        cut_count: spans of which something was cut for its size.
    """

    def __init__(
        self, resource: Resource, limits: SpanLimits, rules: SpanRules | None = None
    ) -> None:
        self._rules = rules or SpanRules()
        self.cut_count = 0
        self._ids = _GivenIds()
        self._ended = _LastEndedSpan()
        provider = TracerProvider(
            resource=resource,
            sampler=ALWAYS_ON,
            span_limits=limits,
            id_generator=self._ids,
            shutdown_on_exit=False,
            # Nobody reads the SDK's metrics of itself, and OTEL_PYTHON_METER_PROVIDER can fail.
            meter_provider=NoOpMeterProvider(),
        )
        provider.add_span_processor(self._ended)
        self._tracer = provider.get_tracer(SCOPE_NAME, __version__)

    def record(self, exchange: Exchange) -> ReadableSpan | None:
        """Make the span of an exchange.

        Returns:
            ``None`` where none is wanted: the exchange was not sampled and no rule keeps it, or
            ``OTEL_SDK_DISABLED`` is set.
        """
        identity = exchange.identity
        if not identity.sampled and exchange.kept_by is None:
            return None
        self._ids.identity = identity
        attributes, cut = build_span_content(exchange, self._rules)
        self.cut_count += bool(cut)
        span = self._tracer.start_span(
            self._rules.mask(exchange).text(clean_text(_span_name(exchange, self._rules.naming))),
            context=_parent_context(identity),
            kind=SpanKind.CLIENT,
            attributes=attributes,
            links=_links(identity),
            start_time=exchange.start_ns,
        )
        if exchange.streamed and exchange.first_chunk_ns is not None:
            span.add_event(FIRST_TOKEN_EVENT_NAME, timestamp=exchange.first_chunk_ns)
        _conclude(span, exchange, self._rules)
        span.end(end_time=exchange.end_ns)
        return self._ended.take()


def build_span_limits() -> SpanLimits:
    """The SDK's limits, by the standard variables, with rule 4's number of attributes.

    Raises:
        ValueError: one of the variables is no number.
    """
    users_own = {OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT, OTEL_ATTRIBUTE_COUNT_LIMIT} & os.environ.keys()
    return SpanLimits() if users_own else SpanLimits(max_span_attributes=MAX_SPAN_ATTRIBUTES)


def _span_name(exchange: Exchange, naming: SpanNaming) -> str:
    if naming is SpanNaming.OPENINFERENCE:
        return _SPAN_NAMES.get(exchange.endpoint, CHAT_COMPLETION_SPAN_NAME)
    operation = GENAI_OPERATIONS.get(exchange.endpoint, exchange.endpoint)
    model = exchange.request.model if exchange.request is not None else None
    return f"{operation} {model[:MAX_NAME_CHARS]}" if model else operation


def _conclude(span: Span, exchange: Exchange, rules: SpanRules) -> None:
    if exchange.outcome is Outcome.CLIENT_DISCONNECTED:
        return  # deliberate cancellation is no error, and no success: UNSET
    if exchange.error_type is None:
        span.set_status(Status(StatusCode.OK))
        return
    name = rules.mask(exchange).text(clean_text(_error_name(exchange.error_type)))
    words, message = _error_words(exchange, rules)
    span.set_status(Status(StatusCode.ERROR, f"{name}: {words}" if words else name))
    span.add_event(
        EXCEPTION_EVENT_NAME,
        {
            EXCEPTION_TYPE: name,
            EXCEPTION_MESSAGE: message,
            EXCEPTION_STACKTRACE: "",  # nothing was raised, but readers expect the key
            EXCEPTION_ESCAPED: "False",  # a string, as the Python SDK writes it
        },
        timestamp=exchange.end_ns,
    )


def _error_words(exchange: Exchange, rules: SpanRules) -> tuple[str, str]:
    """What happened, in short and in full, as far as it may be shown.

    A refused request's whole body is told here, for there is no output (contract 2.1).
    """
    mask, limit = rules.mask(exchange), rules.sizes.value_bytes
    words = clean_text(exchange.error_message or "")
    shown = mask.provider_words(words) if exchange.error_is_providers else mask.text(words)
    if not exchange.error_body:
        return cut_text(shown, limit), cut_text(shown, limit)
    body = mask.provider_words(clean_text(exchange.error_body))
    return cut_text(shown, limit), cut_text(body, limit)


def _error_name(error_type: str) -> str:
    if error_type.isdecimal():
        fallback = "InternalServerError" if error_type >= "500" else "APIStatusError"
        return _CLIENT_ERROR_NAMES.get(error_type, fallback)
    return _CLIENT_ERROR_NAMES.get(error_type, error_type)


def _parent_context(identity: SpanIdentity) -> Context:
    if identity.parent_span_id is None:
        return Context()
    parent = _remote(identity.trace_id, identity.parent_span_id, identity)
    return set_span_in_context(NonRecordingSpan(parent), Context())


def _links(identity: SpanIdentity) -> tuple[Link, ...]:
    return () if identity.linked is None else (Link(_remote(*identity.linked, identity)),)


def _remote(trace_id: str, span_id: str, identity: SpanIdentity) -> SpanContext:
    return SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(identity.trace_flags),
        trace_state=TraceState.from_header([identity.trace_state]),
    )


class _GivenIds(IdGenerator):
    """Hands out the ids of the identity that was set last (rule 2)."""

    identity: SpanIdentity

    def generate_trace_id(self) -> int:
        return int(self.identity.trace_id, 16)

    def generate_span_id(self) -> int:
        return int(self.identity.span_id, 16)


class _LastEndedSpan(SpanProcessor):
    """Keeps the span that ended last until it is taken."""

    _span: ReadableSpan | None = None

    def on_end(self, span: ReadableSpan) -> None:
        self._span = span

    def take(self) -> ReadableSpan | None:
        span, self._span = self._span, None
        return span
