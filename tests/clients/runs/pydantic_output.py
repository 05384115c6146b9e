"""Pydantic AI with a type of output: the answer is a call of a tool, and one has to be made."""

from __future__ import annotations

import json
from typing import Any

import pydantic
import pydantic_ai

from tests.clients.runs.pydantic_agents import go_on, read_history
from tests.clients.runs.words import BERTH, LEAVING, THANKS, Node, answer, look_up_depth

CALLS = ('call look_up_depth {"place": "Lisbon"}', 'call final_result {"depth": "11.5 metres"}')


class Depths(pydantic.BaseModel):
    """What is wanted."""

    depth: str


async def ask(is_streamed: bool) -> list[Node]:
    """Two questions for data, and a word by which the results of the second are told, too."""
    agent: Any = pydantic_ai.Agent(
        "openai:gpt-demo", instructions="Be brief.", tools=[look_up_depth], output_type=Depths
    )
    done: list[Node] = []
    history: list[Any] = []
    for words in (LEAVING, BERTH):
        question = "\n".join((words, *CALLS))
        said, new, history = await go_on(agent, question, history, is_streamed=is_streamed)
        depth = json.dumps(said.model_dump())
        done.append(read_history(question, f"final_result({depth})", new, {}))
    talker: Any = pydantic_ai.Agent("openai:gpt-demo")
    said, new, _ = await go_on(talker, THANKS, history, is_streamed=is_streamed)
    return [*done, read_history(THANKS, said, new, {})]


answer(ask)
