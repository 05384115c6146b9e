"""LlamaIndex: a clerk hands over to a skipper, who has a pilot as a tool; its events."""

from __future__ import annotations

import json
import os
from typing import Any

from llama_index.core.agent.workflow import (
    AgentOutput,
    AgentWorkflow,
    FunctionAgent,
    ToolCallResult,
)
from llama_index.core.workflow import Context
from llama_index.llms.openai_like import OpenAILike

from tests.clients.runs.words import (
    BERTH,
    FIRST,
    LEAVING,
    PILOTS,
    SECOND,
    Node,
    answer,
    call_that_said,
    get_weather,
    look_up_depth,
    look_up_tides,
    run_of,
    tool_of,
)

HAND_OVER = {"to_agent": "skipper", "reason": "He knows the sea."}
CALLS = (
    'get_weather {"place": "Lisbon"}',
    f"handoff {json.dumps(HAND_OVER)}",
    f"ask_pilot {json.dumps({'prompt': SECOND})}",
)
QUESTIONS = (
    "\n".join((LEAVING, *(f"call {call}" for call in CALLS))),
    f"{BERTH}\ncall ask_pilot {json.dumps({'prompt': FIRST})}",
)


async def follow(question: str, running: Any, inner: dict[str, Node]) -> tuple[str, Node]:
    """Follow a workflow by its events: the answer, and what was done.

    Args:
        question: what it was asked.
        running: the workflow.
        inner: what agents did that are tools, by what they were asked.
    """
    below = []
    async for event in running.stream_events():
        if isinstance(event, AgentOutput):
            called = [call.tool_name for call in event.tool_calls]
            below.append(call_that_said(event.response.content, *called))
        elif isinstance(event, ToolCallResult):
            done = inner.pop(event.tool_kwargs.get("prompt", ""), None)
            nested = [] if done is None else [done]
            result = event.tool_output.content
            below.append(tool_of(event.tool_name, event.tool_kwargs, result, *nested))
    said = str((await running).response.content)
    return said, run_of(question, said, *below)


async def ask(is_streamed: bool) -> list[Node]:
    """Two questions of one conversation, the second one to the skipper."""
    model = OpenAILike(
        model="gpt-demo",
        api_base=os.environ["OPENAI_BASE_URL"],
        api_key=os.environ["OPENAI_API_KEY"],
        is_chat_model=True,
        is_function_calling_model=True,
    )
    inner: dict[str, Node] = {}

    def build(name: str, words: str, *tools: Any) -> Any:
        return FunctionAgent(
            name=name,
            description=words,
            system_prompt=words,
            tools=[*tools],
            llm=model,
            streaming=is_streamed,
        )

    pilot = build("pilot", PILOTS, look_up_depth, look_up_tides)

    async def ask_pilot(prompt: str) -> str:
        """Has a pilot find something out."""
        said, inner[prompt] = await follow(prompt, pilot.run(prompt), {})
        return said

    clerk = build("clerk", "Be brief.", get_weather)
    skipper = build("skipper", "You are a skipper.", ask_pilot)
    port = AgentWorkflow(agents=[clerk, skipper], root_agent="clerk")
    context = Context(port)
    done = []
    for question in QUESTIONS:
        _, one = await follow(question, port.run(question, ctx=context), inner)
        done.append(one)
    return done


if __name__ == "__main__":
    answer(ask)
