"""Makes one finished OpenTelemetry span of one finished exchange.

The SDK's values, limits and resource are used, but not its tracer, which spends most of its time on
things that are already decided: sampling, processors, clocks and locks. The span equals the one
that the SDK's tracer would make of the same values under the same limits: if one of these may take
effect, the SDK's own bounded collections apply it and count.

A span is built once, complete, with the times of the wire: it may be made later and elsewhere than
the exchange happened (``docs/contract/spans.md#span-times``). Ids, parent, link and sampling come
from the exchange's identity; they are not decided here. A retry also links to the attempt before
(:class:`telemetry.observing.exchange.Exchange`).
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.environment_variables import (
    OTEL_ATTRIBUTE_COUNT_LIMIT,
    OTEL_SDK_DISABLED,
    OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT,
)
from opentelemetry.sdk.trace import Event, SpanLimits
from opentelemetry.sdk.util import BoundedList
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.semconv.attributes.exception_attributes import (
    EXCEPTION_ESCAPED,
    EXCEPTION_MESSAGE,
    EXCEPTION_STACKTRACE,
    EXCEPTION_TYPE,
)
from opentelemetry.trace import (
    Link,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
)

from codec._version import __version__
from telemetry.attribute_values import clean_attributes, clean_text
from telemetry.observing.exchange import Outcome
from telemetry.semconv import (
    EXCEPTION_EVENT_NAME,
    FIRST_TOKEN_EVENT_NAME,
    LINK_RELATION,
    SCOPE_NAME,
)
from telemetry.spans.exchange_attributes import build_span_content
from telemetry.spans.otlp.attributes import WrittenAttributes
from telemetry.spans.otlp.writer import FinishedSpan
from telemetry.spans.rules import SpanNaming, SpanRules
from telemetry.spans.size_limits import cut_text, fit_attributes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opentelemetry.sdk.resources import Resource
    from opentelemetry.util.types import Attributes

    from telemetry.observing.exchange import Exchange
    from telemetry.privacy.mask import Mask
    from telemetry.span_identity import SpanIdentity

MAX_SPAN_ATTRIBUTES: Final = 10_000
"""The most that OpenInference's own tracer provider allows; about 5,000 plain messages. The SDK's
128 is less than a conversation of sixty messages needs. The user may set another limit."""

MAX_NAME_CHARS: Final = 128
"""Longest model in a span's name: a client writes it, and backends index names."""

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


_Event = tuple[str, dict[str, str], int]
"""Name, attributes and time in nanoseconds."""

_NO_ATTRIBUTES: Final = BoundedAttributes()
"""An event's attributes, which cannot be changed."""

_UNSET: Final = Status(StatusCode.UNSET)
_OK: Final = Status(StatusCode.OK)


class DerivedSpan(NamedTuple):
    """A span that is not a call's (``docs/contract/conversations.md#spans``).

    Attributes:
        attributes: its attributes, after hiding and masking.
        parent_span_id: a span of ours in the same trace, ``None`` for a root.
    """

    name: str
    trace_id: str
    span_id: str
    parent_span_id: str | None
    start_ns: int
    end_ns: int
    attributes: Mapping[str, object]
    status: Status = _UNSET


class SpanRecorder:
    """Makes spans of exchanges. Not safe for concurrent calls.

    Args:
        resource: on every span, see :func:`telemetry.pipeline.build_resource`.
        limits: see :func:`build_span_limits`.
        rules: the settings for every span.

    Attributes:
        cut_count: spans in which something was cut because of its size.
    """

    def __init__(
        self, resource: Resource, limits: SpanLimits, rules: SpanRules | None = None
    ) -> None:
        self._rules = rules or SpanRules()
        self.cut_count = 0
        self._resource = resource
        self._limits = limits
        self._scope = InstrumentationScope(SCOPE_NAME, __version__)
        # Read once, and as the SDK reads it.
        self._disabled = os.environ.get(OTEL_SDK_DISABLED, "").lower().strip() == "true"

    @property
    def is_disabled(self) -> bool:
        """Whether no span is wanted (``OTEL_SDK_DISABLED``)."""
        return self._disabled

    def record(self, exchange: Exchange) -> FinishedSpan | None:
        """Make the span of an exchange.

        Returns:
            ``None`` if none is wanted: the exchange was not sampled and no rule keeps it, or
            ``OTEL_SDK_DISABLED`` is set.
        """
        identity = exchange.identity
        if self._disabled or not (identity.sampled or exchange.kept_by is not None):
            return None
        mask = self._rules.mask(exchange)
        content = build_span_content(exchange, self._rules, mask)
        self.cut_count += bool(content.cut)
        parent = _parent(exchange)
        status, events = _conclude(exchange, mask, self._rules.sizes.value_bytes)
        span = FinishedSpan(
            name=mask.text(clean_text(_span_name(exchange, self._rules.naming))),
            context=_own_context(identity, parent),
            parent=parent,
            kind=SpanKind.CLIENT,
            resource=self._resource,
            instrumentation_scope=self._scope,
            attributes=self._limit_attributes(content.attributes),
            events=self._limit_events([*_first_token(exchange), *events]),
            links=self._limit_links(exchange),
            status=status,
            start_time=exchange.start_ns,
            end_time=exchange.end_ns,
        )
        span.mask, span.messages, span.price = mask, content.messages, content.price
        return span

    def derive(self, derived: DerivedSpan) -> FinishedSpan:
        """Make a span that was derived from calls."""
        parent = None
        if derived.parent_span_id is not None:
            parent = _own_other(derived.trace_id, derived.parent_span_id)
        attributes, _ = clean_attributes(derived.attributes.items())
        fitting, cut = fit_attributes(attributes, self._rules.sizes)
        self.cut_count += bool(cut)
        return FinishedSpan(
            name=clean_text(derived.name),
            context=_own_other(derived.trace_id, derived.span_id),
            parent=parent,
            kind=SpanKind.INTERNAL,
            resource=self._resource,
            instrumentation_scope=self._scope,
            attributes=self._limit_attributes(WrittenAttributes({**fitting})),
            events=(),
            links=(),
            status=derived.status,
            start_time=derived.start_ns,
            end_time=derived.end_ns,
        )

    def _limit_attributes(self, attributes: WrittenAttributes) -> Attributes:
        """Return the attributes within the limits."""
        most, longest = self._limits.max_span_attributes, self._limits.max_span_attribute_length
        if (most is None or len(attributes) <= most) and longest is None:
            return attributes
        return BoundedAttributes(most, attributes, max_value_len=longest)

    def _limit_events(self, events: Sequence[_Event]) -> Sequence[Event]:
        if not events:
            return ()
        most, longest = self._limits.max_event_attributes, self._limits.max_attribute_length
        made = [
            Event(
                name,
                BoundedAttributes(most, attributes, max_value_len=longest)
                if attributes
                else _NO_ATTRIBUTES,
                at_ns,
            )
            for name, attributes, at_ns in events
        ]
        most_events = self._limits.max_events
        if most_events is None or len(made) <= most_events:
            return made
        return BoundedList.from_seq(most_events, made)

    def _limit_links(self, exchange: Exchange) -> Sequence[Link]:
        identity, position = exchange.identity, exchange.position
        before = None if position is None else position.before
        sent = None if position is None else position.sent_context
        caller = identity.linked or exchange.traced_by
        if caller is exchange.attempt_before is before is sent is None:
            return ()
        links = []
        if caller is not None:
            links.append(Link(_remote(*caller, identity), _NO_ATTRIBUTES))
        if exchange.attempt_before not in {None, before}:
            links.append(Link(_own_other(*exchange.attempt_before), _NO_ATTRIBUTES))
        if position is not None and before is not None:
            links.append(Link(_own_other(*before), _relation(position.relation or "")))
        if sent is not None:  # the ids that the upstream received (C13)
            links.append(Link(_own_other(*sent), _relation("sent_context")))
        return BoundedList.from_seq(self._limits.max_links, links)


@cache
def _relation(word: str) -> BoundedAttributes:
    """Make the attributes of a link: half a dozen words."""
    return BoundedAttributes(attributes={LINK_RELATION: word})


def build_span_limits() -> SpanLimits:
    """Build the SDK's limits from the standard variables, with :data:`MAX_SPAN_ATTRIBUTES`.

    Raises:
        ValueError: one of the variables is not a number.
    """
    users_own = {OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT, OTEL_ATTRIBUTE_COUNT_LIMIT} & os.environ.keys()
    return SpanLimits() if users_own else SpanLimits(max_span_attributes=MAX_SPAN_ATTRIBUTES)


def _span_name(exchange: Exchange, naming: SpanNaming) -> str:
    api = exchange.api
    if naming is SpanNaming.OPENINFERENCE:
        return api.span_name
    model = exchange.request.model if exchange.request is not None else None
    operation = api.operation or exchange.endpoint
    return f"{operation} {model[:MAX_NAME_CHARS]}" if model else operation


def _first_token(exchange: Exchange) -> Sequence[_Event]:
    if not exchange.streamed or exchange.first_chunk_ns is None:
        return ()
    return ((FIRST_TOKEN_EVENT_NAME, {}, exchange.first_chunk_ns),)


def _conclude(exchange: Exchange, mask: Mask, limit_bytes: int) -> tuple[Status, Sequence[_Event]]:
    """Find how the exchange ended: the status, and the event of an error.

    The status is UNSET if the client went away, ERROR if the exchange has an error type, else OK
    (``docs/contract/spans.md#endings``). An error also has the ``exception`` event that Phoenix
    shows.
    """
    if exchange.outcome in {Outcome.CLIENT_DISCONNECTED, Outcome.CANCELLED}:
        return _UNSET, ()  # a deliberate cancellation is neither an error nor a success
    if exchange.error_type is None:
        return _OK, ()
    name = mask.text(clean_text(_error_name(exchange.error_type)))
    words, message = _error_words(exchange, mask, limit_bytes)
    attributes = {
        EXCEPTION_TYPE: name,
        EXCEPTION_MESSAGE: message,
        EXCEPTION_STACKTRACE: "",  # nothing was raised, but readers expect the key
        EXCEPTION_ESCAPED: "False",  # a string, as the Python SDK writes it
    }
    status = Status(StatusCode.ERROR, f"{name}: {words}" if words else name)
    return status, ((EXCEPTION_EVENT_NAME, attributes, exchange.end_ns),)


def _error_words(exchange: Exchange, mask: Mask, limit_bytes: int) -> tuple[str, str]:
    """Return the error in short and in full, as far as it may be shown.

    The whole body of a refusal is given here, because there is no output
    (``docs/contract/spans.md#output-value``).
    """
    words = clean_text(exchange.error_message or "")
    shown = mask.provider_words(words) if exchange.error_is_providers else mask.text(words)
    short = cut_text(shown, limit_bytes)
    if not exchange.error_body:
        return short, short
    return short, cut_text(mask.provider_words(clean_text(exchange.error_body)), limit_bytes)


def _error_name(error_type: str) -> str:
    if error_type.isdecimal():
        fallback = "InternalServerError" if error_type >= "500" else "APIStatusError"
        return _CLIENT_ERROR_NAMES.get(error_type, fallback)
    return _CLIENT_ERROR_NAMES.get(error_type, error_type)


def _parent(exchange: Exchange) -> SpanContext | None:
    identity, position = exchange.identity, exchange.position
    if identity.parent_span_id is None:
        return None
    if position is not None and position.parent is not None:
        return _own_other(identity.trace_id, identity.parent_span_id)
    return _remote(identity.trace_id, identity.parent_span_id, identity)


def _own_context(identity: SpanIdentity, parent: SpanContext | None) -> SpanContext:
    return SpanContext(
        int(identity.trace_id, 16),
        int(identity.span_id, 16),
        is_remote=False,
        trace_flags=TraceFlags(identity.trace_flags | TraceFlags.SAMPLED),
        trace_state=parent.trace_state if parent is not None else None,
    )


def _own_other(trace_id: str, span_id: str) -> SpanContext:
    """The context of another span that was recorded here."""
    flags = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=flags)


def _remote(trace_id: str, span_id: str, identity: SpanIdentity) -> SpanContext:
    return SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(identity.trace_flags),
        trace_state=TraceState.from_header([identity.trace_state]),
    )
