"""The real ``google-genai`` SDK speaks Gemini through the proxy: each call is one true record."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from google import genai
from google.genai import errors, types

from proxy.demo.script import ERROR_MODEL, FAILING_MODEL, MODEL, REASONING_MODEL
from telemetry.observing.exchange import Outcome
from tests.clients.stage import TOOLS, Stage, open_stage
from tests.telemetry.exchanges import build_exchange_attributes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from telemetry.observing.exchange import Exchange

FUNCTION: Any = TOOLS[0]["function"]
TOOL = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(
            name=FUNCTION["name"],
            description=FUNCTION["description"],
            parameters_json_schema=FUNCTION["parameters"],
        )
    ]
)
OFF = types.AutomaticFunctionCallingConfig(disable=True)
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "text": (MODEL, {}),
    "tools": (MODEL, {"tools": [TOOL], "automatic_function_calling": OFF}),
    "thinking": (REASONING_MODEL, {}),
    "cut": (MODEL, {"max_output_tokens": 3}),
}

pytestmark = pytest.mark.filterwarnings(  # the SDK's own doing
    "ignore:Inheritance class AiohttpClientSession:DeprecationWarning"
)
with_requests = pytest.mark.parametrize("name", REQUESTS)


@pytest_asyncio.fixture(name="stage")
async def _stage() -> AsyncIterator[Stage]:
    async with open_stage() as stage:
        yield stage


@asynccontextmanager
async def client_of(url: str) -> AsyncIterator[Any]:
    """A client of the Gemini API at this address."""
    options = types.HttpOptions(base_url=url.removesuffix("/v1"))
    async with genai.Client(api_key="k-of-a-test", http_options=options).aio as client:
        yield client.models


def ask(name: str) -> dict[str, Any]:
    """The arguments of a call."""
    model, config = REQUESTS[name]
    told = types.GenerateContentConfig(system_instruction="Be brief.", temperature=0.5, **config)
    return {"model": model, "contents": "Ahoy?", "config": told}


def check_record(exchange: Exchange, answers: list[Any]) -> None:
    """The span says what the SDK's chunks say together."""
    assert (exchange.outcome, exchange.anomalies, exchange.rewrites) == (Outcome.COMPLETED, (), ())
    shown = build_exchange_attributes(exchange)
    assert shown["llm.input_messages.0.message.content"] == "Be brief."
    assert shown["llm.input_messages.1.message.content"] == "Ahoy?"
    assert shown["gen_ai.request.temperature"] == 0.5
    last = answers[-1]
    assert shown["llm.model_name"] == last.model_version
    assert shown["gen_ai.response.id"] == last.response_id
    assert shown["llm.finish_reason"] == last.candidates[0].finish_reason.value
    usage = last.usage_metadata
    said = usage.candidates_token_count + (usage.thoughts_token_count or 0)
    assert shown["llm.token_count.prompt"] == usage.prompt_token_count
    assert shown["llm.token_count.completion"] == said
    assert shown["llm.token_count.total"] == usage.total_token_count
    assert exchange.response is not None
    [message] = [one.message for one in exchange.response.answers]
    parts = [
        part
        for answer in answers
        for part in (answer.candidates[0].content and answer.candidates[0].content.parts) or []
    ]
    calls = [part.function_call.name for part in parts if part.function_call]
    assert [call.name for call in message.tool_calls] == calls
    texts = [getattr(part, "text", None) or part for part in message.parts]
    told = "".join(text for text in texts if isinstance(text, str))
    assert told == "".join(part.text or "" for part in parts)


@with_requests
async def test_a_plain_call(stage: Stage, name: str) -> None:
    """What the SDK read is what the span says."""
    async with client_of(stage.proxied_url) as models:
        answer = await models.generate_content(**ask(name))
    exchange = await stage.sink.wait_for()
    assert exchange.endpoint == "gemini.generate"
    check_record(exchange, [answer])


@with_requests
async def test_a_stream(stage: Stage, name: str) -> None:
    """As events, which the SDK asks for."""
    async with client_of(stage.proxied_url) as models:
        chunks = [chunk async for chunk in await models.generate_content_stream(**ask(name))]
    exchange = await stage.sink.wait_for()
    assert exchange.endpoint == "gemini.stream"
    assert exchange.chunks is not None
    assert exchange.chunks.count == len(chunks)
    check_record(exchange, chunks)


async def test_embeddings(stage: Stage) -> None:
    """Of several texts at once: what the SDK read is what the span would show."""
    async with client_of(stage.proxied_url) as models:
        answer = await models.embed_content(
            model=MODEL,
            contents=["Ahoy?", "Land!"],
            config=types.EmbedContentConfig(output_dimensionality=4),
        )
    exchange = await stage.sink.wait_for()
    assert (exchange.endpoint, exchange.outcome) == ("gemini.embed", Outcome.COMPLETED)
    assert exchange.anomalies == ()
    assert exchange.request is not None
    assert (exchange.request.model, [*exchange.request.read_texts()]) == (MODEL, ["Ahoy?", "Land!"])
    assert exchange.response is not None
    vectors = [vector.value for vector in exchange.response.vectors]
    assert vectors == [one.values for one in answer.embeddings]
    assert [len(vector) for vector in vectors] == [4, 4]


async def test_errors_are_raised_by_the_sdk_and_recorded(stage: Stage) -> None:
    """Before the answer, and in the middle of it."""
    async with client_of(stage.proxied_url) as models:
        with pytest.raises(errors.ClientError, match="RESOURCE_EXHAUSTED"):
            await models.generate_content(model=ERROR_MODEL, contents="Ahoy?")
        exchange = await stage.sink.wait_for()
        assert (exchange.outcome, exchange.error_type) == (Outcome.UPSTREAM_ERROR, "429")
        stage.sink.exchanges.clear()
        with pytest.raises(errors.APIError, match="asked to fail"):
            async for _ in await models.generate_content_stream(
                model=FAILING_MODEL, contents="Ahoy?"
            ):
                pass
        exchange = await stage.sink.wait_for()
    assert (exchange.outcome, exchange.error_type) == (Outcome.STREAM_ERROR, "INTERNAL")
    assert "k-of-a-test" not in repr(exchange)
