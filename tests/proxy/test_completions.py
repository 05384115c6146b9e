"""Legacy completions through the running proxy: relayed, asked for usage, recorded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import openai
import pytest

from codec.text.jsontext import decode_json_object
from telemetry.observing.exchange import Outcome
from tests.proxy.harness import DONE, Connection, relaying
from tests.telemetry.exchanges import build_exchange_attributes

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange

HEAD = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "davinci-3"}
USAGE = {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}


def _event(*choices: dict[str, Any], **members: Any) -> bytes:
    return b"data: %b\n\n" % json.dumps(HEAD | {"choices": choices} | members).encode()


def _choice(text: str, finish: str | None = None, index: int = 0) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}


EVENTS = [
    _event(_choice("Ahoy")),
    _event(_choice("!", "stop")),
    _event(_choice("Land", index=1)),
    _event(_choice("", "length", index=1)),
]


async def _ask(*, stream: bool, **params: Any) -> tuple[Any, dict[str, Any], Exchange]:
    """Ask with the real client; what it got, the request that arrived, and the record."""
    arrived: list[dict[str, Any]] = []

    async def answer(connection: Connection) -> None:
        request = decode_json_object(connection.body)
        arrived.append(request)
        if stream:
            asked = request.get("stream_options", {}).get("include_usage")
            last = [_event(usage=USAGE)] if asked else []
            await connection.stream(*EVENTS, *last, DONE)
        else:
            choices = [_choice("Ahoy!", "stop"), _choice("Land", "length", 1)]
            await connection.answer(
                json.dumps(HEAD | {"choices": choices, "usage": USAGE}).encode()
            )

    async with relaying(answer) as (_, running):
        http_client = openai.DefaultAsyncHttpx2Client(trust_env=False, verify=False)
        async with openai.AsyncOpenAI(
            api_key="k", base_url=f"{running.url}/v1", max_retries=0, http_client=http_client
        ) as client:
            got: Any = await client.completions.create(
                model="davinci-3", prompt=["Greet me.", "Cry."], stream=stream, **params
            )
            if stream:
                got = [chunk async for chunk in got]
        exchange = await running.sink.wait_for(1)
    return got, arrived[0], exchange


@pytest.mark.parametrize("asks", [False, True])
async def test_a_streamed_completion_is_asked_for_usage_and_recorded(*, asks: bool) -> None:
    """The client sees the usage event only where it asked; the record has the usage always."""
    params = {"stream_options": {"include_usage": True}} if asks else {}
    chunks, request, exchange = await _ask(stream=True, **params)
    assert request["stream_options"] == {"include_usage": True}
    assert len(chunks) == len(EVENTS) + asks
    assert "".join(c.text for chunk in chunks for c in chunk.choices if c.index == 0) == "Ahoy!"
    assert exchange.endpoint == "completions"
    assert exchange.outcome is Outcome.COMPLETED
    assert exchange.anomalies == ()
    attributes = build_exchange_attributes(exchange)
    assert attributes["llm.prompts.0.prompt.text"] == "Greet me."
    assert attributes["llm.prompts.1.prompt.text"] == "Cry."
    assert attributes["llm.choices.0.completion.text"] == "Ahoy!"
    assert attributes["llm.choices.1.completion.text"] == "Land"
    assert attributes["llm.finish_reason"] == "stop"
    assert attributes["llm.token_count.total"] == 6
    assert attributes["llm.model_name"] == "davinci-3"
    assert not [key for key in attributes if "_messages" in key]
    assert "prompt" not in str(attributes["llm.invocation_parameters"])


async def test_a_plain_completion_is_recorded() -> None:
    """The same values, from a whole body."""
    got, request, exchange = await _ask(stream=False)
    assert "stream_options" not in request
    assert [choice.text for choice in got.choices] == ["Ahoy!", "Land"]
    attributes = build_exchange_attributes(exchange)
    assert attributes["llm.choices.1.completion.text"] == "Land"
    assert attributes["llm.token_count.prompt"] == 4
