"""Talks with an agent of the OpenAI Agents SDK in a Realtime session, and prints what happened.

The argument is the URL of the session. A line of JSON has the tools that were called, what the
conversation is at the end, and how much sound there was.
"""

import asyncio
import json
import sys
from typing import Any

from agents import function_tool, set_tracing_disabled
from agents.realtime import RealtimeAgent, RealtimeRunner


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"{city}: sun"


async def talk(url: str) -> dict[str, object]:
    """Ask for the weather, and hear what the agent says when it has used its tool."""
    set_tracing_disabled(disabled=True)  # traces would go to OpenAI
    agent = RealtimeAgent(
        name="Sailor", instructions="Be brief.", tools=[function_tool(get_weather)]
    )
    model = {"api_key": "k", "url": url, "initial_model_settings": {"turn_detection": None}}
    tools, sounds, errors = [], 0, []
    items: dict[str, Any] = {}
    async with await RealtimeRunner(agent).run(model_config=model) as session:
        await session.send_message("How is the weather?")
        async for event in session:
            match event.type:
                case "tool_end":
                    tools.append([event.tool.name, event.arguments, event.output])
                case "audio":
                    sounds += len(event.audio.data)
                case "error":
                    errors.append(str(event.error))
                case "history_updated":
                    items |= {item.item_id: item for item in event.history}
                case "agent_end" if sounds:
                    break
    said = [
        [item.role, [part.transcript or part.text for part in item.content]]
        for item in items.values()
        if item.type == "message"
    ]
    return {"tools": tools, "said": said, "sounds": sounds, "errors": errors}


print(json.dumps(asyncio.run(talk(sys.argv[1]))))
