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
from telemetry.embedding_attributes import (
    build_embedding_attributes,
    build_embedding_output_attributes,
)
from telemetry.flattening import Flattening
from telemetry.metadata import build_metadata, dump_metadata
from telemetry.pricing.span_cost import build_cost_attributes
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
from telemetry.size_limits import fit_attributes
from telemetry.span_rules import SpanRules

if TYPE_CHECKING:
    from telemetry.attribute_values import AttributePairs, AttributeValue
    from telemetry.exchange import ClientContext, Exchange

__all__ = (
    "build_exchange_attributes",
    "build_identity_attributes",
    "build_wire_attributes",
)


def build_exchange_attributes(
    exchange: Exchange, rules: SpanRules | None = None
) -> dict[str, AttributeValue]:
    """Everything that the span of an exchange says, in the order of rule 1, safe to encode."""
    rules = rules or SpanRules()
    flattening = Flattening()
    outputs, tools, inputs = _build_content(exchange, flattening, rules)
    cost = rules.pricing.price(exchange) if rules.pricing is not None else None
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
            build_cost_attributes(cost),
            build_usage_attributes(exchange),
            build_input_attributes(exchange),
            _build_output(exchange, rules),
        )
    )
    mask = rules.mask(exchange)
    # What was cut is no JSON any more, and half a secret is found by no pattern: hence this order.
    fitting, cut = fit_attributes(mask.attributes(attributes), rules.sizes)
    source = cost.source.value if cost is not None else None
    metadata = dump_metadata(build_metadata(exchange, {**flattening.cut, **cut}, source))
    return {**fitting, **mask.attributes({SpanAttributes.METADATA: clean_text(metadata or "{}")})}


def _build_content(
    exchange: Exchange, flattening: Flattening, rules: SpanRules
) -> tuple[list[tuple[str, object]], ...]:
    """The lists of the exchange, in the order in which they are given room."""
    match exchange.endpoint:
        case Endpoint.COMPLETIONS:
            lists: tuple[AttributePairs, ...] = (
                build_text_choice_attributes(exchange, flattening),
                iter(()),
                build_prompt_attributes(exchange, flattening),
            )
        case Endpoint.EMBEDDINGS:
            lists = (
                build_embedding_attributes(exchange, flattening, shows_vectors=rules.shows_vectors),
                iter(()),
                iter(()),
            )
        case _:
            lists = (
                build_output_message_attributes(exchange, flattening),
                build_tool_attributes(exchange, flattening),
                build_input_message_attributes(exchange, flattening),
            )
    return tuple(list(pairs) for pairs in lists)


def _build_output(exchange: Exchange, rules: SpanRules) -> AttributePairs:
    if exchange.endpoint == Endpoint.EMBEDDINGS:
        return build_embedding_output_attributes(exchange, shows_vectors=rules.shows_vectors)
    pairs = build_output_attributes(exchange)
    if exchange.error_is_providers and rules.privacy.hides_provider_words:
        # An error inside a stream stands in the answer, and may quote the request.
        return (pair for pair in pairs if pair[0] == SpanAttributes.LLM_FINISH_REASON)
    return pairs


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
    is_embedding = exchange.endpoint == Endpoint.EMBEDDINGS
    kinds = OpenInferenceSpanKindValues
    kind = kinds.EMBEDDING if is_embedding else kinds.LLM
    yield SpanAttributes.OPENINFERENCE_SPAN_KIND, kind.value
    yield SpanAttributes.LLM_SYSTEM, OpenInferenceLLMSystemValues.OPENAI.value
    yield SpanAttributes.LLM_PROVIDER, provider
    if is_embedding:
        yield SpanAttributes.EMBEDDING_MODEL_NAME, answered or asked
        return
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
