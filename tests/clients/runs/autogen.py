"""AutoGen: a skipper uses two tools at once, and a pilot, which is an agent; its messages."""

from __future__ import annotations

import json
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import TaskResult
from autogen_agentchat.tools import AgentTool
from autogen_core.models import ModelInfo
from autogen_ext.models.openai import OpenAIChatCompletionClient

from tests.clients.runs.words import (
    BERTH,
    FIRST,
    LEAVING,
    PILOTS,
    Node,
    answer,
    call_that_said,
    get_weather,
    look_up_depth,
    look_up_tides,
    run_of,
    tool_of,
)

TASK = f'{LEAVING}\ncall get_weather {{"place": "Lisbon"}}\ncall pilot {{"task": "{FIRST}"}}'
"""The demo upstream follows the last two lines; the second question calls two tools at once."""


async def ask(is_streamed: bool) -> list[Node]:
    """Two questions of one conversation."""
    model = OpenAIChatCompletionClient(
        model="gpt-demo",
        model_info=ModelInfo(
            vision=False,
            function_calling=True,
            json_output=True,
            structured_output=True,
            family="unknown",
        ),
    )

    def build(name: str, words: str, *tools: Any) -> Any:
        return AssistantAgent(
            name,
            model,
            tools=[*tools],
            system_message=words,
            description=words,
            max_tool_iterations=4,
            model_client_stream=is_streamed,
        )

    pilot = build("pilot", PILOTS, look_up_depth, look_up_tides)
    skipper = build(
        "skipper",
        "You are a skipper.",
        get_weather,
        look_up_tides,
        AgentTool(pilot, return_value_as_last_message=True),
    )
    done: list[Node] = []
    for question in (TASK, BERTH):
        if is_streamed:
            pieces = [piece async for piece in skipper.run_stream(task=question)]
            [told] = [piece for piece in pieces if isinstance(piece, TaskResult)]
        else:
            told = await skipper.run(task=question)
        done.append(read_messages([*told.messages]))
    return done


def read_messages(messages: list[Any]) -> Node:
    """What messages tell of a run: the task, then what one agent does, with others in between."""
    task, *rest = messages
    agent = rest[0].source
    below: list[Node] = []
    asked: dict[str, Any] = {}
    others: list[Any] = []
    said = None
    for message in rest:
        if message.source != agent:
            others.append(message)
        elif message.type == "ToolCallRequestEvent":
            asked |= {call.id: call for call in message.content}
            below.append(call_that_said(None, *(call.name for call in message.content)))
        elif message.type == "ToolCallExecutionEvent":
            inner = [read_messages(others)] if others else []
            others = []
            for result in message.content:
                # Nothing of spantap's is in this environment.
                arguments = json.loads(asked[result.call_id].arguments)  # noqa: TID251 - codec needs what is not there
                nested = inner if result.name == "pilot" else []
                below.append(tool_of(result.name, arguments, result.content, *nested))
        elif message.type == "TextMessage":
            said = message.content
            below.append(call_that_said(said))
    return run_of(task.content, said, *below)


if __name__ == "__main__":
    answer(ask)
