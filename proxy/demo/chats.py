"""A handful of real chats: one of each kind that a trace view has to show.

Each is told in the words of the *client*, so that a reader can hold it against what spantap
recorded.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from codec.text.jsontext import decode_json_object
from proxy.demo.clients import CHATS, MESSAGES, RESPONSES, ChatError, is_sdk_installed, open_client
from proxy.demo.script import ENDLESS_MODEL, ERROR_MODEL, MODEL, REASONING_MODEL

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from codec.text.jsontext import JsonObject
    from proxy.demo.clients import ChatClient

__all__ = ("CALL_COUNT", "run_chats")

CALL_COUNT = 9
"""How many calls :func:`run_chats` makes: the tools' chat takes two."""

CHUNKS_BEFORE_LEAVING = 8
"""How many chunks the impatient client waits for."""

_SYSTEM = {"role": "system", "content": "You are a friendly guide. Answer in one short sentence."}
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


async def run_chats(
    base_url: str, *, use_sdk: bool | None = None
) -> AsyncGenerator[tuple[str, str]]:
    """Have the chats one after the other; of each its title, and one line of what came back.

    Args:
        base_url: where the server is, e.g. ``http://127.0.0.1:4000/v1``.
        use_sdk: chat with the ``openai`` package; by default where it is installed.

    Raises:
        OSError: nobody answers there (the SDK raises its own ``APIConnectionError``).
    """
    use_sdk = is_sdk_installed() if use_sdk is None else use_sdk
    async with open_client(base_url, use_sdk=use_sdk) as client:
        for title, chat in _CHATS.items():
            yield title, await chat(client)


async def _chat_plainly(client: ChatClient) -> str:
    completion = await client.ask(CHATS, model=MODEL, messages=_ask("Hello, who are you?"))
    choice = completion["choices"][0]
    usage = completion["usage"]
    tokens = f"{usage['prompt_tokens']} + {usage['completion_tokens']} tokens"
    return f"{_quote(choice['message']['content'])} ({choice['finish_reason']}, {tokens})"


async def _chat_streamed(client: ChatClient) -> str:
    reply = await _read(client, model=MODEL, messages=_ask("Hello again, slowly please."))
    return f"{_quote(reply.text)} ({reply.finish_reason}, {reply.chunk_count} chunks)"


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
    return f"called {names}; then {_quote(final.text)} ({final.finish_reason})"


async def _chat_refused(client: ChatClient) -> str:
    reply = await _read(client, model=MODEL, messages=_ask("How do I break into a house?"))
    return f"refused: {_quote(reply.refusal)} ({reply.finish_reason})"


async def _chat_failing(client: ChatClient) -> str:
    try:
        await client.ask(CHATS, model=ERROR_MODEL, messages=_ask("Are you there?"))
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
    return f"{_quote(text)} ... and left after {chunk_count} chunks"


async def _respond(client: ChatClient) -> str:
    """Ask by the Responses API, which OpenAI's newer clients use."""
    response = await client.ask(
        RESPONSES,
        model=REASONING_MODEL,
        instructions=_SYSTEM["content"],
        input="Hello, and think before you answer.",
    )
    texts = [
        part["text"]
        for item in response["output"]
        for part in item.get("content") or ()
        if part["type"] == "output_text"
    ]
    items = ", ".join(item["type"] for item in response["output"])
    return f"{_quote(' '.join(texts))} ({response['status']}, {items})"


async def _send_message(client: ChatClient) -> str:
    """Ask by Anthropic's Messages."""
    message = await client.ask(
        MESSAGES,
        model=MODEL,
        max_tokens=100,
        system=_SYSTEM["content"],
        messages=_ask("Hello from another API."),
    )
    texts = [block["text"] for block in message["content"] if block["type"] == "text"]
    return f"{_quote(' '.join(texts))} ({message['stop_reason']})"


_CHATS: dict[str, Callable[[ChatClient], Awaitable[str]]] = {
    "plain": _chat_plainly,
    "streamed": _chat_streamed,
    "streamed, two tool calls": _chat_with_tools,
    "response": _respond,
    "message": _send_message,
    "refusal": _chat_refused,
    "upstream error": _chat_failing,
    "abandoned": _chat_abandoned,
}


@dataclass(slots=True, kw_only=True)
class _Reply:
    """The first choice of a stream, as a client puts it together."""

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
    return [_SYSTEM, {"role": "user", "content": question}]


def _quote(text: str) -> str:
    return f'"{text}"'
