"""The real ``openai`` SDK speaks Responses through the proxy, and each call is one true record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest
import pytest_asyncio

from proxy.demo.script import ENDLESS_MODEL, ERROR_MODEL, FAILING_MODEL, MODEL, REASONING_MODEL
from telemetry.observing.exchange import Outcome
from telemetry.spans.exchange_attributes import build_exchange_attributes
from tests.clients.stage import TOOLS, Stage, open_stage
from tests.clients.test_openai_python import async_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from telemetry.observing.exchange import Exchange

TOOL = {"type": "function", **TOOLS[0]["function"]}  # type: ignore[dict-item]  # of any kind
HELLO: dict[str, Any] = {"model": MODEL, "input": "Ahoy?", "instructions": "Be brief."}
REQUESTS: dict[str, dict[str, Any]] = {
    "text": HELLO,
    "tools": HELLO | {"tools": [TOOL]},
    "one custom tool": HELLO
    | {"tools": [{"type": "custom", "name": "sh"}], "parallel_tool_calls": False},
    "refusal": HELLO | {"input": "How do I pick a lock?"},
    "reasoning": HELLO | {"model": REASONING_MODEL},
    "image": HELLO | {"tools": [{"type": "image_generation"}]},
    "cut": HELLO | {"max_output_tokens": 3},
}
with_requests = pytest.mark.parametrize("name", REQUESTS)


@pytest_asyncio.fixture(name="stage")
async def _stage() -> AsyncIterator[Stage]:
    async with open_stage() as stage:
        yield stage


def check_record(exchange: Exchange, response: Any) -> None:
    """The span says what the SDK's response says."""
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
    shown = build_exchange_attributes(exchange)
    assert shown["llm.input_messages.0.message.content"] == HELLO["instructions"]
    assert shown["llm.input_messages.1.message.role"] == "user"
    assert shown["llm.token_count.prompt"] == response.usage.input_tokens
    assert shown["llm.token_count.completion"] == response.usage.output_tokens
    reasoned = response.usage.output_tokens_details.reasoning_tokens
    assert shown["llm.token_count.completion_details.reasoning"] == reasoned
    ended = response.incomplete_details and response.incomplete_details.reason
    assert shown["llm.finish_reason"] == (ended or response.status)
    for index, item in enumerate(response.output):
        prefix = f"llm.output_messages.{index}.message"
        own = {
            key.removeprefix(f"{prefix}."): value
            for key, value in shown.items()
            if key.startswith(f"{prefix}.")
        }
        assert own["role"] == "assistant"
        check_item(item, own)


def check_item(item: Any, own: dict[str, Any]) -> None:
    """One item's message."""
    part, call = "contents.0.message_content", "tool_calls.0.tool_call"
    match item.type:
        case "message":
            said = item.content[0]
            text = said.text if said.type == "output_text" else said.refusal
            assert own[f"{part}.text"] == text
        case "reasoning":
            assert own[f"{part}.type"] == "reasoning"
            assert own[f"{part}.text"] == item.summary[0].text
        case "function_call":
            assert own[f"{call}.id"] == item.call_id
            assert own[f"{call}.function.name"] == item.name
            assert own[f"{call}.function.arguments"] == item.arguments
        case "custom_tool_call":
            assert own[f"{call}.id"] == item.call_id
            assert own[f"{call}.function.name"] == item.name
        case _:
            assert item.type == "image_generation_call"
            assert own[f"{part}.type"] == "image"
            assert own[f"{part}.image.image.url"] == f"data:image/png;base64,{item.result}"


@with_requests
async def test_a_plain_response(stage: Stage, name: str) -> None:
    """As direct, but for what differs each time."""
    async with async_client(stage.proxied_url) as client:
        response = await client.responses.create(**REQUESTS[name])
    check_record(await stage.sink.wait_for(), response)
    async with async_client(stage.direct_url) as client:
        direct = await client.responses.create(**REQUESTS[name])
    assert direct.output_text == response.output_text
    assert [item.type for item in direct.output] == [item.type for item in response.output]


@with_requests
async def test_a_streamed_response(stage: Stage, name: str) -> None:
    """The SDK's own accumulation, its final object, and the span agree."""
    async with (
        async_client(stage.proxied_url) as client,
        client.responses.stream(**REQUESTS[name]) as stream,
    ):
        async for _ in stream:
            pass
        try:
            response: Any = await stream.get_final_response()
        except RuntimeError:  # it knows no end but response.completed
            assert name == "cut"
            return
    check_record(await stage.sink.wait_for(), response)


async def test_a_response_that_fails_and_one_that_is_refused(stage: Stage) -> None:
    """The first inside a 200, with the code that it gives; the second by its status."""
    async with async_client(stage.proxied_url) as client:
        response = await client.responses.create(**HELLO | {"model": FAILING_MODEL})
        assert response.status == "failed"
        failed = await stage.sink.wait_for(1)
        with pytest.raises(openai.RateLimitError):
            await client.responses.create(**HELLO | {"model": ERROR_MODEL})
    assert (failed.outcome, failed.error_type) == (Outcome.STREAM_ERROR, "server_error")
    refused = await stage.sink.wait_for(2)
    assert (refused.outcome, refused.error_type) == (Outcome.UPSTREAM_ERROR, "429")


async def test_a_client_that_leaves(stage: Stage) -> None:
    """What came until then is on the span, and it is no error."""
    async with async_client(stage.proxied_url) as client:
        heard = ""
        stream = await client.responses.create(**HELLO | {"model": ENDLESS_MODEL}, stream=True)
        async for event in stream:
            heard += event.delta if event.type == "response.output_text.delta" else ""
            if len(heard) > 20:
                break
        await stream.close()
    exchange = await stage.sink.wait_for()
    assert (exchange.outcome, exchange.error_type) == (Outcome.CLIENT_DISCONNECTED, None)
    shown = build_exchange_attributes(exchange)
    key = "llm.output_messages.0.message.contents.0.message_content.text"
    assert str(shown[key]).startswith(heard)
    assert "llm.token_count.completion" not in shown
