"""LangChain: a skipper uses two tools at once, of which one asks a pilot."""

from __future__ import annotations

from typing import Any, Literal

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from tests.clients.runs.callbacks import Collector
from tests.clients.runs.words import (
    BERTH,
    LEAVING,
    PILOTS,
    Node,
    answer,
    get_weather,
    look_up_depth,
    look_up_tides,
    run_of,
)

Prompt = Literal[
    "Find out how deep the water is over the bar of Lisbon.",
    "Find out how deep the entrance is, and when the tide is high there.",
]


async def ask(is_streamed: bool) -> list[Node]:
    """Two questions of one conversation."""
    # Of a streamed chat LangChain does not keep the answer's id.
    model = ChatOpenAI(model="gpt-demo", streaming=is_streamed, use_responses_api=is_streamed)
    pilot = create_agent(model, [look_up_depth, look_up_tides], system_prompt=PILOTS)

    async def ask_pilot(prompt: Prompt) -> str:
        """Has a pilot find something out."""
        told = await pilot.ainvoke({"messages": [("user", prompt)]})
        return str(told["messages"][-1].text)

    skipper = create_agent(
        model, [get_weather, tool(ask_pilot)], system_prompt="You are a skipper."
    )
    done: list[Node] = []
    messages: list[Any] = []
    for question in (LEAVING, BERTH):
        collector = Collector()
        asked = {"messages": [*messages, ("user", question)]}
        messages = (await skipper.ainvoke(asked, {"callbacks": [collector]}))["messages"]
        done.append(run_of(question, messages[-1].text, *collector.list_below(None)))
    return done


answer(ask)
