"""Messages in the form of OpenTelemetry's GenAI conventions, where content is asked for.

``gen_ai.input.messages``, ``gen_ai.output.messages`` and ``gen_ai.tool.definitions`` as JSON texts
(``span-contract.md`` 7.1, "Message schema", and 7.2). Their OpenInference twins are written always;
these only where the standard variable wants them, for there the default is no content.

Rules:

1. A message is ``{role, parts, name?}``, an output message has a ``finish_reason`` besides, one of
   ``stop``, ``length``, ``content_filter``, ``tool_call``, ``error``; another word stays as it is.
2. Parts: text, reasoning, tool_call, tool_call_response, blob, uri, file; what has none of these
   kinds is left out, and is in ``input.value``.
3. Arguments are JSON values where their text is JSON, else the text.
4. A chat's system message is one of its messages and stays there: ``gen_ai.system_instructions``
   is for those that are given apart from the history.
5. Lists are as long as :mod:`telemetry.flattening` allows, the newest messages of a request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from opentelemetry.semconv._incubating.attributes.gen_ai_attributes import (
    GEN_AI_INPUT_MESSAGES,
    GEN_AI_OUTPUT_MESSAGES,
    GEN_AI_TOOL_DEFINITIONS,
)

from codec.endpoint import Endpoint
from codec.jsontext import decode_json
from telemetry.attribute_values import json_text
from telemetry.errors import ConfigurationError
from telemetry.flattening import (
    MAX_FLATTENED_CHOICES,
    MAX_FLATTENED_MESSAGES,
    MAX_FLATTENED_PARTS,
    MAX_FLATTENED_PROMPTS,
    MAX_FLATTENED_TOOL_CALLS,
    MAX_FLATTENED_TOOLS,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codec.answer import Choice, ToolCall
    from codec.request import ChatRequest
    from telemetry.attribute_values import AttributePairs
    from telemetry.exchange import Exchange

__all__ = ("build_genai_content_attributes", "reads_genai_content")

VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

_CAPTURES: Final = {
    "": False,
    "no_content": False,
    "event_only": False,  # no events are emitted
    "span_only": True,
    "span_and_event": True,
    "false": False,  # the variable was a boolean before it had words
    "true": True,
}

_FINISH_REASONS: Final = {"tool_calls": "tool_call", "function_call": "tool_call"}

Part = dict[str, Any]


def reads_genai_content(environ: Mapping[str, str]) -> bool:
    """Whether the environment wants content in these words.

    Raises:
        ConfigurationError: the variable's value is none of those it has.
    """
    value = environ.get(VARIABLE, "")
    if value.lower() not in _CAPTURES:
        raise ConfigurationError(
            f"{VARIABLE} is {value!r}, but only NO_CONTENT, SPAN_ONLY, EVENT_ONLY and"
            " SPAN_AND_EVENT are known"
        )
    return _CAPTURES[value.lower()]


def build_genai_content_attributes(exchange: Exchange) -> AttributePairs:
    """The three of them, each where there is something to say. Embeddings have none."""
    if exchange.endpoint == Endpoint.EMBEDDINGS:
        return
    is_legacy = exchange.endpoint == Endpoint.COMPLETIONS
    if (request := exchange.request) is not None:
        tools = [] if is_legacy else list(request.tools[:MAX_FLATTENED_TOOLS])
        yield GEN_AI_TOOL_DEFINITIONS, _dump(tools)
        inputs = _prompts(request) if is_legacy else _messages(request)
        yield GEN_AI_INPUT_MESSAGES, _dump(list(inputs))
    if exchange.response is not None and (exchange.response_status or 0) < 400:
        choices = exchange.response.choices[:MAX_FLATTENED_CHOICES]
        yield GEN_AI_OUTPUT_MESSAGES, _dump([_output(choice) for choice in choices])


def _dump(values: list[Any]) -> str | None:
    return json_text(values) if values else None


def _prompts(request: ChatRequest) -> Iterator[dict[str, Any]]:
    for prompt in request.prompts[:MAX_FLATTENED_PROMPTS]:
        if isinstance(prompt, str):
            yield {"role": "user", "parts": [_text(prompt)]}


def _messages(request: ChatRequest) -> Iterator[dict[str, Any]]:
    for message in request.messages[-MAX_FLATTENED_MESSAGES:]:
        if isinstance(message, dict):
            yield _input(message)


def _input(message: dict[str, Any]) -> dict[str, Any]:
    role, name = message.get("role"), message.get("name")
    if role in ("tool", "function"):
        answers = message.get("tool_call_id")
        parts = [{"type": "tool_call_response", "id": answers, "response": message.get("content")}]
    else:
        parts = [*_content(message.get("content")), *_calls(message)]
    whole = {"role": role if isinstance(role, str) else "", "parts": parts}
    return whole | ({"name": name} if isinstance(name, str) and name else {})


def _content(content: Any) -> Iterator[Part]:
    if isinstance(content, str) and content:
        yield _text(content)
    elif isinstance(content, list):
        for part in content[:MAX_FLATTENED_PARTS]:
            made = _part(part) if isinstance(part, dict) else None
            if made is not None:
                yield made


def _part(part: dict[str, Any]) -> Part | None:
    match part.get("type"):
        case "text" if isinstance(part.get("text"), str):
            return _text(part["text"])
        case "image_url":
            image = part.get("image_url")
            url = image.get("url") if isinstance(image, dict) else image
            return _located("image", url) if isinstance(url, str) else None
        case "input_audio" if isinstance(part.get("input_audio"), dict):
            audio = part["input_audio"]
            return _blob("audio", f"audio/{audio.get('format')}", audio.get("data"))
        case "file" if isinstance(part.get("file"), dict):
            return _file(part["file"])
        case _:
            return None


def _located(modality: str, url: str) -> Part:
    """By its URL, or by its content where the URL holds that (RFC 2397)."""
    head, comma, data = url.partition(",")
    if url.startswith("data:") and comma:
        return _blob(modality, head.removeprefix("data:").partition(";")[0], data)
    return {"type": "uri", "modality": modality, "uri": url}


def _blob(modality: str, mime_type: str, content: Any) -> Part:
    return {"type": "blob", "modality": modality, "mime_type": mime_type, "content": content}


def _file(file: dict[str, Any]) -> Part:
    data = file.get("file_data")
    if isinstance(data, str):
        return _located("document", data)
    return {"type": "file", "modality": "document", "file_id": file.get("file_id")}


def _calls(message: dict[str, Any]) -> Iterator[Part]:
    calls = message.get("tool_calls")
    for call in calls[:MAX_FLATTENED_TOOL_CALLS] if isinstance(calls, list) else ():
        if isinstance(call, dict) and isinstance(call.get("function"), dict):
            yield _call(call.get("id"), call["function"])
    if isinstance(message.get("function_call"), dict):
        yield _call(None, message["function_call"])


def _call(call_id: Any, function: dict[str, Any]) -> Part:
    call = {"type": "tool_call", "name": function.get("name")}
    arguments = _arguments(function.get("arguments"))
    return call | ({"id": call_id} if call_id else {}) | {"arguments": arguments}


def _arguments(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return decode_json(value)
    except ValueError:
        return value


def _output(choice: Choice) -> dict[str, Any]:
    message = choice.message
    parts: list[Part] = []
    if message.reasoning:
        parts.append({"type": "reasoning", "content": message.reasoning})
    parts += [_text(said) for said in (message.content, message.refusal) if said]
    parts += [_answered(call) for call in message.tool_calls[:MAX_FLATTENED_TOOL_CALLS]]
    if message.function_call is not None:
        parts.append(_answered(message.function_call))
    whole: dict[str, Any] = {"role": message.role or "assistant", "parts": parts}
    if choice.finish_reason is not None:
        reason = choice.finish_reason
        whole["finish_reason"] = _FINISH_REASONS.get(reason, reason)
    return whole


def _answered(call: ToolCall) -> Part:
    return _call(call.id, {"name": call.name, "arguments": call.arguments})


def _text(text: str) -> Part:
    return {"type": "text", "content": text}
