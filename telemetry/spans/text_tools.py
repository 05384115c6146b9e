"""Shows what agents of smolagents do in words: the code that they run, and their final answer.

See :mod:`codec.observations`. Names, code and texts come from the span, where they are hidden,
masked and cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.agent_code import find_code
from codec.members import object_of
from codec.text.jsontext import decode_json
from telemetry.attribute_values import json_text
from telemetry.spans.run_texts import ShownCall, list_shown_calls
from telemetry.spans.value_texts import find_answer_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.parts import ToolCall
    from codec.said import Said
    from telemetry.spans.user_text import Get


def show_code_call(calls: Sequence[ToolCall], said: Said, get: Get) -> Iterator[ShownCall]:
    """Yield the calls of code that an answer makes in its text, with the code on the span.

    Args:
        calls: those calls, of which there is one at most.
        said: the answer.
        get: returns the span's attributes.
    """
    text = find_answer_text(said.answers, get)
    code = None if text is None else find_code(text)
    for call in calls:
        yield ShownCall(call, None, None if code is None else call.name, code)


def find_final_answer(said: Said, get: Get) -> str | None:
    """Find the answer in the arguments of the tool by which an agent answers."""
    shown = next(iter(list_shown_calls(said, get)), None)
    if shown is None or not isinstance(shown.arguments, str):
        return None
    try:
        answer = object_of(decode_json(shown.arguments)).get("answer")
    except (ValueError, RecursionError):
        return shown.arguments
    return answer if answer is None or isinstance(answer, str) else json_text(answer)
