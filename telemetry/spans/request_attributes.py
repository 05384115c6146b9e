"""The request's side of a span, flattened as OpenInference wants it (``span-contract.md`` 1.2-1.3).

Pure builders of attribute pairs. Everything is the client's own, never what the proxy rewrote
(contract section 2).

Rules:

1. What is not of the kind that a key takes is left out here and stays readable in ``input.value``;
   nothing raises, whatever JSON the client sent.
2. A message or part keeps its own position: one that is left out leaves a hole, as with the
   in-process instrumentor.
3. A refusal in the history is content, where there is no other (as in an answer).
4. ``input.value`` is the body's text as it came, not a dump of what was decoded, and whole.
5. Messages, tools, parts and calls are as many as :mod:`telemetry.spans.flattening` allows.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from openinference.semconv.trace import (
    AudioAttributes,
    DocumentAttributes,
    ImageAttributes,
    MessageAttributes,
    MessageContentAttributes,
    OpenInferenceMimeTypeValues,
    PromptAttributes,
    SpanAttributes,
    ToolAttributes,
)

from codec.answer import ToolCall
from codec.apis.api import Content
from codec.jsontext import decode_json
from telemetry.attribute_values import json_text, non_empty_text, strict_json_text
from telemetry.semconv import ContentType
from telemetry.spans.flattening import (
    MAX_FLATTENED_MESSAGES,
    MAX_FLATTENED_PARTS,
    MAX_FLATTENED_PROMPTS,
    MAX_FLATTENED_TOOL_CALLS,
    MAX_FLATTENED_TOOLS,
)
from telemetry.spans.message_attributes import (
    build_function_call_attributes,
    build_text_part_attributes,
    build_tool_call_attributes,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.request import ChatRequest
    from telemetry.attribute_values import AttributePairs
    from telemetry.observing.exchange import Exchange
    from telemetry.spans.flattening import Flattening

__all__ = (
    "build_input_attributes",
    "build_input_message_attributes",
    "build_prompt_attributes",
    "build_tool_attributes",
)


_PLAIN_MESSAGE: Final = {"role", "content"}
_ROLE: Final = MessageAttributes.MESSAGE_ROLE
_CONTENT: Final = MessageAttributes.MESSAGE_CONTENT
_ROLE_AND_CONTENT: Final = itemgetter("role", "content")
_JSON: Final[str] = OpenInferenceMimeTypeValues.JSON.value
_OBJECTS: Final = {dict}
_STRINGS: Final = {str}

MAX_KEYED_MESSAGES: Final = 1024
"""Positions of messages whose keys are ready-made: some 160 KB."""


def build_input_message_attributes(exchange: Exchange, flattening: Flattening) -> AttributePairs:
    """``llm.input_messages.<i>.*``: the conversation as the client sent it."""
    messages = exchange.request.messages if exchange.request else ()
    plain = _plain_messages(messages)
    if plain is not None and flattening.claim(2 * len(messages)):
        return plain

    def flatten(index: int, message: object) -> AttributePairs:
        if not isinstance(message, dict):
            return iter(())
        return _message(f"{SpanAttributes.LLM_INPUT_MESSAGES}.{index}", message, flattening)

    return flattening.take(
        SpanAttributes.LLM_INPUT_MESSAGES,
        messages,
        flatten,
        limit=MAX_FLATTENED_MESSAGES,
        newest=True,
    )


def _plain_messages(messages: Sequence[Any]) -> AttributePairs | None:
    """The attributes of a conversation of plain messages, without a step for each.

    ``None`` where a message is more than a role and a text, or less, or there are too many.
    """
    if not 0 < len(messages) <= min(MAX_KEYED_MESSAGES, MAX_FLATTENED_MESSAGES):
        return None
    if {*map(type, messages)} != _OBJECTS or {*map(len, messages)} != {len(_PLAIN_MESSAGE)}:
        return None
    try:
        roles, contents = zip(*map(_ROLE_AND_CONTENT, messages), strict=True)
    except KeyError:
        return None
    if {*map(type, roles), *map(type, contents)} != _STRINGS or not (all(roles) and all(contents)):
        return None
    role_keys, content_keys = _message_keys(MAX_KEYED_MESSAGES)
    return chain.from_iterable(
        zip(
            # Keys may be more than messages.
            zip(role_keys, roles, strict=False),
            zip(content_keys, contents, strict=False),
            strict=True,
        )
    )


@lru_cache(maxsize=1)
def _message_keys(count: int) -> tuple[Sequence[str], Sequence[str]]:
    """The keys of roles, and those of texts, by the message's position."""
    prefixes = [f"{SpanAttributes.LLM_INPUT_MESSAGES}.{n}" for n in range(count)]
    return [f"{one}.{_ROLE}" for one in prefixes], [f"{one}.{_CONTENT}" for one in prefixes]


def build_prompt_attributes(exchange: Exchange, flattening: Flattening) -> AttributePairs:
    """``llm.prompts.<i>.*`` of a legacy completion; token ids are no text (contract 1.6).

    An empty prompt is one, as with the in-process instrumentor: a model may begin with nothing.
    """

    def flatten(index: int, prompt: object) -> AttributePairs:
        prefix = f"{SpanAttributes.LLM_PROMPTS}.{index}"
        yield f"{prefix}.{PromptAttributes.PROMPT_TEXT}", _text(prompt)

    return flattening.take(
        SpanAttributes.LLM_PROMPTS,
        exchange.request.prompts if exchange.request else (),
        flatten,
        limit=MAX_FLATTENED_PROMPTS,
    )


def build_tool_attributes(exchange: Exchange, flattening: Flattening) -> AttributePairs:
    """``llm.tools.<i>.*``: the tools on offer; name and description title the card in Phoenix."""
    return flattening.take(
        SpanAttributes.LLM_TOOLS,
        exchange.request.tools if exchange.request else (),
        _tool,
        limit=MAX_FLATTENED_TOOLS,
    )


def build_input_attributes(exchange: Exchange) -> AttributePairs:
    """The invocation parameters, and ``input.*``: the body's text as it came."""
    if exchange.request is not None:
        is_embedding = exchange.api.content is Content.VECTORS
        yield _parameters(exchange.request, is_embedding=is_embedding)
    if exchange.request_body is not None:
        yield SpanAttributes.INPUT_VALUE, exchange.request_body.decode("utf-8", "replace")
        # text/plain is the convention's default and is omitted (contract 1.1).
        if exchange.request is not None or _is_json(exchange.request_body):
            yield SpanAttributes.INPUT_MIME_TYPE, _JSON


def _parameters(request: ChatRequest, *, is_embedding: bool) -> tuple[str, str | None]:
    if is_embedding:
        parameters = {key: value for key, value in request.body.items() if key != "input"}
        return SpanAttributes.EMBEDDING_INVOCATION_PARAMETERS, strict_json_text(parameters)
    return SpanAttributes.LLM_INVOCATION_PARAMETERS, strict_json_text(dict(request.parameters))


def _tool(index: int, tool: object) -> AttributePairs:
    prefix = f"{SpanAttributes.LLM_TOOLS}.{index}"
    function = _object(_object(tool).get("function"))
    yield f"{prefix}.{ToolAttributes.TOOL_JSON_SCHEMA}", json_text(tool)
    yield f"{prefix}.{ToolAttributes.TOOL_NAME}", non_empty_text(function.get("name"))
    description = non_empty_text(function.get("description"))
    yield f"{prefix}.{ToolAttributes.TOOL_DESCRIPTION}", description


def _message(prefix: str, message: dict[str, Any], flattening: Flattening) -> AttributePairs:
    if message.keys() == _PLAIN_MESSAGE and type(message["content"]) is str:
        return _plain_message(prefix, message)
    return _any_message(prefix, message, flattening)


def _plain_message(prefix: str, message: dict[str, Any]) -> AttributePairs:
    """Most messages: a role and a text. The same as of any other, without all the looking."""
    role = f"{prefix}.{_ROLE}", non_empty_text(message["role"])
    return iter((role, (f"{prefix}.{_CONTENT}", message["content"] or None)))


def _any_message(prefix: str, message: dict[str, Any], flattening: Flattening) -> AttributePairs:
    yield f"{prefix}.{MessageAttributes.MESSAGE_ROLE}", non_empty_text(message.get("role"))
    tool_call_id = non_empty_text(message.get("tool_call_id"))
    yield f"{prefix}.{MessageAttributes.MESSAGE_TOOL_CALL_ID}", tool_call_id
    yield from _content(prefix, message.get("content") or _text(message.get("refusal")), flattening)
    yield f"{prefix}.{MessageAttributes.MESSAGE_NAME}", non_empty_text(message.get("name"))
    call = message.get("function_call")
    yield from build_function_call_attributes(prefix, _call(None, call))
    calls, name = _list(message.get("tool_calls")), MessageAttributes.MESSAGE_TOOL_CALLS
    for position, tool_call in flattening.first(name, calls, MAX_FLATTENED_TOOL_CALLS):
        entry = _object(tool_call)
        call = _call(_text(entry.get("id")), entry.get("function"))
        yield from build_tool_call_attributes(prefix, position, call)


def _content(prefix: str, content: object, flattening: Flattening) -> AttributePairs:
    if isinstance(content, list) and content:
        if all(isinstance(part, dict) for part in content):
            name = MessageAttributes.MESSAGE_CONTENTS
            for position, part in flattening.first(name, content, MAX_FLATTENED_PARTS):
                yield from _part(f"{prefix}.{name}.{position}", part)
        else:
            yield f"{prefix}.{MessageAttributes.MESSAGE_CONTENT}", json_text(content)
    else:
        yield f"{prefix}.{MessageAttributes.MESSAGE_CONTENT}", non_empty_text(content)


def _part(prefix: str, part: dict[str, Any]) -> AttributePairs:
    type_key = f"{prefix}.{MessageContentAttributes.MESSAGE_CONTENT_TYPE}"
    match part.get("type"):
        case "text":
            text = non_empty_text(part.get("text"))
            yield from build_text_part_attributes(prefix, ContentType.TEXT, text)
        case "refusal":
            text = non_empty_text(part.get("refusal"))
            yield from build_text_part_attributes(prefix, ContentType.TEXT, text)
        case "image_url":
            yield type_key, ContentType.IMAGE
            image = part.get("image_url")  # an object, or just the URL
            url = non_empty_text(image if isinstance(image, str) else _object(image).get("url"))
            prefix = f"{prefix}.{MessageContentAttributes.MESSAGE_CONTENT_IMAGE}"
            yield f"{prefix}.{ImageAttributes.IMAGE_URL}", url
        case "input_audio":
            yield type_key, ContentType.AUDIO
            prefix = f"{prefix}.{MessageContentAttributes.MESSAGE_CONTENT_AUDIO}"
            yield from _audio(prefix, _object(part.get("input_audio")))
        case "file":
            yield type_key, ContentType.DOCUMENT
            prefix = f"{prefix}.{MessageContentAttributes.MESSAGE_CONTENT_DOCUMENT}"
            yield from _document(prefix, _object(part.get("file")))
        case _:
            return  # rule 2: a hole, the part is in input.value


def _audio(prefix: str, audio: dict[str, Any]) -> AttributePairs:
    data = non_empty_text(audio.get("data"))
    audio_format = non_empty_text(audio.get("format"))
    if audio_format is None:
        return  # base64 of nobody knows what has no URL
    mime_type = "audio/mpeg" if audio_format == "mp3" else f"audio/{audio_format}"  # RFC 3003
    if data is not None:
        yield f"{prefix}.{AudioAttributes.AUDIO_URL}", f"data:{mime_type};base64,{data}"
    yield f"{prefix}.{AudioAttributes.AUDIO_MIME_TYPE}", mime_type


def _document(prefix: str, file: dict[str, Any]) -> AttributePairs:
    data = non_empty_text(file.get("file_data"))
    if data is not None and data.startswith(("data:", "https:", "http:")):  # else bare base64
        yield f"{prefix}.{DocumentAttributes.DOCUMENT_URL}", data
        header = data[: data.find(",")].removeprefix("data:") if data.startswith("data:") else ""
        mime_type = non_empty_text(header.partition(";")[0])  # RFC 2397
        yield f"{prefix}.{DocumentAttributes.DOCUMENT_MIME_TYPE}", mime_type
    yield f"{prefix}.{DocumentAttributes.DOCUMENT_NAME}", non_empty_text(file.get("filename"))
    yield f"{prefix}.{DocumentAttributes.DOCUMENT_ID}", non_empty_text(file.get("file_id"))


def _call(call_id: str | None, value: object) -> ToolCall:
    function = _object(value)
    arguments = function.get("arguments")
    if isinstance(arguments, dict):  # as Ollama has it, where OpenAI has the object's text
        arguments = json_text(arguments)
    name = non_empty_text(function.get("name"))
    return ToolCall(id=call_id, name=name, arguments=_text(arguments) or "")


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _is_json(data: bytes) -> bool:
    try:
        decode_json(data)
    except ValueError:
        return False
    return True
