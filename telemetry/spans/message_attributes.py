"""A message, flattened as OpenInference wants it (``docs/contract/spans.md#messages``).

A part keeps its position. If there is no key for its kind, it leaves a hole, as with the in-process
instrumentor, and stays readable in ``input.value`` or ``output.value``. The number of parts and
calls is limited by :mod:`telemetry.spans.flattening`.

If a message consists of one text, the text is its content. This is also true of a refusal; the
metadata says that it is one. A message of several parts has them under ``message.contents``, and no
``message.content``: this is the only form that Phoenix both draws once and replays.

A tool call is written under its position among the calls. Argument text is verbatim, JSON or not.
If the order of text and calls is content, a call is also a part at its place
(``docs/contract/apis.md#calls-in-their-place``). If one message has several results, the first
one's id stands for all, because there is one key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from openinference.semconv.trace import (
    AudioAttributes,
    DocumentAttributes,
    ImageAttributes,
    MessageAttributes,
    MessageContentAttributes,
    ToolCallAttributes,
)

from codec.parts import Media, Other, Reasoning, Refusal, Text, ToolCall, ToolResult
from codec.text.jsontext import is_deep_text
from telemetry.attribute_values import json_text
from telemetry.spans.flattening import MAX_FLATTENED_PARTS, MAX_FLATTENED_TOOL_CALLS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.parts import Message, Part
    from telemetry.attribute_values import AttributePairs
    from telemetry.spans.flattening import Flattening

_check = msgspec.json.Decoder(msgspec.Raw).decode
"""Checks a text without making values of it: arguments may hold millions of small ones."""

_CONTENT: Final = MessageAttributes.MESSAGE_CONTENT
_CONTENTS: Final = MessageAttributes.MESSAGE_CONTENTS
_TYPE: Final = MessageContentAttributes.MESSAGE_CONTENT_TYPE
_TEXT: Final = MessageContentAttributes.MESSAGE_CONTENT_TEXT
_ID: Final = MessageContentAttributes.MESSAGE_CONTENT_ID
_ENCRYPTED: Final = MessageContentAttributes.MESSAGE_CONTENT_ENCRYPTED_CONTENT
_SIGNATURE: Final = MessageContentAttributes.MESSAGE_CONTENT_SIGNATURE
_CALL_SIGNATURE: Final = ToolCallAttributes.TOOL_CALL_REASONING_SIGNATURE
_DATA: Final = MessageContentAttributes.MESSAGE_CONTENT_DATA

_MEDIA: Final = frozenset({"image", "audio", "document"})
"""Kinds that ``message_content.type`` has a value for; a video has none
(``docs/contract/spans.md#message-content``)."""


def build_message_attributes(
    prefix: str,
    message: Message,
    flattening: Flattening,
    *,
    shows_reasoning: bool = True,
    calls_are_parts: bool = False,
) -> AttributePairs:
    """Yield the attributes of one message, under names with this prefix."""
    yield f"{prefix}.{MessageAttributes.MESSAGE_ROLE}", message.role
    yield f"{prefix}.{MessageAttributes.MESSAGE_NAME}", message.name
    content = message.content
    if content is None or isinstance(content, str):
        yield f"{prefix}.{_CONTENT}", content or None
        return
    answered = next((part.id for part in content if isinstance(part, ToolResult)), None)
    yield f"{prefix}.{MessageAttributes.MESSAGE_TOOL_CALL_ID}", answered
    said = list_said(content, shows_reasoning=shows_reasoning, calls_are_parts=calls_are_parts)
    yield from _said(prefix, said, message.part_count, flattening)
    yield from _calls(prefix, [part for part in content if isinstance(part, ToolCall)], flattening)


def list_said(
    content: Sequence[Part], *, shows_reasoning: bool = True, calls_are_parts: bool = False
) -> list[Part]:
    """List the parts of a message that are written as its contents, each at its position."""
    said: list[Part] = []
    for part in content:
        if isinstance(part, ToolCall):
            if calls_are_parts:
                said.append(part)
        elif isinstance(part, ToolResult):
            said += (part.content,) if isinstance(part.content, str) else part.content or ()
        elif shows_reasoning or not isinstance(part, Reasoning):
            said.append(part)
    return said


def _said(
    prefix: str, parts: Sequence[Part], part_count: int, flattening: Flattening
) -> AttributePairs:
    """Yield everything except the calls; `part_count` is set if more parts came than were read."""
    if len(parts) == 1:
        only = parts[0]
        if isinstance(only, (str, Refusal)):
            yield f"{prefix}.{_CONTENT}", only if isinstance(only, str) else only.text
            return
        if isinstance(only, Other) and isinstance(only.value, list):
            yield f"{prefix}.{_CONTENT}", json_text(only.value)
            return
    for position, part in flattening.first(_CONTENTS, parts, MAX_FLATTENED_PARTS, part_count):
        yield from _part(f"{prefix}.{_CONTENTS}.{position}", part, flattening)


def _part(prefix: str, part: Part, flattening: Flattening) -> AttributePairs:
    if isinstance(part, Media):
        yield from _media(prefix, part)
        if part.is_beside_content:
            yield f"{prefix}.{_ID}", flattening.opaque(_ID, part.file_id)
    elif isinstance(part, Reasoning):
        yield f"{prefix}.{_TYPE}", "reasoning"
        yield f"{prefix}.{_TEXT}", part.text or None
        yield f"{prefix}.{_ID}", flattening.opaque(_ID, part.id)
        yield f"{prefix}.{_ENCRYPTED}", flattening.opaque(_ENCRYPTED, part.encrypted)
        yield f"{prefix}.{_SIGNATURE}", flattening.opaque(_SIGNATURE, part.signature)
        yield f"{prefix}.{_DATA}", flattening.opaque(_DATA, part.data)
    elif isinstance(part, ToolCall):
        yield f"{prefix}.{_TYPE}", "tool_use"
        yield from _call(prefix, part, flattening)
    elif isinstance(part, (str, Text, Refusal)):
        yield f"{prefix}.{_TYPE}", "text"
        yield f"{prefix}.{_TEXT}", (part if isinstance(part, str) else part.text) or None
        if isinstance(part, Text):
            yield f"{prefix}.{_SIGNATURE}", flattening.opaque(_SIGNATURE, part.signature)


def _media(prefix: str, media: Media) -> AttributePairs:
    if media.kind in _MEDIA:
        yield f"{prefix}.{_TYPE}", media.kind
    match media.kind:
        case "image":
            key = f"{prefix}.{MessageContentAttributes.MESSAGE_CONTENT_IMAGE}"
            yield f"{key}.{ImageAttributes.IMAGE_URL}", media.url
        case "audio":
            key = f"{prefix}.{MessageContentAttributes.MESSAGE_CONTENT_AUDIO}"
            url = media.url
            if media.data is not None and media.mime_type is not None:
                # Base64 of an unknown type makes no URL.
                url = f"data:{media.mime_type};base64,{media.data}"
            yield f"{key}.{AudioAttributes.AUDIO_URL}", url
            yield f"{key}.{AudioAttributes.AUDIO_MIME_TYPE}", media.mime_type
            yield f"{key}.{AudioAttributes.AUDIO_TRANSCRIPT}", media.transcript or None
        case "document":
            key = f"{prefix}.{MessageContentAttributes.MESSAGE_CONTENT_DOCUMENT}"
            yield f"{key}.{DocumentAttributes.DOCUMENT_URL}", media.url
            yield f"{key}.{DocumentAttributes.DOCUMENT_MIME_TYPE}", media.mime_type
            yield f"{key}.{DocumentAttributes.DOCUMENT_NAME}", media.name
            yield f"{key}.{DocumentAttributes.DOCUMENT_ID}", media.file_id


def _calls(prefix: str, calls: Sequence[ToolCall], flattening: Flattening) -> AttributePairs:
    if calls and calls[-1].type == "function_call":
        yield from _function_call(prefix, calls[-1])
        calls = calls[:-1]
    name = MessageAttributes.MESSAGE_TOOL_CALLS
    for position, call in flattening.first(name, calls, MAX_FLATTENED_TOOL_CALLS):
        yield from _call(f"{prefix}.{name}.{position}", call, flattening)


def _call(prefix: str, call: ToolCall, flattening: Flattening) -> AttributePairs:
    yield f"{prefix}.{ToolCallAttributes.TOOL_CALL_ID}", call.id
    yield f"{prefix}.{ToolCallAttributes.TOOL_CALL_FUNCTION_NAME}", call.name
    arguments = call.arguments or None
    yield f"{prefix}.{ToolCallAttributes.TOOL_CALL_FUNCTION_ARGUMENTS_JSON}", arguments
    signature = flattening.opaque(_CALL_SIGNATURE, call.reasoning_signature)
    yield f"{prefix}.{_CALL_SIGNATURE}", signature


def _function_call(prefix: str, call: ToolCall) -> AttributePairs:
    """The deprecated single call of a message.

    Argument text that is not JSON is left out, because Phoenix's page parses it without a guard; it
    stays in the input or output value.
    """
    yield f"{prefix}.{MessageAttributes.MESSAGE_FUNCTION_CALL_NAME}", call.name
    if _is_json_for_browsers(call.arguments):
        key = f"{prefix}.{MessageAttributes.MESSAGE_FUNCTION_CALL_ARGUMENTS_JSON}"
        yield key, call.arguments


def _is_json_for_browsers(text: str) -> bool:
    # As strict as JSON.parse: codec.text.jsontext would accept NaN and a BOM. The limit of depth
    # does not depend on the interpreter.
    try:
        _check(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False
    return not is_deep_text(text)
