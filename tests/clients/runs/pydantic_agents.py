"""Pydantic AI: a skipper uses two tools at once, of which one asks a pilot."""

from __future__ import annotations

from typing import Any, Literal

import pydantic_ai

from tests.clients.runs.words import (
    BERTH,
    LEAVING,
    PILOTS,
    Node,
    answer,
    call_of,
    get_weather,
    look_up_depth,
    look_up_tides,
    run_of,
    tool_of,
)

Prompt = Literal[
    "Find out how deep the water is over the bar of Lisbon.",
    "Find out how deep the entrance is, and when the tide is high there.",
]


async def ask(is_streamed: bool) -> list[Node]:
    """Two questions of one conversation."""
    inner: dict[str | None, Node] = {}
    pilot: Any = pydantic_ai.Agent(
        "openai:gpt-demo", instructions=PILOTS, tools=[look_up_depth, look_up_tides]
    )

    async def ask_pilot(ctx: pydantic_ai.RunContext, prompt: Prompt) -> str:
        """Has a pilot find something out."""
        told = await pilot.run(prompt)
        inner[ctx.tool_call_id] = read_history(prompt, told.output, told.new_messages(), {})
        return str(told.output)

    skipper: Any = pydantic_ai.Agent(
        "openai:gpt-demo", instructions="You are a skipper.", tools=[get_weather, ask_pilot]
    )
    done: list[Node] = []
    history: list[Any] = []
    for question in (LEAVING, BERTH):
        inner.clear()
        said, new, history = await go_on(skipper, question, history, is_streamed=is_streamed)
        done.append(read_history(question, said, new, inner))
    return done


async def go_on(
    agent: Any, question: str, history: list[Any], *, is_streamed: bool
) -> tuple[Any, list[Any], list[Any]]:
    """Ask an agent: the output, the new messages, and all of them."""
    if not is_streamed:
        told = await agent.run(question, message_history=history)
        return told.output, told.new_messages(), told.all_messages()
    async with agent.run_stream(question, message_history=history) as running:
        output = await running.get_output()
        return output, running.new_messages(), running.all_messages()


def read_history(
    question: str, said: Any, messages: list[Any], inner: dict[str | None, Node]
) -> Node:
    """What messages tell of a run, with what was done inside of tools."""
    parts = [part for message in messages for part in message.parts]
    results = {part.tool_call_id: part for part in parts if part.part_kind == "tool-return"}
    answers = [message for message in messages if message.kind == "response"]
    below = [call_of(message.provider_response_id) for message in answers]
    for part in parts:
        if part.part_kind == "tool-call" and part.tool_call_id in results:
            content = results[part.tool_call_id].content
            nested = [inner[part.tool_call_id]] if part.tool_call_id in inner else []
            below.append(tool_of(part.tool_name, part.args_as_dict(), content, *nested))
    return run_of(question, said if isinstance(said, str) else None, *below)


if __name__ == "__main__":
    answer(ask)
