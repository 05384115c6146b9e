"""Asks an agent for the weather, and prints its answer.

The arguments say whose agent it is and how it is run, the environment where the API is.
"""

import asyncio
import sys

import agents
import pydantic_ai


def get_weather(city: str, days: int) -> str:
    """The weather in a city."""
    return f"{city}: sun for {days} days"


async def ask_openai(question: str, *, way: str) -> str:
    """An agent of the OpenAI Agents SDK."""
    if way == "websocket":
        agents.set_default_openai_responses_transport("websocket")
    agents.set_tracing_disabled(disabled=True)  # its traces would go to OpenAI
    tools = [agents.function_tool(get_weather)]
    agent = agents.Agent(name="Sailor", instructions="Be brief.", model="gpt-demo", tools=tools)
    if way == "plain":
        return str((await agents.Runner.run(agent, question)).final_output)
    running = agents.Runner.run_streamed(agent, question)
    async for _ in running.stream_events():
        pass
    return str(running.final_output)


async def ask_pydantic(question: str, *, way: str) -> str:
    """An agent of Pydantic AI."""
    agent = pydantic_ai.Agent("openai:gpt-demo", instructions="Be brief.", tools=[get_weather])
    if way == "plain":
        return str((await agent.run(question)).output)
    async with agent.run_stream(question) as running:
        return str(await running.get_output())


ask = {"openai": ask_openai, "pydantic": ask_pydantic}[sys.argv[1]]
print(asyncio.run(ask("Ahoy?", way=sys.argv[2])))
