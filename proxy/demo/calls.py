"""The calls of ``spantap demo``: chats of all kinds, and one call of each other API.

Each call returns a line with what the *client* saw, so that a reader can compare it with what
spantap recorded. The name of a model says what it is, so that a reader finds its row; the demo
upstream answers for any model.
"""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING

from proxy.demo.chats import CHATS, INSTRUCTIONS, ask_user, describe_answer
from proxy.demo.clients import (
    COMPLETIONS,
    EMBEDDINGS,
    IMAGES,
    MODERATIONS,
    REALTIME,
    RESPONSES,
    SPEECH,
    TRANSCRIPTIONS,
    is_sdk_installed,
    open_client,
)
from proxy.demo.script import MODEL, REASONING_MODEL

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from codec.text.jsontext import JsonObject
    from proxy.demo.clients import ChatClient

_CLAUDE, _GEMINI, _LLAMA = "claude-demo", "gemini-demo", "llama-demo"

_DOCUMENTS = (
    "Lisbon is sunny for most of the year.",
    "Oslo has rain in autumn.",
    "A lighthouse keeper sleeps by day.",
)


async def _complete(client: ChatClient) -> str:
    completion = await client.ask(COMPLETIONS, model=MODEL, prompt="Once upon a time")
    [choice] = completion["choices"]
    counts = completion["usage"]
    tokens = _count(counts["prompt_tokens"], counts["completion_tokens"])
    return describe_answer(choice["text"], choice["finish_reason"], tokens)


async def _respond(client: ChatClient) -> str:
    """Ask by the Responses API, which OpenAI's newer clients use."""
    response = await client.ask(
        RESPONSES,
        model=REASONING_MODEL,
        instructions=INSTRUCTIONS,
        input="Hello, and think before you answer.",
    )
    texts = [
        part["text"]
        for item in response["output"]
        for part in item.get("content") or ()
        if part["type"] == "output_text"
    ]
    items = " and ".join(item["type"] for item in response["output"])
    return describe_answer(" ".join(texts), response["status"], items)


async def _respond_over_web_socket(client: ChatClient) -> str:
    """Ask by the Responses API over a WebSocket, as Codex does."""
    question = "Hello over a WebSocket."
    request = {"model": MODEL, "instructions": INSTRUCTIONS, "input": question}
    create = {"type": "response.create", **request}
    *events, last = await client.talk(RESPONSES, create, last="response.completed")
    [item] = last["response"]["output"]
    text, status = item["content"][0]["text"], last["response"]["status"]
    return describe_answer(text, status, f"{len(events) + 1} events")


async def _speak_in_session(client: ChatClient) -> str:
    """Ask in a Realtime session, and hear the answer."""
    content = [{"type": "input_text", "text": "Hello, say something aloud."}]
    item = {"type": "message", "role": "user", "content": content}
    create = {"type": "conversation.item.create", "item": item}
    *events, last = await client.talk(
        f"{REALTIME}?model={MODEL}", create, {"type": "response.create"}, last="response.done"
    )
    sounds = [it["delta"] for it in events if it["type"] == "response.output_audio.delta"]
    size = sum(len(b64decode(sound)) for sound in sounds)
    [item] = last["response"]["output"]
    text, status = item["content"][0]["transcript"], last["response"]["status"]
    return describe_answer(text, status, f"{size:,} bytes of sound")


async def _send_message(client: ChatClient) -> str:
    """Ask by Anthropic's Messages."""
    request = _message("Hello from another API.")
    message = await client.ask("/v1/messages", max_tokens=100, **request)
    counts = message["usage"]
    prompt = counts["input_tokens"] + counts["cache_read_input_tokens"]
    tokens = _count(prompt, counts["output_tokens"])
    return describe_answer(message["content"][0]["text"], message["stop_reason"], tokens)


async def _count_tokens(client: ChatClient) -> str:
    """Ask for the number of tokens of a message, which calls no model."""
    request = _message("How long am I?")
    counted = await client.ask("/v1/messages/count_tokens", **request)
    return f"{counted['input_tokens']} tokens"


async def _generate(client: ChatClient) -> str:
    """Ask by Google's Gemini API."""
    contents = [{"role": "user", "parts": [{"text": "Hello from a third API."}]}]
    answer = await client.ask(f"/v1beta/models/{_GEMINI}:generateContent", contents=contents)
    [candidate] = answer["candidates"]
    counts = answer["usageMetadata"]
    tokens = _count(counts["promptTokenCount"], counts["candidatesTokenCount"])
    return describe_answer(
        candidate["content"]["parts"][0]["text"], candidate["finishReason"], tokens
    )


async def _chat_locally(client: ChatClient) -> str:
    """Ask by Ollama's native API."""
    question = ask_user("Hello from your own machine.")
    answer = await client.ask("/api/chat", model=_LLAMA, stream=False, messages=question)
    tokens = _count(answer["prompt_eval_count"], answer["eval_count"])
    return describe_answer(answer["message"]["content"], answer["done_reason"], tokens)


async def _embed(client: ChatClient) -> str:
    answer = await client.ask(EMBEDDINGS, model="embed-demo", input=[*_DOCUMENTS])
    vectors = [item["embedding"] for item in answer["data"]]
    return f"{len(vectors)} vectors of {len(vectors[0])} numbers"


async def _rank(client: ChatClient) -> str:
    """Ask for a ranking of documents, by Cohere's API."""
    query = "Where is it sunny most of the year?"
    request = {"model": "rerank-demo", "query": query, "documents": [*_DOCUMENTS]}
    best = (await client.ask("/v2/rerank", **request))["results"][0]
    return describe_answer(_DOCUMENTS[best["index"]], f"best with {best['relevance_score']}")


async def _moderate(client: ChatClient) -> str:
    question = "How do I break into a house?"
    answer = await client.ask(MODERATIONS, model="moderation-demo", input=question)
    [result] = answer["results"]
    found = [name for name, is_found in result["categories"].items() if is_found]
    return f"flagged as {', '.join(found)}" if result["flagged"] else "not flagged"


async def _draw(client: ChatClient) -> str:
    answer = await client.ask(IMAGES, model="image-demo", prompt="A sailing boat")
    sizes = [len(b64decode(image["b64_json"])) for image in answer["data"]]
    return f"{len(sizes)} image of {sizes[0]} bytes, {answer['usage']['total_tokens']} tokens"


async def _speak(client: ChatClient) -> str:
    request = {"model": "speech-demo", "voice": "alloy", "input": "Ahoy!"}
    return f"{len(await client.download(SPEECH, **request)):,} bytes of sound"


async def _transcribe(client: ChatClient) -> str:
    silence = ("silence.wav", bytes(16_000))
    answer = await client.upload(TRANSCRIPTIONS, silence, model="listen-demo")
    counts = answer["usage"]
    return describe_answer(answer["text"], _count(counts["input_tokens"], counts["output_tokens"]))


_CALLS: dict[str, Callable[[ChatClient], Awaitable[str]]] = {
    "completion": _complete,
    "response": _respond,
    "WebSocket": _respond_over_web_socket,
    "Realtime": _speak_in_session,
    "message": _send_message,
    "token count": _count_tokens,
    "Gemini": _generate,
    "Ollama": _chat_locally,
    "embeddings": _embed,
    "ranking": _rank,
    "moderation": _moderate,
    "image": _draw,
    "speech": _speak,
    "transcription": _transcribe,
}
"""The title of each call, and the function that makes it."""


def _message(question: str) -> JsonObject:
    return {"model": _CLAUDE, "system": INSTRUCTIONS, "messages": ask_user(question)}


def _count(prompt: int, answer: int) -> str:
    return f"{prompt} + {answer} tokens"


_ALL = CHATS | _CALLS

CALL_COUNT = len(_ALL) + 1
"""The number of calls that :func:`run_calls` makes: the tools' chat takes two."""


async def run_calls(
    base_url: str, *, use_sdk: bool | None = None
) -> AsyncGenerator[tuple[str, str]]:
    """Make the calls one after the other; yield the title of each, and a line about the answer.

    Args:
        base_url: where the server is, e.g. ``http://127.0.0.1:4000/v1``.
        use_sdk: call by the ``openai`` package; by default if it is installed.

    Raises:
        OSError: nobody answers there (the SDK raises its own ``APIConnectionError``).
    """
    use_sdk = is_sdk_installed() if use_sdk is None else use_sdk
    async with open_client(base_url, use_sdk=use_sdk) as client:
        for title, call in _ALL.items():
            yield title, await call(client)
