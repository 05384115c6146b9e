"""The answer's attributes, in OpenInference's form (``docs/contract/spans.md#messages``).

Pure builders of attribute pairs. An output message is written under the index that the answer gives
it. The number of choices is limited by :mod:`telemetry.spans.flattening`; ``output.value`` is
whole.

A body with status >= 400 is not an output: it is the exception's message
(``docs/contract/spans.md#output-value``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from openinference.semconv.trace import (
    ChoiceAttributes,
    OpenInferenceMimeTypeValues,
    SpanAttributes,
)

from telemetry.attribute_values import json_text
from telemetry.privacy.hiding import hide_item_tools
from telemetry.privacy.json_strings import REDACTED
from telemetry.spans.flattening import MAX_FLATTENED_CHOICES, MAX_FLATTENED_TEXT_CHOICES
from telemetry.spans.message_attributes import build_message_attributes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.apis.api import Api
    from codec.said import Answer
    from telemetry.attribute_values import AttributePairs
    from telemetry.observing.exchange import Exchange
    from telemetry.privacy.switches import PrivacySwitches
    from telemetry.spans.flattening import Flattening

_JSON: Final[str] = OpenInferenceMimeTypeValues.JSON.value


def build_output_message_attributes(exchange: Exchange, flattening: Flattening) -> AttributePairs:
    """``llm.output_messages.<index>.*``: the messages of the answer."""
    answers = _find_answers(exchange)

    def build(_: int, answer: Answer) -> AttributePairs:
        prefix = f"{SpanAttributes.LLM_OUTPUT_MESSAGES}.{answer.index}"
        return build_message_attributes(
            prefix, answer.message, flattening, calls_are_parts=exchange.api.calls_are_parts
        )

    return flattening.flatten(
        SpanAttributes.LLM_OUTPUT_MESSAGES,
        answers,
        build,
        limit=MAX_FLATTENED_CHOICES,
    )


def _find_answers(exchange: Exchange) -> Sequence[Answer]:
    """Find the messages of the answer; an error has none."""
    if exchange.response is None or (exchange.response_status or 0) >= 400:
        return ()
    return exchange.response.answers


def build_text_choice_attributes(exchange: Exchange, flattening: Flattening) -> AttributePairs:
    """``llm.choices.<choice index>.*`` (``docs/contract/spans.md#legacy-completions``)."""

    def build(_: int, answer: Answer) -> AttributePairs:
        prefix = f"{SpanAttributes.LLM_CHOICES}.{answer.index}"
        text = next((part for part in answer.message.parts if isinstance(part, str)), None)
        yield f"{prefix}.{ChoiceAttributes.COMPLETION_TEXT}", text

    return flattening.flatten(
        SpanAttributes.LLM_CHOICES,
        _find_answers(exchange),
        build,
        limit=MAX_FLATTENED_TEXT_CHOICES,
    )


def build_output_attributes(
    exchange: Exchange, privacy: PrivacySwitches | None = None
) -> AttributePairs:
    """``output.*``: the answer as the client received it, without hidden content of the request.

    Args:
        exchange: the span's.
        privacy: what to hide, ``None`` for nothing; the mask hides the answer's own words.
    """
    response = exchange.response
    api = exchange.api
    repeats_hidden = privacy is not None and privacy.hides_of_request
    repeats_hidden = repeats_hidden and bool(api.quoted_members or api.quoted_lists)
    if exchange.undecoded_body:  # text/plain is the default
        yield SpanAttributes.OUTPUT_VALUE, REDACTED if repeats_hidden else exchange.undecoded_body
    if response is None or (exchange.response_status or 0) >= 400:
        return  # it is the exception's message
    body = response.output(streamed=exchange.streamed)
    if isinstance(body, str):  # text/plain is the default
        yield SpanAttributes.OUTPUT_VALUE, body or None
        return
    if repeats_hidden:
        body = without_quotes(body, api)
    if privacy is not None and privacy.hides_tools and isinstance(body, Mapping):
        body = hide_item_tools(body)
    text = json_text(body) if body or isinstance(body, list) else None
    yield SpanAttributes.OUTPUT_VALUE, text
    yield SpanAttributes.OUTPUT_MIME_TYPE, response.mime_type if text is None else _JSON


def without_quotes(
    body: Mapping[str, Any] | Sequence[Any], api: Api
) -> Mapping[str, Any] | Sequence[Any]:
    """Leave out the parts of an answer's body that repeat its request."""
    if not isinstance(body, Mapping):
        return _without_members(body, api.quoted_item_members) if "" in api.quoted_lists else body
    return {
        name: _without_members(value, api.quoted_item_members)
        if name in api.quoted_lists and isinstance(value, list)
        else value
        for name, value in body.items()
        if name not in api.quoted_members
    }


def _without_members(items: Sequence[Any], names: frozenset[str]) -> list[Any]:
    """Remove these members from items."""
    return [
        {name: value for name, value in item.items() if name not in names}
        if isinstance(item, dict)
        else item
        for item in items
    ]
