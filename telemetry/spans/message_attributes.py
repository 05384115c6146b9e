"""What request messages and answer messages flatten in the same way (``span-contract.md`` 1.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from openinference.semconv.trace import (
    MessageAttributes,
    MessageContentAttributes,
    ToolCallAttributes,
)

if TYPE_CHECKING:
    from codec.answer import ToolCall
    from telemetry.attribute_values import AttributePairs
    from telemetry.semconv import ContentType

_check = msgspec.json.Decoder(msgspec.Raw).decode
"""Reads a text and makes no values of it: arguments may hold millions of small ones."""

__all__ = (
    "build_function_call_attributes",
    "build_text_part_attributes",
    "build_tool_call_attributes",
)


def build_text_part_attributes(
    prefix: str, content_type: ContentType, text: str | None
) -> AttributePairs:
    """A part of a message that is text, said or reasoned."""
    yield f"{prefix}.{MessageContentAttributes.MESSAGE_CONTENT_TYPE}", content_type
    yield f"{prefix}.{MessageContentAttributes.MESSAGE_CONTENT_TEXT}", text


def build_tool_call_attributes(message: str, position: int, call: ToolCall) -> AttributePairs:
    """One tool call; the argument text is verbatim, valid JSON or not.

    Args:
        message: the prefix of the message's keys.
        position: in the message's list of calls.
        call: what was called.
    """
    prefix = f"{message}.{MessageAttributes.MESSAGE_TOOL_CALLS}.{position}"
    yield f"{prefix}.{ToolCallAttributes.TOOL_CALL_ID}", call.id
    yield f"{prefix}.{ToolCallAttributes.TOOL_CALL_FUNCTION_NAME}", call.name
    arguments = call.arguments or None
    yield f"{prefix}.{ToolCallAttributes.TOOL_CALL_FUNCTION_ARGUMENTS_JSON}", arguments


def build_function_call_attributes(message: str, call: ToolCall) -> AttributePairs:
    """The deprecated single call of a message.

    Argument text that is no JSON is left out, for Phoenix's page parses it without a guard; it
    stays in the input or output value.
    """
    yield f"{message}.{MessageAttributes.MESSAGE_FUNCTION_CALL_NAME}", call.name
    if _is_json_for_browsers(call.arguments):
        key = f"{message}.{MessageAttributes.MESSAGE_FUNCTION_CALL_ARGUMENTS_JSON}"
        yield key, call.arguments


def _is_json_for_browsers(text: str) -> bool:
    # As strict as JSON.parse: codec.jsontext would let NaN and a BOM pass.
    try:
        _check(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False
    return True
