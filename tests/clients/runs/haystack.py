"""Haystack: a skipper uses two tools at once, of which one is a pilot, an agent; its own trace."""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from haystack import tracing
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import AgentTool, create_tool_from_function

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

if TYPE_CHECKING:
    from collections.abc import Iterator

TASKS = {
    "type": "object",
    "properties": {
        "messages": {"enum": [[{"role": "user", "content": task}] for task in (FIRST, SECOND)]}
    },
    "required": ["messages"],
}


class Collected(tracing.Span):  # type: ignore[misc]
    """A span of Haystack's, and those below it."""

    def __init__(self, name: str, tags: dict[str, Any]) -> None:
        self.name = name
        self.tags = tags
        self.below: list[Collected] = []

    def set_tag(self, key: str, value: Any) -> None:
        """Keep a tag."""
        self.tags[key] = value

    def list_nodes(self) -> list[Node]:
        """What it tells; its steps and components are passed over."""
        below = [node for span in self.below for node in span.list_nodes()]
        match self.name:
            case "haystack.agent.run":
                asked = self.tags["haystack.agent.input"]["messages"][-1].text
                said = self.tags["haystack.agent.output"]["last_message"].text
                return [run_of(asked, said, *below)]
            case "haystack.agent.step.llm":
                [said] = self.tags["haystack.agent.step.llm.output"]["replies"]
                return [call_that_said(said.text, *(call.tool_name for call in said.tool_calls))]
            case "haystack.agent.step.tool":
                given = self.tags["haystack.agent.step.tool.input"]
                result = self.tags["haystack.agent.step.tool.output"]
                if isinstance(result, dict):
                    result = result["last_message"].text
                return [tool_of(self.tags["haystack.tool.name"], given, result, *below)]
            case _:
                return below


class Collector(tracing.Tracer):  # type: ignore[misc]
    """Keeps what Haystack traces."""

    def __init__(self) -> None:
        self._current: ContextVar[Collected | None] = ContextVar("current", default=None)

    @contextlib.contextmanager
    def trace(
        self,
        operation_name: str,
        tags: dict[str, Any] | None = None,
        parent_span: Collected | None = None,
    ) -> Iterator[Collected]:
        """Keep a span below its parent."""
        span = Collected(operation_name, dict(tags or {}))
        if parent := parent_span or self._current.get():
            parent.below.append(span)
        token = self._current.set(span)
        try:
            yield span
        finally:
            self._current.reset(token)

    def current_span(self) -> Collected | None:
        """The one that is open."""
        return self._current.get()


async def ask(is_streamed: bool) -> list[Node]:
    """Two questions of one conversation."""
    tracer = Collector()
    tracing.tracer.is_content_tracing_enabled = True
    tracing.enable_tracing(tracer)

    async def take(_: Any) -> None:
        """Take a piece of a stream."""

    def build(words: str, *tools: Any) -> Any:
        model = OpenAIChatGenerator(
            model="gpt-demo", streaming_callback=take if is_streamed else None
        )
        return Agent(chat_generator=model, system_prompt=words, tools=[*tools])

    weather, depth, tides = map(
        create_tool_from_function, (get_weather, look_up_depth, look_up_tides)
    )
    pilot = AgentTool(
        build(PILOTS, depth, tides), name="ask_pilot", description="A pilot.", parameters=TASKS
    )
    skipper = build("You are a skipper.", weather, pilot)
    done: list[Node] = []
    messages: list[Any] = []
    for question in (LEAVING, BERTH):
        with tracer.trace("question") as span:
            asked = [*messages, ChatMessage.from_user(question)]
            told = await skipper.run_async(messages=asked)
        messages = [it for it in told["messages"] if it.role != "system"]
        done += span.list_nodes()
    return done


if __name__ == "__main__":
    answer(ask)
