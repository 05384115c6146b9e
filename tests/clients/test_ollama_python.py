"""The real ``ollama`` package speaks through the proxy: each call is one true record."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import ollama
import pytest
import pytest_asyncio

from codec.text.jsontext import decode_json
from proxy.demo.script import ENDLESS_MODEL, ERROR_MODEL, FAILING_MODEL, MODEL, REASONING_MODEL
from telemetry.observing.exchange import Outcome
from tests.clients.stage import TOOLS, Stage, open_stage
from tests.corpus.ollama_oracle import expect_chat_span, expect_text_span
from tests.corpus.recordings import Recording
from tests.corpus.spans import select_attributes
from tests.telemetry.exchanges import build_exchange_attributes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from telemetry.observing.exchange import Exchange

HELLO: dict[str, Any] = {
    "model": MODEL,
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Ahoy?"},
    ],
}
REQUESTS: dict[str, dict[str, Any]] = {
    "text": HELLO,
    "tools": HELLO | {"tools": TOOLS},
    "thinking": HELLO | {"model": REASONING_MODEL},
    "thinking and tools": HELLO | {"model": REASONING_MODEL, "tools": TOOLS},
    "cut": HELLO | {"options": {"num_predict": 3}},
}
PROMPT: dict[str, Any] = {"model": MODEL, "prompt": "Ahoy?", "system": "Be brief."}

with_requests = pytest.mark.parametrize("name", REQUESTS)


@pytest_asyncio.fixture(name="stage")
async def _stage() -> AsyncIterator[Stage]:
    async with open_stage() as stage:
        yield stage


@contextlib.asynccontextmanager
async def client_of(url: str) -> AsyncIterator[Any]:
    """A client that trusts nothing but its arguments."""
    client: Any = ollama.AsyncClient(url.removesuffix("/v1"), trust_env=False)
    try:
        yield client
    finally:
        await client.close()


def check_record(
    exchange: Exchange, answer: Any, expect: Callable[[Recording], dict[str, Any]]
) -> None:
    """The span says what the answer says that the client made of it."""
    assert (exchange.outcome, exchange.anomalies, exchange.rewrites) == (Outcome.COMPLETED, (), ())
    body = answer.model_dump_json(exclude_none=True).encode()
    expected = expect(Recording(id="", request=b'{"stream": false}', body=body))
    shown = select_attributes(build_exchange_attributes(exchange))
    identity = {name: value for name, value in shown.items() if name.endswith("tool_call.id")}
    assert shown == select_attributes(expected) | identity  # the package has no ids of calls


def check_input(exchange: Exchange) -> None:
    """The span has the conversation."""
    shown = build_exchange_attributes(exchange)
    assert shown["llm.input_messages.0.message.content"] == "Be brief."
    assert shown["llm.system"] == "ollama"


@with_requests
async def test_a_plain_chat(stage: Stage, name: str) -> None:
    """As direct."""
    async with client_of(stage.proxied_url) as client:
        answer = await client.chat(**REQUESTS[name])
    exchange = await stage.sink.wait_for()
    check_record(exchange, answer, expect_chat_span)
    check_input(exchange)
    async with client_of(stage.direct_url) as client:
        direct = await client.chat(**REQUESTS[name])
    assert (direct.message, direct.eval_count) == (answer.message, answer.eval_count)


@with_requests
async def test_a_streamed_chat(stage: Stage, name: str) -> None:
    """The pieces that the client hears, put together, and the span agree."""
    said: dict[str, Any] = {"content": "", "thinking": "", "tool_calls": []}
    async with client_of(stage.proxied_url) as client:
        async for part in await client.chat(**REQUESTS[name], stream=True):
            said["content"] += part.message.content or ""
            said["thinking"] += part.message.thinking or ""
            said["tool_calls"] += part.message.tool_calls or []
    whole = part.message.model_copy(update={key: value for key, value in said.items() if value})
    exchange = await stage.sink.wait_for()
    check_record(exchange, part.model_copy(update={"message": whole}), expect_chat_span)
    check_input(exchange)
    assert exchange.streamed


@with_requests
async def test_the_lines_are_those_that_come_directly(stage: Stage, name: str) -> None:
    """One by one."""
    heard = []
    for url in (stage.direct_url, stage.proxied_url):
        async with client_of(url) as client:
            stream = await client.chat(**REQUESTS[name], stream=True)
            heard.append([part.model_dump(exclude={"created_at"}) async for part in stream])
    assert heard[0] == heard[1]


@pytest.mark.parametrize("streams", [False, True])
async def test_a_text_from_a_prompt(stage: Stage, *, streams: bool) -> None:
    """Whole, or in pieces."""
    async with client_of(stage.proxied_url) as client:
        answer: Any = await client.generate(**PROMPT, stream=streams)
        if streams:
            parts = [part async for part in answer]
            text = "".join(part.response for part in parts)
            answer = parts[-1].model_copy(update={"response": text})
    exchange = await stage.sink.wait_for()
    check_record(exchange, answer, expect_text_span)
    shown = build_exchange_attributes(exchange)
    assert shown["llm.prompts.0.prompt.text"] == "Ahoy?"
    parameters = decode_json(str(shown["llm.invocation_parameters"]))
    assert parameters["system"] == "Be brief."


async def test_a_conversation_with_tools(stage: Stage) -> None:
    """Calls and their results, of the client's own making, are messages of the next request."""
    async with client_of(stage.proxied_url) as client:
        first = await client.chat(**REQUESTS["thinking and tools"])
        results = [
            {"role": "tool", "tool_name": call.function.name, "content": "Sun."}
            for call in first.message.tool_calls
        ]
        turns = [*HELLO["messages"], first.message, *results]
        await client.chat(**HELLO | {"messages": turns, "tools": TOOLS})
    shown = build_exchange_attributes(await stage.sink.wait_for(2))
    roles = [value for key, value in shown.items() if key.endswith(".message.role")]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant"]
    names = [value for key, value in shown.items() if key.endswith(".message.name")]
    assert names == ["get_weather", "get_weather"]
    asked = "llm.input_messages.2.message.tool_calls.1.tool_call.function.arguments"
    assert shown[asked] == '{"city":"Oslo","days":2}'


async def test_a_chat_that_fails_and_one_that_is_refused(stage: Stage) -> None:
    """The first inside a 200, in a stream; the second by its status."""
    async with client_of(stage.proxied_url) as client:
        stream = await client.chat(**HELLO | {"model": FAILING_MODEL}, stream=True)
        with pytest.raises(ollama.ResponseError, match="asked to fail"):
            [part async for part in stream]
        failed = await stage.sink.wait_for(1)
        with pytest.raises(ollama.ResponseError, match="Rate limit"):
            await client.chat(**HELLO | {"model": ERROR_MODEL})
    assert (failed.outcome, failed.error_type) == (Outcome.STREAM_ERROR, "stream_error")
    refused = await stage.sink.wait_for(2)
    assert (refused.outcome, refused.error_type) == (Outcome.UPSTREAM_ERROR, "429")


async def test_a_client_that_leaves(stage: Stage) -> None:
    """What came until then is on the span, without a count, and it is no error."""
    heard = ""
    async with client_of(stage.proxied_url) as client:
        stream = await client.chat(**HELLO | {"model": ENDLESS_MODEL}, stream=True)
        async for part in stream:
            heard += part.message.content
            if len(heard) > 20:
                break
        await stream.aclose()
    exchange = await stage.sink.wait_for()
    assert (exchange.outcome, exchange.error_type) == (Outcome.CLIENT_DISCONNECTED, None)
    shown = build_exchange_attributes(exchange)
    assert str(shown["llm.output_messages.0.message.content"]).startswith(heard)
    assert not [key for key in shown if key.startswith("llm.token_count")]
