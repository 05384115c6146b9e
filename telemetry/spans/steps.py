"""What is new in a call in which the user did not speak, in a line: ``Read ✓ → Edit notes.txt``.

Before the arrow stand the tools that answered since the model's last answer, each with whether it
failed, or the purpose of a helper call. Behind it stands what the model did: the tools that it
calls, each with its telling argument, or else the first words of its text. The row of a tool has
its own call. Where no model speaks, the line begins with what the call is. Names, arguments and
texts come from the span's attributes, so that whatever is hidden, masked or cut there is so here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from openinference.semconv.trace import MessageAttributes, SpanAttributes, ToolCallAttributes

from codec.agent_code import CODE_TOOL, find_code
from codec.parts import ToolResult
from telemetry.attribute_values import clean_text
from telemetry.privacy.json_strings import REDACTED
from telemetry.spans.call_words import (
    MAX_VALUE_CHARS,
    cut_end,
    describe_call,
    find_telling,
    finish_line,
    shorten,
    write_one_line,
)
from telemetry.spans.run_texts import list_shown_calls
from telemetry.spans.user_text import ANSWERERS
from telemetry.spans.value_texts import find_answer_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codec.parts import Message
    from codec.said import Said
    from telemetry.privacy.mask import Mask
    from telemetry.spans.user_text import Get

MAX_LOOKED_BACK: Final = 256
"""The most messages in which results and their calls are looked for: the last step of an agent."""

MAX_NAMED: Final = 4
"""The most tools that are named on a side; the others are counted."""

_ARROW: Final = " → "

_MESSAGES: Final = SpanAttributes.LLM_INPUT_MESSAGES
_CALLS: Final = MessageAttributes.MESSAGE_TOOL_CALLS
_NAME: Final = ToolCallAttributes.TOOL_CALL_FUNCTION_NAME


def describe_step(
    purpose: str | None,
    messages: Sequence[Message],
    said: Said | None,
    get: Get,
    mask: Mask,
    *,
    has_text_tools: bool,
) -> str | None:
    """Describe what a call brought and what its answer did; ``None`` if nothing may be shown.

    Args:
        purpose: of a helper call.
        messages: those of the request, with the calls and results in their texts parsed.
        said: the answer, if it may be shown.
        get: returns attributes of the span.
        mask: the span's.
        has_text_tools: there are such calls or results in the texts (:mod:`codec.observations`).
    """
    brought = purpose or ""
    if not brought and not mask.hides_input_messages:
        brought = _show_results(messages, get, mask, has_text_tools=has_text_tools)
    did = "" if said is None else _show_answer(said, get, has_text_tools=has_text_tools)
    if not did:
        return finish_line(brought)
    return finish_line(f"{brought}{_ARROW}{did}" if brought else f"→ {did}")


def describe_work(
    noun: str, asked: str | None, said: Said | None, get: Get, mask: Mask
) -> str | None:
    """Describe a call in which no model speaks: ``embedding "Lisbon is sunny"``.

    Args:
        noun: what a call of its API is (:class:`codec.apis.api.Api`).
        asked: the beginning of the text that it is about, as its span shows it.
        said: the answer, if it may be shown.
        get: returns attributes of the span.
        mask: the span's.
    """
    about = f'{noun} "{cut_end(asked, MAX_VALUE_CHARS)}"' if asked else noun
    did = ""
    if said is not None:
        did = _show_answer(said, get, has_text_tools=False) or _show_finding(said, mask)
    return finish_line(f"{about}{_ARROW}{did}" if did else about)


def _show_results(
    messages: Sequence[Message], get: Get, mask: Mask, *, has_text_tools: bool
) -> str:
    """Name the tools whose results stand behind the last answer, in the order of the request."""
    hides_names = has_text_tools and mask.hides_input_text  # they are in a text
    results: list[tuple[ToolResult, str | None]] = []
    names: dict[str | None, str | None] = {}
    is_answer = False
    last = len(messages) - 1
    for position in range(last, max(last - MAX_LOOKED_BACK, -1), -1):
        message = messages[position]
        if message.role in ANSWERERS:
            is_answer = True
            for at, call in enumerate(message.tool_calls):
                names.setdefault(call.id, get(f"{_MESSAGES}.{position}.{_CALLS}.{at}.{_NAME}"))
        elif is_answer:
            break
        else:
            parts = reversed(message.parts)
            results += [(part, message.name) for part in parts if isinstance(part, ToolResult)]
    if not results:
        return ""
    if has_text_tools and results[0][0].id is None:
        del results[1:]  # before the last error are those of earlier steps
    counts: dict[str, int] = {}
    for result, own in reversed(results):
        name = write_one_line(names.get(result.id)) if result.id is not None else ""
        if not name and not hides_names:
            name = write_one_line(mask.text(clean_text(result.name or own or "")))
        key = f"{name or 'tool'} {'✗' if result.is_error else '✓'}"
        counts[key] = counts.get(key, 0) + 1
    return _join(key if count == 1 else f"{key} ({count})" for key, count in counts.items())


def _show_answer(said: Said, get: Get, *, has_text_tools: bool) -> str:
    """Say what an answer does: its calls, else the beginning of its text."""
    calls = [one for one in list_shown_calls(said, get) if one.call.type and one.name]
    if calls:
        return _join(describe_call(one.name, one.arguments) or "" for one in calls)
    text = find_answer_text(said.answers, get)
    if not text or text == REDACTED:
        return ""
    if has_text_tools and (code := find_code(text)) is not None:
        return describe_call(CODE_TOOL, code) or ""
    if text.startswith("{") and (value := find_telling(text)):  # JSON that was asked for
        text = value
    text = cut_end(write_one_line(text), MAX_VALUE_CHARS)
    return f'"{text}"' if text else ""


def _show_finding(said: Said, mask: Mask) -> str:
    """Say what an answer without a text found."""
    if mask.hides_output_text:
        return ""
    if (count := said.counted_tokens) is not None:
        return f"{count:,} tokens"
    verdict = said.verdict
    return "" if verdict is None else shorten(mask.text(clean_text(verdict.words)))


def _join(names: Iterable[str]) -> str:
    """Join names, and count those that are too many."""
    listed = [*names]
    more = len(listed) - MAX_NAMED
    return ", ".join(listed[:MAX_NAMED]) + (f" +{more}" if more > 0 else "")
