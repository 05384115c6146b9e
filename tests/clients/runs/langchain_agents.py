"""LangChain: a skipper uses two tools at once, of which one asks a pilot."""

from __future__ import annotations

from typing import Any, Literal

from langchain.agents import create_agent
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

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


class Collector(AsyncCallbackHandler):  # type: ignore[misc]
    """Keeps what LangChain tells of calls and tools, each with who began it."""

    def __init__(self) -> None:
        self._parents: dict[Any, Any] = {}
        self._calls: dict[Any, str] = {}
        self._tools: dict[Any, list[Any]] = {}

    async def on_chain_start(self, *_: Any, run_id: Any, parent_run_id: Any, **__: Any) -> None:
        """Graphs and their nodes."""
        self._parents[run_id] = parent_run_id

    async def on_chat_model_start(
        self, *_: Any, run_id: Any, parent_run_id: Any, **__: Any
    ) -> None:
        """A call."""
        self._parents[run_id] = parent_run_id

    async def on_llm_end(self, response: Any, *, run_id: Any, **_: Any) -> None:
        """The answer's id."""
        self._calls[run_id] = response.generations[0][0].message.response_metadata["id"]

    async def on_tool_start(
        self, serialized: Any, _: str, *, run_id: Any, parent_run_id: Any, inputs: Any, **__: Any
    ) -> None:
        """A tool with its arguments."""
        self._parents[run_id] = parent_run_id
        self._tools[run_id] = [serialized["name"], inputs, None]

    async def on_tool_end(self, output: Any, *, run_id: Any, **_: Any) -> None:
        """Its result."""
        self._tools[run_id][2] = output.content

    def list_below(self, parent: Any) -> list[Node]:
        """What those below one tell; graphs are passed over."""
        below = [one for one, above in self._parents.items() if above == parent]
        return [node for one in below for node in self._read(one)]

    def _read(self, run_id: Any) -> list[Node]:
        below = self.list_below(run_id)
        if run_id in self._calls:
            return [call_of(self._calls[run_id])]
        if run_id in self._tools:
            name, arguments, result = self._tools[run_id]
            inner = [run_of(arguments["prompt"], result, *below)] if below else []
            return [tool_of(name, arguments, result, *inner)]
        return below


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
