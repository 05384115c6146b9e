"""LangGraph: a clerk's graph hands over to a skipper's, who has a pilot as a tool.

The graphs are made by hand: nodes for the model and the tools, a graph as a node of another, a
checkpointer that keeps the conversation.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode, tools_condition
from langgraph.types import Command

from tests.clients.runs.callbacks import Collector
from tests.clients.runs.words import (
    BERTH,
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
)

PROMPT = json.dumps({"prompt": SECOND})


class Told(Collector):
    """Knows calls by what their answers say: of a streamed chat LangChain keeps no id."""

    def tell_call(self, message: Any) -> Node:
        """The text of the answer, and the tools that it calls."""
        return call_that_said(message.text, *(call["name"] for call in message.tool_calls))


async def transfer_to_skipper(
    call_id: Annotated[str, InjectedToolCallId], state: Annotated[Any, InjectedState]
) -> Any:
    """Hands over to the skipper."""
    told = ToolMessage("The skipper takes over.", tool_call_id=call_id)
    update = {"messages": [*state["messages"], told]}
    return Command(goto="skipper", update=update, graph=Command.PARENT)


HAND_OVER: Any = tool(transfer_to_skipper)


def make_agent(model: Any, instructions: str, *tools: Any) -> Any:
    """Make the graph of an agent: the model, and its tools as long as it calls some."""
    # A graph that hands over loses what its other tools told at once.
    is_parallel = not any(one is HAND_OVER for one in tools)
    able = model.bind_tools(tools, parallel_tool_calls=is_parallel)

    async def ask_model(state: MessagesState) -> Any:
        return {"messages": [await able.ainvoke([("system", instructions), *state["messages"]])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", ask_model)
    graph.add_node("tools", ToolNode([*tools]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()


async def ask(is_streamed: bool) -> list[Node]:
    """Two questions of one thread; the clerk calls what he has, both tools at once."""
    model = ChatOpenAI(model="gpt-demo", streaming=is_streamed)
    pilot = make_agent(model, PILOTS, look_up_depth, look_up_tides)

    async def ask_pilot(prompt: str) -> str:
        """Has a pilot find something out."""
        told = await pilot.ainvoke({"messages": [("user", prompt)]})
        return str(told["messages"][-1].text)

    graph = StateGraph(MessagesState)
    clerk = make_agent(model, "Be brief.", get_weather, HAND_OVER)
    graph.add_node("clerk", clerk, destinations=("skipper",))
    graph.add_node("skipper", make_agent(model, "You are a skipper.", tool(ask_pilot)))
    graph.add_edge(START, "clerk")
    port = graph.compile(checkpointer=InMemorySaver())
    calls = ('get_weather {"place": "Lisbon"}', "transfer_to_skipper {}", f"ask_pilot {PROMPT}")
    directed = "\n".join((LEAVING, *(f"call {call}" for call in calls)))
    done: list[Node] = []
    for question in (directed, BERTH):
        collector = Told()
        asked = {"messages": [("user", question)]}
        config = {"callbacks": [collector], "configurable": {"thread_id": "port"}}
        if is_streamed:
            async for _ in port.astream(asked, config, stream_mode="messages", subgraphs=True):
                pass
        else:
            await port.ainvoke(asked, config)
        said = (await port.aget_state(config)).values["messages"][-1].text
        done.append(run_of(question, str(said), *collector.list_below(None)))
    return done


if __name__ == "__main__":
    answer(ask)
