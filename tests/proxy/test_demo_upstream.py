"""The demo upstream over real sockets: OpenAI's shapes and endings."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer
from openai.types.chat import ChatCompletion, ChatCompletionMessageCustomToolCall

from codec.text.jsontext import decode_json_object
from proxy.demo.script import (
    ENDLESS_MODEL,
    ERROR_MODEL,
    FAILING_MODEL,
    MAX_ENDLESS_NUMBER,
    MODEL,
    REASONING_MODEL,
)
from proxy.demo.upstream import Pace, create_demo_upstream
from tests.proxy.demo_client import ask, complete, demo_client, prompt, stream, text_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.proxy.demo_client import Client


TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer"},
                "unit": {"enum": ["celsius"]},
                "odd": True,
            }
        },
    },
}
SECOND_TOOL = {"type": "function", "function": {"name": "get_time"}}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with demo_client() as client:
        yield client


async def test_plain_answer_has_openai_shape(client: Client) -> None:
    """A plain answer is one chat.completion with message, finish reason and detailed usage."""
    completion = await complete(client, ask("Hello over there"))
    (choice,) = completion["choices"]
    words = len(choice["message"]["content"].split())
    assert completion["object"] == "chat.completion"
    assert completion["id"].startswith("chatcmpl-")
    assert completion["model"] == MODEL
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["refusal"] is None
    assert choice["finish_reason"] == "stop"
    assert completion["usage"]["prompt_tokens"] == 4, "user, Hello, over, there"
    assert completion["usage"]["completion_tokens"] == words
    assert completion["usage"]["total_tokens"] == 4 + words
    assert completion["usage"]["prompt_tokens_details"] == {"cached_tokens": 0, "audio_tokens": 0}


@pytest.mark.parametrize(
    "base",
    ["", "/v1", "/api/v1", "/openai/v1", "/openai/deployments/some-model"],
)
async def test_chats_and_prompts_are_taken_below_every_path(client: Client, base: str) -> None:
    """Providers have them in different places, and a dialect may be played at its own."""
    for path, request, kind in (
        ("chat/completions", ask(), "chat.completion"),
        ("completions", prompt(), "text_completion"),
    ):
        async with client.post(f"{base}/{path}?api-version=1", json=request) as response:
            assert response.status == 200
            assert decode_json_object(await response.read())["object"] == kind
    async with client.post(f"{base}/xcompletions", json=prompt()) as response:
        assert response.status == 404


async def test_stream_and_plain_say_the_same(client: Client) -> None:
    """The same request gets the same words, streamed or not."""
    completion = await complete(client, ask())
    chunks = await stream(client, ask())
    assert text_of(chunks) == completion["choices"][0]["message"]["content"]


async def test_usage_chunk_comes_last_only_when_asked(client: Client) -> None:
    """With include_usage a chunk without choices has the usage, and the others say null."""
    *others, last = await stream(client, ask(stream_options={"include_usage": True}))
    plain = await complete(client, ask())
    assert last["choices"] == []
    assert last["usage"] == plain["usage"]
    assert all(chunk["usage"] is None for chunk in others)


async def test_system_message_counts_as_cached(client: Client) -> None:
    """The words of a leading system message are the cached prompt tokens."""
    request = ask()
    request["messages"].insert(0, {"role": "system", "content": "Be very brief"})
    usage = (await complete(client, request))["usage"]
    assert usage["prompt_tokens"] == 6
    assert usage["prompt_tokens_details"]["cached_tokens"] == 3


async def test_plain_tool_calls_name_the_offered_functions(client: Client) -> None:
    """Two functions are called once each, a single one twice; without parameters it gets ``{}``."""
    completion = await complete(client, ask(tools=[TOOL, SECOND_TOOL]))
    (choice,) = completion["choices"]
    calls = choice["message"]["tool_calls"]
    assert [call["function"]["name"] for call in calls] == ["get_weather", "get_time"]
    assert calls[1]["function"]["arguments"] == "{}"
    (single,) = (await complete(client, ask(tools=[TOOL])))["choices"]
    calls = single["message"]["tool_calls"]
    assert [decode_json_object(call["function"]["arguments"]) for call in calls] == [
        {"city": "Lisbon", "days": 1, "unit": "celsius", "odd": "Lisbon"},
        {"city": "Oslo", "days": 2, "unit": "celsius", "odd": "Oslo"},
    ]
    assert choice["message"]["content"] is None
    assert choice["finish_reason"] == "tool_calls"


async def test_one_tool_call_when_parallel_calls_are_off(client: Client) -> None:
    """``parallel_tool_calls: false`` is obeyed."""
    completion = await complete(client, ask(tools=[TOOL], parallel_tool_calls=False))
    assert len(completion["choices"][0]["message"]["tool_calls"]) == 1


async def test_tool_choice_none_gets_text(client: Client) -> None:
    """``tool_choice: none`` is obeyed."""
    completion = await complete(client, ask(tools=[TOOL], tool_choice="none"))
    assert completion["choices"][0]["finish_reason"] == "stop"


async def test_tool_results_are_summed_up(client: Client) -> None:
    """Tool results get a final text that repeats them in order, tools offered or not."""
    request = ask(tools=[TOOL])
    request["messages"] += [
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "tool_call_id": "a", "content": "24 degrees"},
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "8 degrees"}]},
    ]
    chunks = await stream(client, request)
    assert text_of(chunks) == "This is what the tools told me: 24 degrees; 8 degrees."
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


async def test_only_tool_messages_are_summed_up(client: Client) -> None:
    """A chat of nothing but tool results does not fail."""
    request = {"model": MODEL, "messages": [{"role": "tool", "content": "x"}]}
    completion = await complete(client, request)
    assert completion["choices"][0]["message"]["content"].endswith("told me: x.")


async def test_plain_refusal_has_no_content(client: Client) -> None:
    """The same refusal unstreamed: text in ``refusal``, ``content`` null."""
    completion = await complete(client, ask("How do I pick a lock?"))
    message = completion["choices"][0]["message"]
    assert message["content"] is None
    assert message["refusal"].startswith("I'm sorry")


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
async def test_token_limit_cuts_the_answer(client: Client, limit: str) -> None:
    """The first tokens are kept, the finish reason is ``length``, usage counts them."""
    completion = await complete(client, ask() | {limit: 2})
    (choice,) = completion["choices"]
    assert choice["message"]["content"] == "Hello! I"
    assert choice["finish_reason"] == "length"
    assert completion["usage"]["completion_tokens"] == 2


async def test_choices_have_texts_of_their_own(client: Client) -> None:
    """``n`` gives as many choices with texts of their own, and one usage for all."""
    chunks = await stream(client, ask(n=2, stream_options={"include_usage": True}))
    texts = [text_of(chunks, index) for index in (0, 1)]
    assert texts[0] != texts[1]
    assert chunks[-1]["usage"]["completion_tokens"] == sum(len(t.split()) for t in texts)
    completion = await complete(client, ask(n=2))
    assert [c["message"]["content"] for c in completion["choices"]] == texts


async def test_endless_stream_is_bounded(client: Client) -> None:
    """The endless model counts up to a limit, so that nothing hangs for ever."""
    chunks = await stream(client, ask(model=ENDLESS_MODEL))
    assert text_of(chunks).split()[-1] == str(MAX_ENDLESS_NUMBER)


async def test_client_may_leave_an_endless_stream() -> None:
    """A client that hangs up harms nobody: the server goes on answering."""
    app = create_demo_upstream(pace=Pace(first_seconds=0, chunk_seconds=0.001))
    async with TestServer(app) as server, ClientSession() as session:
        url = server.make_url("/v1/chat/completions")
        request = ask(model=ENDLESS_MODEL, stream=True)
        async with session.post(url, json=request) as response:
            assert (await response.content.readline()).startswith(b"data: {")
        async with session.get(server.make_url("/v1/models")) as response:
            assert response.status == 200


async def test_models_are_listed(client: Client) -> None:
    """``GET /v1/models`` lists the names that the script knows."""
    async with client.get("/v1/models") as response:
        listing = await response.json()
    names = [MODEL, REASONING_MODEL, ENDLESS_MODEL, ERROR_MODEL, FAILING_MODEL]
    assert [model["id"] for model in listing["data"]] == names


async def test_pace_is_kept() -> None:
    """The first byte waits for the first pause; the whole takes the pauses between as well."""
    pace = Pace(first_seconds=0.05, chunk_seconds=0.002)
    async with demo_client(pace=pace) as client:
        start = time.monotonic()
        async with client.post("/v1/chat/completions", json=ask(stream=True)) as response:
            await response.content.readline()
            first = time.monotonic() - start
            await response.read()
        assert first >= 0.05
        assert time.monotonic() - start >= 0.05 + 10 * 0.002


async def test_reasoning_is_counted_but_not_told(client: Client) -> None:
    """OpenAI's chats do not tell it, whoever asks for it; its tokens count."""
    plain = await complete(client, ask())
    for request in (ask(model=REASONING_MODEL), ask(reasoning_effort="low")):
        completion = await complete(client, request)
        usage = completion["usage"]
        thought = usage["completion_tokens_details"]["reasoning_tokens"]
        assert thought == 11
        assert usage["completion_tokens"] == plain["usage"]["completion_tokens"] + thought
        assert completion["choices"][0]["message"] == plain["choices"][0]["message"]
    unasked = await complete(client, ask(reasoning_effort="none"))
    assert unasked["usage"] == plain["usage"]


async def test_logprobs_come_with_the_tokens(client: Client) -> None:
    """One for each token of text, with as many alternatives as asked for."""
    for question in ("Hello", "How do I pick a lock?"):
        completion = await complete(client, ask(question, logprobs=True, top_logprobs=3))
        choice = completion["choices"][0]
        entries = choice["logprobs"]["content"] or choice["logprobs"]["refusal"]
        text = choice["message"]["content"] or choice["message"]["refusal"]
        assert "".join(entry["token"] for entry in entries) == text
        for entry in entries:
            tops = [top["token"] for top in entry["top_logprobs"]]
            assert (len(tops), tops[0]) == (3, entry["token"])
    (choice,) = (await complete(client, ask(logprobs=True)))["choices"]
    assert all(entry["top_logprobs"] == [] for entry in choice["logprobs"]["content"])
    (choice,) = (await complete(client, ask(tools=[TOOL], logprobs=True)))["choices"]
    assert choice["logprobs"] is None


# Legacy completions


async def test_legacy_completions_are_answered(client: Client) -> None:
    """Each prompt gets as many texts as asked for, and all are one answer."""
    request = prompt(["One", "Two more"], n=2, max_tokens=3, logprobs=2)
    async with client.post("/v1/completions", json=request) as response:
        completion = await response.json()
    assert completion["object"] == "text_completion"
    assert completion["id"].startswith("cmpl-")
    choices = completion["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2, 3]
    assert [choice["text"] for choice in choices[:2]] == ["Hello! I am", "Good day! Every"]
    assert {choice["finish_reason"] for choice in choices} == {"length"}
    assert choices[0]["logprobs"]["tokens"] == ["Hello!", " I", " am"]
    assert completion["usage"]["prompt_tokens"] == 3
    assert completion["usage"]["completion_tokens"] == 12


@pytest.mark.parametrize("dialect", ["openai", "gemini", "vllm"])
async def test_a_custom_tool_is_called_with_free_text(dialect: str) -> None:
    """Whole and streamed, in a call such as the SDK reads: ``input``, and no ``arguments``."""
    tools = [{"type": "custom", "custom": {"name": "patch"}}, TOOL]
    request = ask('call patch "two  words\\n"', tools=tools)
    async with demo_client(dialect) as client:
        whole = ChatCompletion.model_validate(await complete(client, request))
        chunks = await stream(client, request)
    [call] = whole.choices[0].message.tool_calls or []
    assert isinstance(call, ChatCompletionMessageCustomToolCall)
    assert (call.type, call.custom.name, call.custom.input) == ("custom", "patch", "two  words\n")
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    pieces = [entry for delta in deltas for entry in delta.get("tool_calls") or ()]
    assert {piece.get("type", "custom") for piece in pieces} == {"custom"}
    assert "".join(piece["custom"]["input"] for piece in pieces) == "two  words\n"
    assert not any("function" in piece for piece in pieces)


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_compaction_that_is_asked_for_is_the_answer(
    client: Client, is_streamed: bool
) -> None:
    """An input that ends with ``compaction_trigger``, as Codex's, gets that one item."""
    items = [{"role": "user", "content": "Hello"}, {"type": "compaction_trigger"}]
    request = {"model": MODEL, "input": items, "stream": is_streamed}
    async with client.post("/v1/responses", json=request) as response:
        assert response.status == 200
        body = await response.read()
    if is_streamed:
        *_, end = body.strip().split(b"\n\n")
        answer = decode_json_object(end.partition(b"data: ")[2])["response"]
    else:
        answer = decode_json_object(body)
    [item] = answer["output"]
    assert (item["type"], answer["status"]) == ("compaction", "completed")
    assert item["encrypted_content"]
