"""All attributes of a span, from its exchange: who answered, over which wire, and the metadata.

The least valuable attributes come first, because a full span evicts its oldest attributes
(``docs/contract/spans.md#attribute-order``): messages and tools, then attributes that Phoenix does
not read, then identity, usage, input and output. Room is given in another order
(:mod:`telemetry.spans.flattening`): to the answer first, then to the tools, then to the messages.

Only values that the contract names are written. The only headers are those in the header map, the
provider's request id and its rate limits (R7).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace
from openinference.semconv.trace import OpenInferenceMimeTypeValues, SpanAttributes

from codec.apis.api import Content, SpanKind
from telemetry.attribute_values import clean_attributes, clean_text
from telemetry.pricing.span_cost import NOTHING_FOUND, FoundCost, build_cost_attributes
from telemetry.privacy.hiding import hide_item_tools
from telemetry.semconv import REQUEST_BODY
from telemetry.spans.flattening import Flattening
from telemetry.spans.genai_messages import build_genai_content_attributes
from telemetry.spans.metadata import MAX_METADATA_BYTES, build_metadata, dump_metadata
from telemetry.spans.otlp.attributes import WrittenAttributes
from telemetry.spans.request_attributes import (
    build_input_attributes,
    build_input_message_attributes,
    build_prompt_attributes,
    build_tool_attributes,
)
from telemetry.spans.response_attributes import (
    build_output_attributes,
    build_output_message_attributes,
    build_text_choice_attributes,
    without_quotes,
)
from telemetry.spans.search_attributes import (
    build_embedding_attributes,
    build_embedding_output_attributes,
    build_query_attributes,
    build_ranking_attributes,
)
from telemetry.spans.size_limits import SizeLimits, fit_attributes, surely_fits, write_within
from telemetry.spans.value_texts import ValueForm, move_bodies
from telemetry.spans.vocabulary import build_concept_attributes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.parts import Message
    from telemetry.attribute_values import AttributePairs
    from telemetry.observing.exchange import Exchange
    from telemetry.privacy.mask import Mask
    from telemetry.privacy.switches import PrivacySwitches
    from telemetry.spans.rules import SpanRules

_JSON: Final[str] = OpenInferenceMimeTypeValues.JSON.value


class SpanContent(NamedTuple):
    """The attributes of a span, and how they were cut.

    Attributes:
        attributes: all of them.
        cut: the attributes that were cut, as in ``metadata.cut``.
        messages: the messages of the request as they were read, including hidden content.
        price: what is known of the cost.
    """

    attributes: WrittenAttributes
    cut: dict[str, int]
    messages: Sequence[Message]
    price: FoundCost = NOTHING_FOUND


def build_span_content(exchange: Exchange, rules: SpanRules, mask: Mask) -> SpanContent:
    """Build the attributes of a span."""
    if not mask.hides_nothing:
        exchange = _hide_parts(exchange, rules.privacy)
    flattening = Flattening()
    outputs, tools, inputs = _build_content(exchange, flattening, rules)
    price = rules.pricing.find(exchange) if rules.pricing is not None else NOTHING_FOUND
    cost = price.cost
    opentelemetry, openinference = build_concept_attributes(exchange)
    pairs = [
        *inputs,
        *tools,
        *outputs,
        *_build_genai_content(exchange, rules),
        *_list_context(exchange),
        (SpanAttributes.TAG_TAGS, exchange.context.tags),
        *opentelemetry,
        *build_cost_attributes(cost),
        # Its text is written at the end, because it says what was cut; its place is here.
        (SpanAttributes.METADATA, "{}"),
        *openinference,
        *build_input_attributes(exchange),
        *_build_large_input(exchange, rules, mask, flattening),
        *_build_output(exchange, rules, mask),
    ]
    sizes, room = _leave_room(rules.sizes.value_bytes, rules.sizes.span_bytes)
    # If nothing is to be hidden or cut, the first text that is written is the span's. Otherwise the
    # values are cleaned, masked, cut, and then written. A body that is too long for a value takes
    # this way at once, so that 20 MB are not written twice.
    if mask.hides_nothing and _is_short(exchange, sizes.value_bytes):
        metadata, cut_bytes = dump_metadata(build_metadata(exchange, flattening.cut, cost), room)
        values = None if cut_bytes else _take_whole(pairs, metadata)
        if values is not None and rules.values is ValueForm.TEXT:
            values = move_bodies(values, exchange, flattening.messages)
        written = None if values is None else _write_whole(values, sizes, mask)
        if written is not None:
            return SpanContent(written, flattening.cut, flattening.messages, price)
    attributes, chars = clean_attributes(pairs)
    # This order, because text that was cut is no longer JSON, and no pattern finds half a secret.
    shown = mask.attributes(attributes, chars)
    if rules.values is ValueForm.TEXT:
        shown = move_bodies(shown, exchange, flattening.messages)
        if REQUEST_BODY in shown and SpanAttributes.INPUT_VALUE in flattening.cut:
            flattening.cut[REQUEST_BODY] = flattening.cut.pop(SpanAttributes.INPUT_VALUE)
    fitting, cut = fit_attributes(shown, sizes, chars if shown is attributes else None)
    cut = {**flattening.cut, **cut}
    metadata, cut_bytes = dump_metadata(build_metadata(exchange, cut, cost), room)
    if cut_bytes:
        cut[SpanAttributes.METADATA] = cut_bytes
    fitting.update(mask.attributes({SpanAttributes.METADATA: clean_text(metadata)}))
    return SpanContent(WrittenAttributes(fitting), cut, flattening.messages, price)


def _list_context(exchange: Exchange) -> AttributePairs:
    """Yield the client's context of the call; nothing about a prompt if no model is called."""
    is_chain = exchange.api.span_kind is SpanKind.CHAIN
    for name, text in exchange.context.attributes.items():
        if not (is_chain and name.startswith("llm.")):
            yield name, text


def _hide_parts(exchange: Exchange, privacy: PrivacySwitches) -> Exchange:
    """Hide content spread over messages: tools in items, and repeated parts of the request."""
    request, response, api = exchange.request, exchange.response, exchange.api
    if privacy.hides_tools and request is not None:
        request = replace(request, body=hide_item_tools(request.body))
    if privacy.hides_of_request and api.quoted_item_members and response is not None:
        response = replace(response, body=without_quotes(response.body, api))
    return replace(exchange, request=request, response=response)


def _is_short(exchange: Exchange, limit_bytes: int) -> bool:
    """Tell whether a request is within a limit, both as it came and with its coding undone."""
    body = exchange.request_body
    if exchange.request_size_bytes > limit_bytes:
        return False
    return exchange.request is None or (body is not None and len(body) <= limit_bytes)


def _take_whole(pairs: Sequence[tuple[str, object]], metadata: str) -> dict[str, Any] | None:
    """Take all attributes that apply, as they came; nothing if a name comes twice.

    Together with the next step this saves a sixth of the time that a plain chat costs telemetry.
    """
    given = [pair for pair in pairs if pair[1] is not None]  # half of them
    values: dict[str, Any] = dict(given)
    if len(values) != len(given):
        return None  # if a name comes twice, the last value that is clean counts
    values[SpanAttributes.METADATA] = metadata
    return values


def _write_whole(values: dict[str, Any], sizes: SizeLimits, mask: Mask) -> WrittenAttributes | None:
    """Write attributes as they came; ``None`` if one may be too long, or have to be masked."""
    written = WrittenAttributes(values)
    if surely_fits(written, sizes) and not mask.may_change(written.whole, written.over):
        return written
    return None


@lru_cache(maxsize=4)
def _leave_room(value_bytes: int, span_bytes: int) -> tuple[SizeLimits, int]:
    """The limits of all attributes except the metadata, and that of the metadata, in bytes."""
    room = min(MAX_METADATA_BYTES, value_bytes, span_bytes // 4)
    return SizeLimits(value_bytes=value_bytes, span_bytes=span_bytes - room), room


def _build_content(
    exchange: Exchange, flattening: Flattening, rules: SpanRules
) -> tuple[AttributePairs, ...]:
    """The lists of the exchange, in the order in which they are given room."""
    match exchange.api.content:
        case Content.TEXTS:
            return (
                build_text_choice_attributes(exchange, flattening),
                iter(()),
                build_prompt_attributes(exchange, flattening),
            )
        case Content.VECTORS:
            return (
                build_embedding_attributes(exchange, flattening, shows_vectors=rules.shows_vectors),
                iter(()),
                iter(()),
            )
        case Content.MESSAGES:
            return (
                build_output_message_attributes(exchange, flattening),
                build_tool_attributes(exchange, flattening),
                build_input_message_attributes(exchange, flattening),
            )
        case Content.RANKING:
            return (
                build_ranking_attributes(exchange, flattening),
                iter(()),
                build_query_attributes(exchange, flattening),
            )
        case Content.BODIES:
            return (iter(()), iter(()), iter(()))


def _build_genai_content(exchange: Exchange, rules: SpanRules) -> AttributePairs:
    if not rules.shows_genai_content:
        return iter(())
    limit = rules.privacy.base64_image_max_length
    return build_genai_content_attributes(exchange, image_max_length=limit)


def _build_large_input(
    exchange: Exchange, rules: SpanRules, mask: Mask, flattening: Flattening
) -> AttributePairs:
    """``input.*`` of a request too large to be kept beside its values: it is written from them."""
    request = exchange.request
    if request is None or exchange.request_body is not None or not exchange.request_size_bytes:
        return
    limit_bytes = rules.sizes.value_bytes
    text, is_json, is_cut = write_within(request.body, limit_bytes, mask.whole_text)
    if is_cut:
        flattening.cut[SpanAttributes.INPUT_VALUE] = exchange.request_size_bytes
    yield SpanAttributes.INPUT_VALUE, text
    yield SpanAttributes.INPUT_MIME_TYPE, _JSON if text is not None and is_json else None


def _build_output(exchange: Exchange, rules: SpanRules, mask: Mask) -> AttributePairs:
    if exchange.api.content is Content.VECTORS:
        return build_embedding_output_attributes(exchange, shows_vectors=rules.shows_vectors)
    if exchange.error_is_providers and rules.privacy.hides_provider_words:
        # An error inside a stream stands in the answer, and may quote the request.
        return iter(())
    return build_output_attributes(exchange, None if mask.hides_nothing else rules.privacy)
