"""The answer's side of a span, flattened as OpenInference wants it (``span-contract.md`` 1.2-1.5).

Pure builders of attribute pairs.

Rules:

1. An output message stands under its choice's own index, a tool call under its position.
2. Reasoning makes a message of parts (reasoning, then text) without ``message.content``: the form
   of the specification, and the only one that Phoenix both draws once and replays.
3. A refusal is what the message says: its content, or a part behind it. Elsewhere Phoenix would not
   show it; the metadata tell that it is one.
4. A body with status >= 400 is no output: it is the exception's message (contract 2.1).
5. Choices and calls are as many as :mod:`telemetry.spans.flattening` allows; ``output.value`` is
   whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from openinference.semconv.trace import (
    ChoiceAttributes,
    MessageAttributes,
    OpenInferenceMimeTypeValues,
    SpanAttributes,
)

from codec.completion import whole_object
from telemetry.attribute_values import json_text, non_empty_text
from telemetry.semconv import ContentType
from telemetry.spans.flattening import (
    MAX_FLATTENED_CHOICES,
    MAX_FLATTENED_TEXT_CHOICES,
    MAX_FLATTENED_TOOL_CALLS,
)
from telemetry.spans.message_attributes import (
    build_function_call_attributes,
    build_text_part_attributes,
    build_tool_call_attributes,
)

if TYPE_CHECKING:
    from codec.answer import Choice, Message
    from telemetry.attribute_values import AttributePairs
    from telemetry.observing.exchange import Exchange
    from telemetry.spans.flattening import Flattening

__all__ = (
    "build_output_attributes",
    "build_output_message_attributes",
    "build_text_choice_attributes",
)


def build_output_message_attributes(exchange: Exchange, flattening: Flattening) -> AttributePairs:
    """``llm.output_messages.<choice index>.*``."""
    choices = exchange.response.choices if exchange.response else ()
    if len(choices) == 1 and _is_plain(choices[0]) and flattening.claim(2):
        message = choices[0].message
        return iter(((_ROLE_KEY, message.role), (_CONTENT_KEY, message.content)))

    def flatten(_: int, choice: Choice) -> AttributePairs:
        prefix = f"{SpanAttributes.LLM_OUTPUT_MESSAGES}.{choice.index}"
        return _message(prefix, choice.message, flattening)

    return flattening.take(
        SpanAttributes.LLM_OUTPUT_MESSAGES,
        choices,
        flatten,
        limit=MAX_FLATTENED_CHOICES,
    )


def _is_plain(choice: Choice) -> bool:
    """Whether a choice is most answers' only one: the first, a role and a text."""
    message = choice.message
    if message.reasoning or message.refusal or message.tool_calls:
        return False
    if message.function_call is not None:
        return False
    return choice.index == 0 and bool(message.role and message.content)


_JSON: Final[str] = OpenInferenceMimeTypeValues.JSON.value
_ROLE_KEY: Final = f"{SpanAttributes.LLM_OUTPUT_MESSAGES}.0.{MessageAttributes.MESSAGE_ROLE}"
_CONTENT_KEY: Final = f"{SpanAttributes.LLM_OUTPUT_MESSAGES}.0.{MessageAttributes.MESSAGE_CONTENT}"


def build_text_choice_attributes(exchange: Exchange, flattening: Flattening) -> AttributePairs:
    """``llm.choices.<choice index>.*`` of a legacy completion (contract 1.6)."""

    def flatten(_: int, choice: Choice) -> AttributePairs:
        prefix = f"{SpanAttributes.LLM_CHOICES}.{choice.index}"
        text = non_empty_text(choice.message.content)
        yield f"{prefix}.{ChoiceAttributes.COMPLETION_TEXT}", text

    return flattening.take(
        SpanAttributes.LLM_CHOICES,
        exchange.response.choices if exchange.response else (),
        flatten,
        limit=MAX_FLATTENED_TEXT_CHOICES,
    )


def build_output_attributes(exchange: Exchange) -> AttributePairs:
    """``output.*``: the answer as the client received it."""
    response = exchange.response
    if exchange.undecoded_body:
        yield SpanAttributes.OUTPUT_VALUE, exchange.undecoded_body  # text/plain is the default
    if response is None or (exchange.response_status or 0) >= 400:
        return  # rule 4
    body = dict(response.body)
    if exchange.streamed and isinstance(name := body.get("object"), str):
        body["object"] = whole_object(name)  # it is no chunk any more
    text = json_text(body) if body else None
    if text is not None:
        yield SpanAttributes.OUTPUT_VALUE, text
        yield SpanAttributes.OUTPUT_MIME_TYPE, _JSON


def _message(prefix: str, message: Message, flattening: Flattening) -> AttributePairs:
    yield f"{prefix}.{MessageAttributes.MESSAGE_ROLE}", non_empty_text(message.role)
    parts = (
        (ContentType.REASONING, message.reasoning),
        (ContentType.TEXT, message.content),
        (ContentType.TEXT, message.refusal),
    )
    said = [part for part in parts if part[1]]
    if message.reasoning or len(said) > 1:
        for position, (content_type, text) in enumerate(said):
            part_prefix = f"{prefix}.{MessageAttributes.MESSAGE_CONTENTS}.{position}"
            yield from build_text_part_attributes(part_prefix, content_type, text)
    elif said:
        yield f"{prefix}.{MessageAttributes.MESSAGE_CONTENT}", said[0][1]
    if message.function_call is not None:
        yield from build_function_call_attributes(prefix, message.function_call)
    calls, name = message.tool_calls, MessageAttributes.MESSAGE_TOOL_CALLS
    for position, call in flattening.first(name, calls, MAX_FLATTENED_TOOL_CALLS):
        yield from build_tool_call_attributes(prefix, position, call)
