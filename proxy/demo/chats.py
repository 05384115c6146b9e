"""Some real chats: one of each kind that a trace view has to show."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from codec.text.jsontext import decode_json_object
from proxy.demo.clients import CHAT_COMPLETIONS, ChatError
from proxy.demo.script import ENDLESS_MODEL, ERROR_MODEL, MODEL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codec.text.jsontext import JsonObject
    from proxy.demo.clients import ChatClient

INSTRUCTIONS = "You are a friendly guide. Answer in one short sentence."
"""The instructions for the model, before any question."""


def ask_user(question: str) -> list[JsonObject]:
    """Make a list of messages from a question."""
    return [{"role": "user", "content": question}]


def describe_answer(said: str, *facts: object) -> str:
    """Describe an answer in one line: the facts first, because a narrow terminal cuts the end."""
    return f'{", ".join(map(str, facts))}: "{said}"'


CHUNKS_BEFORE_LEAVING = 8
"""After how many chunks the impatient client leaves."""

_WEATHER_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city, now.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "unit": {"type": "string", "enum": ["celsius"]},
            },
            "required": ["city"],
        },
    },
}
_WEATHER = {"Lisbon": "24 degrees and sunny", "Oslo": "8 degrees and rain"}


async def _chat_plainly(client: ChatClient) -> str:
    completion = await client.ask(
        CHAT_COMPLETIONS, model=MODEL, messages=_ask("Hello, who are you?")
    )
    choice = completion["choices"][0]
    usage = completion["usage"]
    tokens = f"{usage['prompt_tokens']} + {usage['completion_tokens']} tokens"
    return describe_answer(choice["message"]["content"], choice["finish_reason"], tokens)


async def _chat_streamed(client: ChatClient) -> str:
    reply = await _read(client, model=MODEL, messages=_ask("Hello again, slowly please."))
    return describe_answer(reply.text, reply.finish_reason, f"{reply.chunk_count} chunks")


async def _chat_with_tools(client: ChatClient) -> str:
    messages = _ask("What is the weather like in Lisbon and in Oslo?")
    request: JsonObject = {"model": MODEL, "tools": [_WEATHER_TOOL], "temperature": 0.2}
    first = await _read(client, **request, messages=messages)
    messages.append({"role": "assistant", "content": None, "tool_calls": first.tool_calls})
    for call in first.tool_calls:
        city = decode_json_object(call["function"]["arguments"])["city"]
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": _WEATHER[city]})
    final = await _read(client, **request, messages=messages)
    names = ", ".join(call["function"]["name"] for call in first.tool_calls)
    return describe_answer(final.text, f"{names}; then {final.finish_reason}")


async def _chat_refused(client: ChatClient) -> str:
    reply = await _read(client, model=MODEL, messages=_ask("How do I break into a house?"))
    return describe_answer(reply.refusal, reply.finish_reason)


async def _chat_failing(client: ChatClient) -> str:
    try:
        await client.ask(CHAT_COMPLETIONS, model=ERROR_MODEL, messages=_ask("Are you there?"))
    except ChatError as error:
        return f"HTTP {error.status}: {error.message}"
    return "no error, though one was expected"


async def _chat_abandoned(client: ChatClient) -> str:
    request = {"model": ENDLESS_MODEL, "messages": _ask("Count for me, and do not stop.")}
    text, chunk_count = "", 0
    async with aclosing(client.stream(**request)) as chunks:
        async for chunk in chunks:
            text += chunk["choices"][0]["delta"].get("content") or ""
            chunk_count += 1
            if chunk_count == CHUNKS_BEFORE_LEAVING:
                break
    return describe_answer(text, f"left after {chunk_count} chunks")


CHATS: dict[str, Callable[[ChatClient], Awaitable[str]]] = {
    "chat": _chat_plainly,
    "streamed": _chat_streamed,
    "two tool calls": _chat_with_tools,
    "refusal": _chat_refused,
    "upstream error": _chat_failing,
    "abandoned": _chat_abandoned,
}
"""The title of each chat, and the function that has it."""


@dataclass(slots=True, kw_only=True)
class _Reply:
    """The first choice of a stream, as a client joins it from chunks."""

    text: str = ""
    refusal: str = ""
    tool_calls: list[JsonObject] = field(default_factory=list)
    finish_reason: str | None = None
    chunk_count: int = 0


async def _read(client: ChatClient, **request: Any) -> _Reply:
    reply = _Reply()
    async with aclosing(client.stream(**request)) as chunks:
        async for chunk in chunks:
            reply.chunk_count += 1
            for choice in chunk["choices"]:
                reply.finish_reason = choice["finish_reason"] or reply.finish_reason
                reply.text += choice["delta"].get("content") or ""
                reply.refusal += choice["delta"].get("refusal") or ""
                for part in choice["delta"].get("tool_calls") or ():
                    _add_tool_call(reply.tool_calls, part)
    return reply


def _add_tool_call(calls: list[JsonObject], part: JsonObject) -> None:
    if part["index"] == len(calls):
        calls.append({"id": part["id"], "type": "function", "function": dict(part["function"])})
    else:
        calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]


def _ask(question: str) -> list[JsonObject]:
    return [{"role": "system", "content": INSTRUCTIONS}, *ask_user(question)]
