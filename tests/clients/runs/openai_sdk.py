"""The OpenAI Agents SDK: a clerk hands over to a skipper, who has a pilot as a tool."""

from __future__ import annotations

import json
from typing import Any

import agents

from tests.clients.runs.words import (
    BERTH,
    LEAVING,
    PILOTS,
    SECOND,
    Node,
    answer,
    call_of,
    get_weather,
    look_up_depth,
    look_up_tides,
    run_of,
    tool_of,
)


class Collector(agents.TracingProcessor):  # type: ignore[misc]
    """Keeps the SDK's own spans, in the order in which they began."""

    def __init__(self) -> None:
        self.spans: list[Any] = []

    def on_trace_start(self, trace: Any) -> None:
        """Nothing is told by it."""

    def on_trace_end(self, trace: Any) -> None:
        """Likewise."""

    def on_span_start(self, span: Any) -> None:
        """Its data are filled in later."""
        self.spans.append(span)

    def on_span_end(self, span: Any) -> None:
        """They are."""

    def shutdown(self) -> None:
        """Nothing to be sent."""

    def force_flush(self) -> None:
        """Likewise."""

    def list_below(self, parent_id: str | None) -> list[Node]:
        """What the spans below one tell; agents and turns are passed over."""
        below = [span for span in self.spans if span.parent_id == parent_id]
        return [node for span in below for node in self._read(span)]

    def _read(self, span: Any) -> list[Node]:
        data = span.span_data
        match data.type:
            case "response":
                return [call_of(data.response.id)]
            case "function":
                arguments = json.loads(data.input)  # noqa: TID251 - codec needs what is not there
                below = self.list_below(span.span_id)
                inner = [run_of(arguments["input"], data.output, *below)] if below else []
                return [tool_of(data.name, arguments, data.output, *inner)]
            case "handoff":
                told = json.dumps({"assistant": data.to_agent})
                return [tool_of(f"transfer_to_{data.to_agent.lower()}", {}, told)]
            case _:
                return self.list_below(span.span_id)


async def ask(is_streamed: bool) -> list[Node]:
    """Two questions, the second one to the pilot."""
    collector = Collector()
    agents.set_trace_processors([collector])
    tools = [agents.function_tool(one) for one in (look_up_depth, look_up_tides)]
    pilot = agents.Agent(name="Pilot", instructions=PILOTS, model="gpt-demo", tools=tools)
    skipper = agents.Agent(
        name="Skipper",
        instructions="You are a skipper.",
        model="gpt-demo",
        tools=[pilot.as_tool("ask_pilot", "Has a pilot find something out.")],
    )
    clerk = agents.Agent(
        name="Clerk",
        instructions="Be brief.",
        model="gpt-demo",
        tools=[agents.function_tool(get_weather)],
        handoffs=[skipper],
    )
    done: list[Node] = []
    history: list[Any] = []
    # The skipper alone can follow the direction: the clerk calls what he has, both tools at once.
    directed = f"{LEAVING}\ncall ask_pilot {json.dumps({'input': SECOND})}"
    for agent, question in ((clerk, directed), (pilot, BERTH)):
        history.append({"role": "user", "content": question})
        collector.spans.clear()
        if is_streamed:
            result: Any = agents.Runner.run_streamed(agent, history)
            async for _ in result.stream_events():
                pass
        else:
            result = await agents.Runner.run(agent, history)
        history = result.to_input_list()
        done.append(run_of(question, result.final_output, *collector.list_below(None)))
    return done


if __name__ == "__main__":
    answer(ask)
