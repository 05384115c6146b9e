"""The real ``anthropic`` SDK speaks Messages through the proxy: each call is one true record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anthropic
import pytest
import pytest_asyncio

from proxy.demo.script import ENDLESS_MODEL, ERROR_MODEL, FAILING_MODEL, MODEL, REASONING_MODEL
from telemetry.observing.exchange import Outcome
from tests.clients.stage import TOOLS, Stage, open_stage
from tests.corpus.message_oracle import expect_span
from tests.corpus.recordings import Recording
from tests.corpus.spans import select_attributes
from tests.telemetry.exchanges import build_exchange_attributes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from telemetry.observing.exchange import Exchange

FUNCTION: Any = TOOLS[0]["function"]
TOOL = {
    "name": FUNCTION["name"],
    "description": FUNCTION["description"],
    "input_schema": FUNCTION["parameters"],
}
HELLO: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 500,
    "system": "Be brief.",
    "messages": [{"role": "user", "content": "Ahoy?"}],
}
REQUESTS: dict[str, dict[str, Any]] = {
    "text": HELLO,
    "tools": HELLO | {"tools": [TOOL]},
    "thinking": HELLO | {"model": REASONING_MODEL},
    "thinking and tools": HELLO | {"model": REASONING_MODEL, "tools": [TOOL]},
    "cut": HELLO | {"max_tokens": 3},
}

with_requests = pytest.mark.parametrize("name", REQUESTS)


@pytest_asyncio.fixture(name="stage")
async def _stage() -> AsyncIterator[Stage]:
    async with open_stage() as stage:
        yield stage


def client_of(url: str) -> anthropic.AsyncAnthropic:
    """A client that trusts nothing but its arguments."""
    return anthropic.AsyncAnthropic(
        api_key="k",
        base_url=url.removesuffix("/v1"),
        max_retries=0,
        http_client=anthropic.DefaultAsyncHttpxClient(trust_env=False),
    )


def check_record(exchange: Exchange, message: Any) -> None:
    """The span says what the SDK's message says."""
    assert (exchange.outcome, exchange.anomalies, exchange.rewrites) == (Outcome.COMPLETED, (), ())
    shown = build_exchange_attributes(exchange)
    text = "llm.input_messages.0.message.content"
    assert shown[text] == HELLO["system"]
    expected = expect_span(Recording(id="", body=message.to_json().encode()))
    assert select_attributes(shown) == select_attributes(expected)


@with_requests
async def test_a_plain_message(stage: Stage, name: str) -> None:
    """As direct, but for what differs each time."""
    async with client_of(stage.proxied_url) as client:
        message = await client.messages.create(**REQUESTS[name])
    check_record(await stage.sink.wait_for(), message)
    async with client_of(stage.direct_url) as client:
        direct = await client.messages.create(**REQUESTS[name])
    assert direct.content == message.content
    assert (direct.stop_reason, direct.usage) == (message.stop_reason, message.usage)


@with_requests
async def test_a_streamed_message(stage: Stage, name: str) -> None:
    """The SDK's own accumulation, its final message, and the span agree."""
    async with (
        client_of(stage.proxied_url) as client,
        client.messages.stream(**REQUESTS[name]) as stream,
    ):
        message = await stream.get_final_message()
    check_record(await stage.sink.wait_for(), message)


@with_requests
async def test_the_events_are_those_that_come_directly(stage: Stage, name: str) -> None:
    """One by one."""
    heard = []
    for url in (stage.direct_url, stage.proxied_url):
        async with client_of(url) as client:
            stream = await client.messages.create(**REQUESTS[name], stream=True)
            events = [event.model_dump(exclude_unset=True) async for event in stream]
        heard.append([event for event in events if event["type"] != "message_start"])
    assert heard[0] == heard[1]


async def test_a_conversation_with_tools(stage: Stage) -> None:
    """Calls and their results, of the client's own making, are messages of the next request."""
    async with client_of(stage.proxied_url) as client:
        first = await client.messages.create(**REQUESTS["thinking and tools"])
        results: list[Any] = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "Sun."}
            for block in first.content
            if block.type == "tool_use"
        ]
        turns: list[Any] = [
            *HELLO["messages"],
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": results},
        ]
        await client.messages.create(**HELLO | {"messages": turns, "tools": [TOOL]})
    shown = build_exchange_attributes(await stage.sink.wait_for(2))
    roles = [value for key, value in shown.items() if key.endswith(".message.role")]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant"]
    kinds = [value for key, value in shown.items() if key.endswith("message_content.type")]
    assert kinds == ["reasoning", "tool_use", "tool_use", "text"]


async def test_a_message_that_fails_and_one_that_is_refused(stage: Stage) -> None:
    """The first inside a 200, in a stream; the second by its status."""
    async with client_of(stage.proxied_url) as client:
        with pytest.raises(anthropic.APIStatusError, match="asked to fail"):
            async with client.messages.stream(**HELLO | {"model": FAILING_MODEL}) as stream:
                await stream.get_final_message()
        failed = await stage.sink.wait_for(1)
        with pytest.raises(anthropic.RateLimitError):
            await client.messages.create(**HELLO | {"model": ERROR_MODEL})
    assert (failed.outcome, failed.error_type) == (Outcome.STREAM_ERROR, "api_error")
    refused = await stage.sink.wait_for(2)
    assert (refused.outcome, refused.error_type) == (Outcome.UPSTREAM_ERROR, "429")


async def test_a_client_that_leaves(stage: Stage) -> None:
    """What came until then is on the span, without a count of it, and it is no error."""
    async with client_of(stage.proxied_url) as client:
        heard = ""
        asked = HELLO | {"model": ENDLESS_MODEL, "max_tokens": 5_000}
        async with client.messages.stream(**asked) as stream:
            async for text in stream.text_stream:
                heard += text
                if len(heard) > 20:
                    break
    exchange = await stage.sink.wait_for()
    assert (exchange.outcome, exchange.error_type) == (Outcome.CLIENT_DISCONNECTED, None)
    shown = build_exchange_attributes(exchange)
    key = "llm.output_messages.0.message.contents.0.message_content.text"
    assert str(shown[key]).startswith(heard)
    assert "llm.token_count.completion" not in shown


async def test_a_count_of_tokens(stage: Stage) -> None:
    """Its span has the answer, and no count of its own."""
    asked = {name: value for name, value in HELLO.items() if name != "max_tokens"}
    async with client_of(stage.proxied_url) as client:
        count = await client.messages.count_tokens(**asked)
    assert count.input_tokens > 0
    shown = build_exchange_attributes(await stage.sink.wait_for())
    assert shown["openinference.span.kind"] == "CHAIN"
    assert not [key for key in shown if key.startswith("llm.")]
