"""All attributes of a span, from its exchange: who answered, over which wire, and the metadata.

Rules:

1. The order is the order of worth, least first, because a full span evicts its oldest attributes
   (``span-contract.md`` section 1, "attribute limit"): messages and tools, then identity, usage,
   input and output. Room is given in the other order (:mod:`telemetry.flattening`): an answer
   comes before the tools, and these before the messages.
2. Only values named in the contract are written; of the headers those that the header map names,
   the provider's request id and its rate limits (R7).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from openinference.semconv.trace import (
    OpenInferenceLLMSystemValues,
    OpenInferenceSpanKindValues,
    SpanAttributes,
)
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE
from opentelemetry.semconv.attributes.http_attributes import (
    HTTP_REQUEST_RESEND_COUNT,
    HTTP_RESPONSE_STATUS_CODE,
)
from opentelemetry.semconv.attributes.server_attributes import SERVER_ADDRESS, SERVER_PORT

from codec.endpoint import Endpoint
from telemetry.attribute_values import clean_attributes, clean_text
from telemetry.flattening import Flattening
from telemetry.metadata import build_metadata, dump_metadata
from telemetry.provider import infer_provider
from telemetry.request_attributes import (
    build_input_attributes,
    build_input_message_attributes,
    build_prompt_attributes,
    build_tool_attributes,
)
from telemetry.response_attributes import (
    build_output_attributes,
    build_output_message_attributes,
    build_text_choice_attributes,
    build_usage_attributes,
)
from telemetry.size_limits import SizeLimits, fit_attributes

if TYPE_CHECKING:
    from telemetry.attribute_values import AttributePairs, AttributeValue
    from telemetry.exchange import ClientContext, Exchange
    from telemetry.span_rules import SpanRules

__all__ = (
    "build_exchange_attributes",
    "build_identity_attributes",
    "build_wire_attributes",
)


def build_exchange_attributes(
    exchange: Exchange, rules: SpanRules | None = None
) -> dict[str, AttributeValue]:
    """Everything that the span of an exchange says, in the order of rule 1, safe to encode."""
    flattening = Flattening()
    if exchange.endpoint == Endpoint.COMPLETIONS:
        outputs = tuple(build_text_choice_attributes(exchange, flattening))
        tools: tuple[tuple[str, object], ...] = ()
        inputs = tuple(build_prompt_attributes(exchange, flattening))
    else:
        outputs = tuple(build_output_message_attributes(exchange, flattening))
        tools = tuple(build_tool_attributes(exchange, flattening))
        inputs = tuple(build_input_message_attributes(exchange, flattening))
    attributes = clean_attributes(
        chain(
            inputs,
            tools,
            outputs,
            build_context_attributes(exchange.context),
            # Its text comes last, because it says what was cut; its place is kept.
            [(SpanAttributes.METADATA, "{}")],
            build_identity_attributes(exchange),
            build_wire_attributes(exchange),
            build_usage_attributes(exchange),
            build_input_attributes(exchange),
            build_output_attributes(exchange),
        )
    )
    sizes = rules.sizes if rules is not None else SizeLimits()
    fitting, cut = fit_attributes(attributes, sizes)
    metadata = dump_metadata(build_metadata(exchange, {**flattening.cut, **cut}))
    return {**fitting, SpanAttributes.METADATA: clean_text(metadata or "{}")}


def build_context_attributes(context: ClientContext) -> AttributePairs:
    """What the client says of the call (contract 1.1)."""
    yield from context.attributes.items()
    yield SpanAttributes.TAG_TAGS, context.tags
    yield SpanAttributes.USER_ID, context.user_id
    yield SpanAttributes.SESSION_ID, context.session_id


def build_identity_attributes(exchange: Exchange) -> AttributePairs:
    """Kind, system, provider and models (contract 1.1)."""
    asked = exchange.request.model if exchange.request else None
    answered = exchange.response.model if exchange.response else None
    provider = exchange.provider or infer_provider(exchange.server_address)
    yield SpanAttributes.OPENINFERENCE_SPAN_KIND, OpenInferenceSpanKindValues.LLM.value
    yield SpanAttributes.LLM_SYSTEM, OpenInferenceLLMSystemValues.OPENAI.value
    yield SpanAttributes.LLM_PROVIDER, provider
    if asked and answered and asked != answered:
        yield SpanAttributes.LLM_REQUEST_MODEL_NAME, asked
        yield SpanAttributes.LLM_RESPONSE_MODEL_NAME, answered
    yield SpanAttributes.LLM_MODEL_NAME, answered or asked


def build_wire_attributes(exchange: Exchange) -> AttributePairs:
    """The HTTP keys (contract 7.4) and ``error.type`` (2.1)."""
    yield SERVER_ADDRESS, exchange.server_address
    yield SERVER_PORT, exchange.server_port
    yield HTTP_RESPONSE_STATUS_CODE, exchange.response_status
    yield HTTP_REQUEST_RESEND_COUNT, exchange.resend_count or None
    yield ERROR_TYPE, exchange.error_type
