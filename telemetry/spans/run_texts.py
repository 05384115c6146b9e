"""Texts of calls that a run may show: as they are on the spans, hidden, masked and cut.

See ``docs/contract/conversations.md#spans``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from openinference.semconv.trace import MessageAttributes, SpanAttributes, ToolCallAttributes

from codec.parts import Refusal, Text
from telemetry.attribute_values import clean_text, json_text
from telemetry.privacy.json_strings import REDACTED
from telemetry.spans.flattening import MAX_FLATTENED_CHOICES, MAX_FLATTENED_TOOL_CALLS
from telemetry.spans.otlp.attributes import WrittenAttributes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.parts import ToolCall, ToolResult
    from codec.said import Said
    from telemetry.privacy.mask import Mask
    from telemetry.spans.otlp.writer import FinishedSpan
    from telemetry.spans.user_text import Get

_ANSWERS: Final = SpanAttributes.LLM_OUTPUT_MESSAGES
_CALLS: Final = MessageAttributes.MESSAGE_TOOL_CALLS
_NAME: Final = ToolCallAttributes.TOOL_CALL_FUNCTION_NAME
_CALL_ID: Final = ToolCallAttributes.TOOL_CALL_ID
_ARGUMENTS: Final = ToolCallAttributes.TOOL_CALL_FUNCTION_ARGUMENTS_JSON
_ASKED: Final = f"{SpanAttributes.LLM_INPUT_MESSAGES}.0"
_ROLE: Final = f"{_ASKED}.{MessageAttributes.MESSAGE_ROLE}"
_CONTENT: Final = f"{_ASKED}.{MessageAttributes.MESSAGE_CONTENT}"


def read_attributes(span: FinishedSpan) -> Get:
    """Return a function from a name to a span's attribute, which cleans only what is read."""
    attributes = span.attributes or {}
    given = attributes.given if type(attributes) is WrittenAttributes else attributes

    def get(name: str) -> Any:
        value = given.get(name)
        return clean_text(value) if type(value) is str else value

    return get


class ShownCall(NamedTuple):
    """A tool call of an answer, with its texts on the span."""

    call: ToolCall
    id: str | None
    name: str | None
    arguments: str | None


def list_shown_calls(said: Said, get: Get) -> Iterator[ShownCall]:
    """Yield each tool call of an answer, with its texts on the span.

    Ids, names and arguments are words of the answer, and are read from the span of the call that
    has them: whatever hides an answer hides them, too.
    """
    for at, answer in enumerate(said.answers):
        is_flat = at < MAX_FLATTENED_CHOICES
        prefix = f"{_ANSWERS}.{answer.index}"
        for position, call in enumerate(answer.message.tool_calls):
            key = f"{prefix}.{_CALLS}.{position}"
            name, arguments = f"{key}.{_NAME}", f"{key}.{_ARGUMENTS}"
            if call.type == "function_call":  # OpenAI's deprecated single one
                name = f"{prefix}.{MessageAttributes.MESSAGE_FUNCTION_CALL_NAME}"
                arguments = f"{prefix}.{MessageAttributes.MESSAGE_FUNCTION_CALL_ARGUMENTS_JSON}"
            shows = is_flat and position < MAX_FLATTENED_TOOL_CALLS
            if shows:
                call_id = _text(get(f"{key}.{_CALL_ID}"))
                yield ShownCall(call, call_id, _text(get(name)), get(arguments))
            else:
                yield ShownCall(call, None, None, None)


def show_result(result: ToolResult, mask: Mask) -> str | None:
    """Return the part of a result that may be shown; ``None`` for nothing.

    Results are words of the request, and go through its mask. They are not read from the span,
    because a message may have several results, and its attributes cover them all.
    """
    text = _read(result)
    if not text:
        return None
    shown = mask.attributes({_ROLE: "tool", _CONTENT: clean_text(text)}).get(_CONTENT)
    return shown if isinstance(shown, str) else None


def _read(result: ToolResult) -> str | None:
    """Read a result: its text if it is text, else its JSON."""
    content = result.content
    if isinstance(content, tuple):
        texts = [part if isinstance(part, str) else _read_part(part) for part in content]
        content = None if None in texts else "\n".join(filter(None, texts))
    return content if content is not None or result.value is None else json_text(result.value)


def _read_part(part: object) -> str | None:
    return part.text if isinstance(part, (Text, Refusal)) else None


def _text(value: object) -> str | None:
    """Return a name or an id as it is shown; ``None`` if it is hidden."""
    return value if isinstance(value, str) and value != REDACTED else None
