"""Steps: which of the client's tools an answer calls, and whether the agent is done with it.

An answer without tool calls is an agent's last one, and calls are what the API says. smolagents
differs (:mod:`codec.observations`): its agents answer by a tool, some act by code in a text, and an
answer that does neither is refused by the agent itself, which asks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from codec.agent_code import FINAL_TOOL, find_code, make_code_call
from codec.observations import PROMPT_FOR_ANSWER, find_own_prompt
from codec.parts import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.asked import Asked
    from codec.parts import Message, ToolCall
    from codec.said import Said

_STEP_MARK: Final = "Observation:"
_PLAN_MARK: Final = "<end_plan>"
"""Where smolagents lets the model stop, in a step and in a plan."""


class Step(NamedTuple):
    """What an agent does with an answer.

    Attributes:
        calls: the client's tools that the answer calls.
        is_last: the agent is done.
    """

    calls: tuple[ToolCall, ...]
    is_last: bool


def read_step(
    asked: Asked, messages: Sequence[Message], said: Said, *, has_text_tools: bool
) -> Step:
    """Read what an agent does with an answer.

    Args:
        asked: what was asked.
        messages: the messages of the request, as they are compared.
        said: what was answered.
        has_text_tools: calls and results were parsed from the texts of these messages.
    """
    calls = tuple([call for call in said.tool_calls if call.is_clients])
    if not has_text_tools:
        return Step(calls, is_last=not calls)
    if [call.name for call in calls] == [FINAL_TOOL]:
        return Step((), is_last=True)
    if not calls and (call := find_code_call(asked, messages, said)) is not None:
        calls = (call,)
    prompt = find_own_prompt(messages)
    asks_again = prompt != PROMPT_FOR_ANSWER and (prompt is not None or _is_step(asked))
    return Step(calls, is_last=not calls and not asks_again)


def find_code_call(asked: Asked, messages: Sequence[Message], said: Said) -> ToolCall | None:
    """Find the code in an answer to an agent that acts by code; ``None`` if there is none.

    A plan runs no code, and neither does the answer of an agent that used up its steps.

    Args:
        asked: what was asked.
        messages: the messages of the request, with the calls and results in their texts parsed.
        said: what was answered.
    """
    answers = said.answers
    if len(answers) != 1 or answers[0].message.tool_calls or find_own_prompt(messages):
        return None
    if asked.read_tools() or _PLAN_MARK in _list_stops(asked):
        return None
    texts = [_text_of(part) for part in answers[0].message.parts]
    code = find_code("".join(texts))
    return None if code is None else make_code_call(code)


def _is_step(asked: Asked) -> bool:
    """Tell whether a request is one of an agent that asks again if nothing is called."""
    stops = _list_stops(asked)
    return bool(asked.read_tools()) or _STEP_MARK in stops or _PLAN_MARK in stops


def _list_stops(asked: Asked) -> Sequence[object]:
    stops = asked.options.get("stop")
    return stops if isinstance(stops, list) else ()


def _text_of(part: object) -> str:
    if isinstance(part, Text):
        return part.text
    return part if isinstance(part, str) else ""
