"""An agent as people write them, by the real SDK, which keeps a log of what it did.

It runs the tools of an answer at once. A tool may ask a pilot, who is an agent of its own.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from codec.text.jsontext import decode_json_object
from proxy.demo.script import MODEL
from tests.run_trees import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import openai

    from codec.text.jsontext import JsonObject

__all__ = ("LEAVING", "PROMPT", "Agent", "Counted", "make_pilot", "make_skipper")

LEAVING = "I sail to Lisbon on Saturday. What should I know?"
PROMPT = "Tell me how deep the entrance of the port of Lisbon is, and when the tide is high."
BERTHS = (
    "Ask the harbour master of Cascais whether there is a berth for Emma, ten metres long.",
    "Ask the harbour master of Oeiras whether there is a berth for Emma, ten metres long.",
)
TOOL_SECONDS = 0.15
"""A tool takes its time, so that its bar is to be seen."""


def _tool(name: str, description: str, **values: Sequence[str]) -> JsonObject:
    """A tool; the demo upstream calls it with one of these values of each argument."""
    properties = {key: {"type": "string", "enum": [*them]} for key, them in values.items()}
    parameters = {"type": "object", "properties": properties, "required": [*values]}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


class Counted:
    """How many tokens the client was told of, in prompts and in answers."""

    def __init__(self) -> None:
        self.prompt = self.completion = 0

    def add(self, usage: Any) -> None:
        """Add those of one call."""
        self.prompt += usage.prompt_tokens
        self.completion += usage.completion_tokens


class Agent:
    """An agent with a conversation.

    Args:
        client: of the API.
        instructions: its system message.
        tools: by name what a tool does with its arguments: its result, and what it did for it.
        counted: where its tokens are added, and those of agents below it.
        is_streaming: its answers are streamed.
    """

    def __init__(
        self,
        client: openai.OpenAI,
        instructions: str,
        tools: Mapping[str, Callable[[JsonObject], tuple[str, Node | None]]],
        counted: Counted,
        *,
        is_streaming: bool = False,
    ) -> None:
        self._client = client
        self._tools = tools
        self._counted = counted
        self._is_streaming = is_streaming
        self._messages: list[Any] = [{"role": "system", "content": instructions}]

    def ask(self, question: str, *offered: JsonObject) -> tuple[str, Node]:
        """Ask, and go on until it calls no more tool: the answer, and what it did."""
        self._messages.append({"role": "user", "content": question})
        done: list[Node] = []
        while True:
            message = self._call(offered, done)
            self._messages.append(message)
            calls = message.get("tool_calls")
            if not calls:
                break
            with ThreadPoolExecutor() as threads:
                for call, (result, node) in zip(calls, threads.map(self._use, calls), strict=True):
                    said = {"role": "tool", "tool_call_id": call["id"], "content": result}
                    self._messages.append(said)
                    done.append(node)
        answer = message["content"]
        return answer, done[0] if len(done) == 1 else Node.of_run(question, answer, *done)

    def _call(self, offered: Iterable[JsonObject], done: list[Node]) -> dict[str, Any]:
        options: dict[str, Any] = {"tools": [*offered]} if offered else {}
        asked = {"model": MODEL, "messages": self._messages, **options}
        if self._is_streaming:
            with self._client.chat.completions.stream(
                **asked, stream_options={"include_usage": True}
            ) as events:
                completion: Any = events.get_final_completion()
        else:
            completion = self._client.chat.completions.create(**asked)
        done.append(Node.of_call(completion.id))
        self._counted.add(completion.usage)
        given: dict[str, Any] = completion.choices[0].message.model_dump(exclude_none=True)
        calls = [
            {
                "id": call["id"],
                "type": "function",
                "function": {name: call["function"][name] for name in ("name", "arguments")},
            }
            for call in given.get("tool_calls") or ()
        ]
        said = {"role": "assistant", "content": given.get("content")}
        return said | ({"tool_calls": calls} if calls else {})

    def _use(self, call: Any) -> tuple[str, Node]:
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        members = decode_json_object(arguments)
        time.sleep(TOOL_SECONDS)
        result, done = self._tools[name](members)
        below = () if done is None else (done,)
        return result, Node.of_tool(name, members, result, *below)


def make_pilot(client: openai.OpenAI, counted: Counted) -> Agent:
    """A pilot: looks up the chart and the tides."""
    found = {
        "look_up_depth": "11.5 metres over the bar",
        "look_up_tides": "high at 04:12 and 16:38, 3.4 metres",
    }
    tools = {name: (lambda _, it=text: (it, None)) for name, text in found.items()}
    return Agent(client, "You are a pilot of the port.", tools, counted, is_streaming=True)


def make_skipper(client: openai.OpenAI, counted: Counted) -> Agent:
    """A skipper: knows the weather, and asks a pilot what he does not know himself."""

    def ask_pilot(arguments: JsonObject) -> tuple[str, Node | None]:
        prompt = arguments["prompt"]
        offered = PILOTS_TOOLS if prompt == PROMPT else ()
        return make_pilot(client, counted).ask(prompt, *offered)

    return Agent(
        client,
        "You are a skipper. Answer briefly.",
        {"get_weather": lambda _: ("north wind, 15 knots; sunny", None), "ask_pilot": ask_pilot},
        counted,
    )


WEATHER = _tool("get_weather", "The weather at a place.", place=["Lisbon"])
ASK_PILOT = _tool("ask_pilot", "Has a pilot find something out.", prompt=[PROMPT])
ASK_FOR_BERTHS = _tool("ask_pilot", "Has a pilot find something out.", prompt=BERTHS)
PILOTS_TOOLS = (
    _tool("look_up_depth", "The depth at a place.", place=["Barra Sul"]),
    _tool("look_up_tides", "The tides at a place.", place=["Cascais"]),
)
