"""Messages in the form of OpenTelemetry's GenAI conventions, if content is asked for.

``gen_ai.input.messages``, ``gen_ai.output.messages`` and ``gen_ai.tool.definitions`` as JSON texts
(``docs/contract/spans.md#genai-messages``). Their OpenInference twins are always written. These are
written only if the standard variable asks for them, because its default is to record no content.

A message is ``{role, parts, name?}``; :mod:`telemetry.spans.genai_parts` makes the parts. A message
without a role is left out, and so is one that no JSON can hold; the others stay. An output message
also has a ``finish_reason`` in the schema's words (:class:`codec.said.Stop`). A word with another
meaning stays as it is. Without one it is ``error`` if the exchange failed, and otherwise absent
(R6).

A chat's system message is one of its messages and stays there: ``gen_ai.system_instructions`` is
for instructions that are given apart from the history
(:attr:`codec.asked.Asked.instruction_count`). A tool is ``{type, name, description?,
parameters?}``: members that OpenAI puts under the type's name are one level higher here.

Lists are as long as :mod:`telemetry.spans.flattening` allows: the newest messages, with
:data:`MAX_FLATTENED_ATTRIBUTES` parts in all. Those of OpenInference are not cut later, and
``metadata.cut`` covers both.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.semconv._incubating.attributes.gen_ai_attributes import (
    GEN_AI_INPUT_MESSAGES,
    GEN_AI_OUTPUT_MESSAGES,
    GEN_AI_SYSTEM_INSTRUCTIONS,
    GEN_AI_TOOL_DEFINITIONS,
)

from codec.apis.api import Content
from codec.parts import ToolCall
from telemetry.attribute_values import json_text
from telemetry.errors import ConfigurationError
from telemetry.spans.flattening import (
    MAX_FLATTENED_ATTRIBUTES,
    MAX_FLATTENED_CHOICES,
    MAX_FLATTENED_MESSAGES,
    MAX_FLATTENED_PARTS,
    MAX_FLATTENED_PROMPTS,
    MAX_FLATTENED_TEXT_CHOICES,
    MAX_FLATTENED_TOOL_CALLS,
    MAX_FLATTENED_TOOLS,
)
from telemetry.spans.genai_parts import build_parts, build_text_part
from telemetry.spans.request_attributes import find_tools

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from codec.asked import Tool
    from codec.parts import Message, Part
    from codec.said import Answer
    from codec.text.jsontext import JsonObject
    from telemetry.attribute_values import AttributePairs
    from telemetry.observing.exchange import Exchange

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


def reads_genai_content(environ: Mapping[str, str]) -> bool:
    """Tell whether the environment wants content in these words.

    Raises:
        ConfigurationError: the variable has another value.
    """
    value = environ.get(VARIABLE, "")
    if value.lower() not in _CAPTURES:
        raise ConfigurationError(
            f"{VARIABLE} is {value!r}, but only NO_CONTENT, SPAN_ONLY, EVENT_ONLY and"
            " SPAN_AND_EVENT are known"
        )
    return _CAPTURES[value.lower()]


def build_genai_content_attributes(exchange: Exchange, *, image_max_length: int) -> AttributePairs:
    """Build the attributes of messages, instructions and tools, except for empty ones.

    Only calls of APIs of messages and texts have any. Images in longer ``data:`` URLs are hidden
    (:attr:`telemetry.privacy.switches.PrivacySwitches.base64_image_max_length`).
    """
    content = exchange.api.content
    if content not in {Content.MESSAGES, Content.TEXTS}:
        return
    is_legacy = content is Content.TEXTS
    if (request := exchange.request) is not None and is_legacy:
        prompts = islice(request.read_texts(), MAX_FLATTENED_PROMPTS)
        yield GEN_AI_INPUT_MESSAGES, _dump(map(_prompt, prompts))
    elif request is not None:
        tools = islice(find_tools(exchange), MAX_FLATTENED_TOOLS)
        yield GEN_AI_TOOL_DEFINITIONS, _dump(map(_tool, tools))
        messages, apart = exchange.read_messages(), request.instruction_count
        for instructions in messages[:apart]:
            parts = _parts(instructions, image_max_length)
            yield GEN_AI_SYSTEM_INSTRUCTIONS, _dump(parts)
        yield GEN_AI_INPUT_MESSAGES, _dump(_newest(messages[apart:], image_max_length))
    if exchange.response is not None and (exchange.response_status or 0) < 400:
        limit = MAX_FLATTENED_TEXT_CHOICES if is_legacy else MAX_FLATTENED_CHOICES
        failed = exchange.error_type is not None
        answers = exchange.response.choices_of_answers[:limit]
        outputs = (_output(answer, image_max_length, failed=failed) for answer in answers)
        yield GEN_AI_OUTPUT_MESSAGES, _dump(outputs)


def _dump(entries: Iterable[JsonObject | None]) -> str | None:
    texts = (json_text(entry) for entry in entries if entry is not None)
    written = [text for text in texts if text is not None]
    return f"[{', '.join(written)}]" if written else None


def _newest(messages: Sequence[Message], image_max_length: int) -> list[JsonObject]:
    """Return the last messages of a conversation that have room, in their order."""
    room = MAX_FLATTENED_ATTRIBUTES
    newest: list[JsonObject] = []
    for message in islice(reversed(messages), MAX_FLATTENED_MESSAGES):
        entry = _input(message, image_max_length)
        room -= len(entry["parts"]) if entry is not None else 0
        if room < 0:
            break
        if entry is not None:
            newest.append(entry)
    return newest[::-1]


def _prompt(prompt: Any) -> JsonObject | None:
    """Make the user's message of a prompt (``docs/contract/spans.md#legacy-completions``)."""
    parts = list(build_text_part("text", prompt))
    return {"role": "user", "parts": parts} if parts else None


def _input(message: Message, image_max_length: int) -> JsonObject | None:
    if message.role is None:
        return None
    named = {"name": message.name} if message.name is not None else {}
    return {"role": message.role, "parts": _parts(message, image_max_length)} | named


def _parts(message: Message, image_max_length: int) -> list[JsonObject]:
    return [*build_parts(_first_parts(message.parts), image_max_length=image_max_length)]


def _first_parts(parts: Iterable[Part]) -> Iterator[Part]:
    """Yield the parts in their order, as many calls and as many others as there is room for."""
    room = {True: MAX_FLATTENED_TOOL_CALLS, False: MAX_FLATTENED_PARTS}
    for part in parts:
        is_call = isinstance(part, ToolCall)
        room[is_call] -= 1
        if room[is_call] >= 0:
            yield part


def _tool(tool: Tool) -> JsonObject | None:
    if tool.title is None:
        return None
    described = {"description": tool.description, "parameters": tool.parameters}
    known = {member: value for member, value in described.items() if value is not None}
    return {"type": tool.type, "name": tool.title, **known}


def _output(answer: Answer, image_max_length: int, *, failed: bool) -> JsonObject:
    message = answer.message
    reason = answer.stop or answer.finish_reason or ("error" if failed else None)
    finish = {} if reason is None else {"finish_reason": reason}
    # An answer is the assistant's, even if the stream broke off before it said so.
    role = message.role or "assistant"
    return {"role": role, "parts": _parts(message, image_max_length), **finish}
