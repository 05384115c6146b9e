"""The real ``openai`` SDK speaks Responses through the proxy, and each call is one true record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest
import pytest_asyncio
from pydantic import BaseModel

from codec.text.jsontext import decode_json
from proxy.demo.script import ENDLESS_MODEL, ERROR_MODEL, FAILING_MODEL, MODEL, REASONING_MODEL
from telemetry.observing.exchange import Outcome
from tests.clients.stage import TOOLS, Stage, open_stage
from tests.clients.test_openai_python import async_client, call_both
from tests.corpus.recordings import Recording
from tests.corpus.response_oracle import expect_span
from tests.corpus.spans import select_attributes
from tests.telemetry.exchanges import build_exchange_attributes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from openai import OpenAI

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


class Weather(BaseModel):
    """The weather in a city."""

    city: str
    days: int


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
    expected = expect_span(Recording(id="", body=response.to_json().encode()))
    assert select_attributes(shown) == select_attributes(expected)


async def test_a_conversation_that_is_compacted(stage: Stage) -> None:
    """A call that is paid for, with its counts, and an answer that gives no reason to end."""
    async with async_client(stage.proxied_url) as client:
        compacted = await client.responses.compact(
            model=MODEL, input=[{"role": "user", "content": "Ahoy?"}]
        )
    exchange = await stage.sink.wait_for()
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
    shown = build_exchange_attributes(exchange)
    assert shown["llm.input_messages.0.message.content"] == "Ahoy?"
    assert shown["llm.token_count.prompt"] == compacted.usage.input_tokens > 0
    assert shown["llm.token_count.completion"] == compacted.usage.output_tokens > 0
    assert decode_json(str(shown["output.value"])) == compacted.to_dict()


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


@with_requests
async def test_the_events_are_those_that_come_directly(stage: Stage, name: str) -> None:
    """One by one, and nothing in the request is touched."""

    def call(client: OpenAI) -> list[dict[str, Any]]:
        with client.responses.create(**REQUESTS[name], stream=True) as events:
            return [event.model_dump(exclude_unset=True) for event in events]

    direct, proxied = await call_both(stage, call)
    assert [event["type"] for event in proxied] == [event["type"] for event in direct]
    assert [event.get("delta") for event in proxied] == [event.get("delta") for event in direct]
    assert (await stage.sink.wait_for()).rewrites == ()


async def test_arguments_that_are_parsed_and_what_the_tools_answer(stage: Stage) -> None:
    """A class is a tool and the form of the text; its calls and their results are messages."""
    tool = openai.pydantic_function_tool(Weather)
    async with async_client(stage.proxied_url) as client:
        parsed = await client.responses.parse(**HELLO, text_format=Weather, tools=[tool])
        calls: list[Any] = [*parsed.output]
        results: list[Any] = [
            {"type": "function_call_output", "call_id": call.call_id, "output": "Sun."}
            for call in calls
        ]
        summed_up = await client.responses.create(
            model=MODEL,
            instructions=HELLO["instructions"],
            input=[{"role": "user", "content": HELLO["input"]}, *calls, *results],
            previous_response_id=parsed.id,
        )
    expected = [Weather(city="Lisbon", days=1), Weather(city="Oslo", days=2)]
    assert [call.parsed_arguments for call in calls] == expected
    await stage.sink.wait_for(2)
    asked, answered = stage.sink.exchanges
    check_record(asked, parsed)
    assert build_exchange_attributes(asked)["gen_ai.output.type"] == "json"
    check_record(answered, summed_up)
    shown = build_exchange_attributes(answered)
    for index, call in enumerate(calls, 2):
        prefix = f"llm.input_messages.{index}.message.tool_calls.0.tool_call"
        assert shown[f"{prefix}.function.arguments"] == call.arguments
        prefix = f"llm.input_messages.{index + len(calls)}.message"
        assert shown[f"{prefix}.role"] == "tool"
        assert shown[f"{prefix}.tool_call_id"] == call.call_id
        assert shown[f"{prefix}.content"] == "Sun."
    assert parsed.id in str(shown["metadata"])


async def test_a_response_in_the_background(stage: Stage) -> None:
    """Beginning it is a call, of which there is no more to tell; looking for it is none."""
    async with async_client(stage.proxied_url) as client:
        begun = await client.responses.create(**HELLO, background=True)
        ended = await client.responses.retrieve(begun.id)
    assert (begun.status, ended.status) == ("queued", "completed")
    assert ended.output_text
    exchange = await stage.sink.wait_for()
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
    shown = build_exchange_attributes(exchange)
    assert shown["llm.finish_reason"] == "queued"
    assert not [key for key in shown if key.startswith(("llm.token_count", "llm.output_messages"))]
