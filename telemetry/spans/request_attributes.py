"""The request's attributes, in OpenInference's form (``docs/contract/spans.md#messages``).

Pure builders of attribute pairs. All values are the client's, never the proxy's rewritten ones
(``docs/contract/spans.md#input-value``). A value is left out here if its key does not take its
kind, and stays readable in ``input.value``; nothing raises, whatever JSON the client sent.

A message keeps its position: an empty message leaves a hole. The number of messages and tools is
limited by :mod:`telemetry.spans.flattening`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from openinference.semconv.trace import (
    MessageAttributes,
    OpenInferenceMimeTypeValues,
    PromptAttributes,
    SpanAttributes,
    ToolAttributes,
)

from codec.apis.api import SpanKind
from codec.text.jsontext import decode_json
from telemetry.attribute_values import json_text, strict_json_text
from telemetry.spans.flattening import (
    MAX_FLATTENED_MESSAGES,
    MAX_FLATTENED_PROMPTS,
    MAX_FLATTENED_TOOLS,
)
from telemetry.spans.message_attributes import build_message_attributes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.asked import Tool
    from codec.parts import Message
    from telemetry.attribute_values import AttributePairs
    from telemetry.observing.exchange import Exchange
    from telemetry.spans.flattening import Flattening

_JSON: Final[str] = OpenInferenceMimeTypeValues.JSON.value

_CALLS_OF_MODELS: Final = frozenset({SpanKind.LLM, SpanKind.EMBEDDING, SpanKind.RERANKER})
"""Kinds of spans with parameters; for others the body is enough."""

MAX_KEYED_MESSAGES: Final = 1024
"""Positions of messages whose keys are made in advance: some 160 KB."""


def build_input_message_attributes(exchange: Exchange, flattening: Flattening) -> AttributePairs:
    """``llm.input_messages.<i>.*``: the conversation as the client sent it."""
    flattening.messages = messages = exchange.read_messages()
    if 0 < len(messages) <= MAX_KEYED_MESSAGES:
        if type(messages) is not list:  # not yet read
            flattening.messages = messages = [*messages]
        plain = _plain_messages(messages)
        if plain is not None and flattening.reserve(2 * len(messages)):
            return plain
    api = exchange.api

    def build(index: int, message: Message) -> AttributePairs:
        prefix = f"{SpanAttributes.LLM_INPUT_MESSAGES}.{index}"
        return build_message_attributes(
            prefix,
            message,
            flattening,
            shows_reasoning=api.shows_past_reasoning,
            calls_are_parts=api.calls_are_parts,
        )

    return flattening.flatten(
        SpanAttributes.LLM_INPUT_MESSAGES,
        messages,
        build,
        limit=MAX_FLATTENED_MESSAGES,
        newest=True,
    )


def _plain_messages(messages: Sequence[Message]) -> AttributePairs | None:
    """Return the attributes of a conversation of plain messages, without a step for each.

    ``None`` if a message is not exactly a role and a text. This saves 0.8 of the 2.9 µs that a
    message costs telemetry: a tenth of a chat with 40 messages.
    """
    pairs: list[tuple[str, object]] = []
    for (role_key, content_key), message in zip(_message_keys(), messages, strict=False):
        role, content = message.role, message.content
        if type(content) is not str or role is None or not content or message.name is not None:
            return None
        pairs += ((role_key, role), (content_key, content))
    return iter(pairs)


@lru_cache(maxsize=1)
def _message_keys() -> Sequence[tuple[str, str]]:
    """The keys of role and text by the message's position."""
    prefixes = [f"{SpanAttributes.LLM_INPUT_MESSAGES}.{n}" for n in range(MAX_KEYED_MESSAGES)]
    role, content = MessageAttributes.MESSAGE_ROLE, MessageAttributes.MESSAGE_CONTENT
    return [(f"{one}.{role}", f"{one}.{content}") for one in prefixes]


def build_prompt_attributes(exchange: Exchange, flattening: Flattening) -> AttributePairs:
    """``llm.prompts.<i>.*``, without token ids (``docs/contract/spans.md#legacy-completions``).

    An empty prompt counts, as with the in-process instrumentor: a model may begin with nothing.
    """

    def build(index: int, prompt: object) -> AttributePairs:
        prefix = f"{SpanAttributes.LLM_PROMPTS}.{index}"
        text = prompt if isinstance(prompt, str) else None
        yield f"{prefix}.{PromptAttributes.PROMPT_TEXT}", text

    return flattening.flatten(
        SpanAttributes.LLM_PROMPTS,
        exchange.request.read_texts() if exchange.request is not None else (),
        build,
        limit=MAX_FLATTENED_PROMPTS,
    )


def build_tool_attributes(exchange: Exchange, flattening: Flattening) -> AttributePairs:
    """``llm.tools.<i>.*``: the tools on offer; name and description title the card in Phoenix."""
    return flattening.flatten(
        SpanAttributes.LLM_TOOLS,
        find_tools(exchange),
        _tool,
        limit=MAX_FLATTENED_TOOLS,
    )


def find_tools(exchange: Exchange) -> Sequence[Tool]:
    """Find the tools on offer: those of the request, else those that the answer names."""
    tools = exchange.request.read_tools() if exchange.request is not None else ()
    return tools or (exchange.response.read_tools() if exchange.response is not None else ())


def build_input_attributes(exchange: Exchange) -> AttributePairs:
    """The invocation parameters, and ``input.*``: the body's whole text as it came."""
    if exchange.request is not None and exchange.api.span_kind in _CALLS_OF_MODELS:
        key = SpanAttributes.LLM_INVOCATION_PARAMETERS
        if exchange.api.span_kind is SpanKind.EMBEDDING:
            key = SpanAttributes.EMBEDDING_INVOCATION_PARAMETERS
        yield key, strict_json_text(dict(exchange.request.parameters))
    if exchange.request_body is not None:
        yield SpanAttributes.INPUT_VALUE, exchange.request_body.decode("utf-8", "replace")
        # text/plain is the default and is omitted (``docs/contract/spans.md#mime-type``).
        if exchange.request is not None or _is_json(exchange.request_body):
            yield SpanAttributes.INPUT_MIME_TYPE, _JSON


def _tool(index: int, tool: Tool) -> AttributePairs:
    prefix = f"{SpanAttributes.LLM_TOOLS}.{index}"
    yield f"{prefix}.{ToolAttributes.TOOL_JSON_SCHEMA}", json_text(tool.value)
    yield f"{prefix}.{ToolAttributes.TOOL_NAME}", tool.title
    yield f"{prefix}.{ToolAttributes.TOOL_DESCRIPTION}", tool.description


def _is_json(data: bytes) -> bool:
    try:
        decode_json(data)
    except ValueError:
        return False
    return True
