"""DSPy: an agent of ``ReActV2`` uses tools one by one, also to submit; its history."""

from __future__ import annotations

import json
from typing import Any

import dspy

from tests.clients.runs.words import (
    BERTH,
    LEAVING,
    THANKS,
    Node,
    answer,
    call_that_said,
    get_weather,
    look_up_tides,
    run_of,
    tool_of,
)

TASK = (
    f'{LEAVING}\ncall get_weather {{"place": "Lisbon"}}\ncall look_up_tides {{"place": "Lisbon"}}'
    '\ncall submit {"answer": "North wind."}'
)
NEXT = f'{BERTH}\ncall get_weather {{"place": "Lisbon"}}\ncall submit {{"answer": "Fog."}}'
"""The demo upstream follows the lines, and a run ends with the call of ``submit``."""


async def ask(is_streamed: bool) -> list[Node]:
    """Two questions of one conversation; with native calls of tools DSPy streams nothing."""
    adapter: Any = dspy.ChatAdapter
    model = dspy.LM("openai/gpt-4o-mini", cache=False, num_retries=0)
    agent = dspy.ReActV2("question -> answer", tools=[get_weather, look_up_tides])
    done: list[Node] = []
    history = dspy.History(messages=[])
    with dspy.context(lm=model, adapter=adapter(use_native_function_calling=True)):
        for question in (TASK, NEXT):
            first = len(history.messages)
            told = await agent.acall(question=question, history=history)
            history = told.history
            done.append(read_history(question, history.messages[first:]))
    return [*done, await thank(model, history)]


def read_history(question: str, turns: list[dict[str, Any]]) -> Node:
    """What a history tells of a question: in each turn a call, and the tools that it calls."""
    below = []
    for turn in turns:
        made = turn["tool_calls"]
        results = {one.call_id: one.value for one in made.tool_call_results.tool_call_results}
        below.append(call_that_said(None, *(call.name for call in made.tool_calls)))
        for call in made.tool_calls:
            result = results[call.id]
            told = result if isinstance(result, str) else json.dumps(result)
            below.append(tool_of(call.name, call.args, told))
    [last] = turns[-1]["tool_calls"].tool_calls
    said = f"{last.name}({json.dumps(last.args)})"
    return run_of(f"[[ ## question ## ]]\n{question}", said, *below)


async def thank(model: Any, history: Any) -> Node:
    """End the last run with words of the user's, behind the history as DSPy sent it."""
    [call] = history.messages[-1]["tool_calls"].tool_calls
    asked = model.history[-1]["messages"][:-1]
    function = {"name": call.name, "arguments": json.dumps(call.args)}
    submitted = {"id": call.id, "type": "function", "function": function}
    messages = [
        *asked,
        {"role": "assistant", "content": None, "tool_calls": [submitted]},
        {"role": "tool", "tool_call_id": call.id, "content": json.dumps(call.args)},
        {"role": "user", "content": THANKS},
    ]
    [said] = await model.acall(messages=messages)
    return call_that_said(said if isinstance(said, str) else said["text"])


if __name__ == "__main__":
    answer(ask)
