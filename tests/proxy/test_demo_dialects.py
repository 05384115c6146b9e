"""Every dialect through a running proxy, with the real client: what it says, the span has."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import openai
import pytest
from aiohttp import web

from codec.dialects import DIALECTS
from proxy.demo.script import MODEL, REASONING_MODEL
from proxy.demo.upstream import Pace, create_demo_upstream
from telemetry.observing.exchange import Outcome
from tests.proxy.harness import running_proxy
from tests.telemetry.exchanges import build_exchange_attributes
from tests.telemetry.observed import chat_answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.proxy.harness import RunningProxy

TEXT = "Hello! I am a demo model on your own machine. I never leave it, and I cost nothing."
TOKENS = 18
THOUGHTS = "The user wants an answer. It should be short and friendly."
THOUGHT_TOKENS = 11

NO_USAGE = {"writer"}
TOLD = {
    "deepseek", "qwen", "qwen-cumulative", "xai", "moonshot", "zai", "sglang", "llama.cpp", "nim",
    "gpustack", "fireworks", "avian", "venice", "doubleword", "vllm", "crusoe", "ollama",
    "openrouter", "vercel", "groq", "together", "cerebras", "huggingface", "mistral", "databricks",
}  # fmt: skip
"""Who tells the reasoning in a way that has a place in the span."""


@contextlib.asynccontextmanager
async def _stage(dialect: str) -> AsyncIterator[tuple[RunningProxy, openai.AsyncOpenAI]]:
    """A demo upstream of that dialect, a proxy in front of it, and a client of the proxy."""
    app = create_demo_upstream(pace=Pace(first_seconds=0, chunk_seconds=0), dialect=dialect)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        upstream = f"http://127.0.0.1:{runner.addresses[0][1]}"
        http_client = openai.DefaultAsyncHttpx2Client(trust_env=False, verify=False)
        async with (
            running_proxy(upstream) as running,
            openai.AsyncOpenAI(
                api_key="k",
                base_url=f"{running.url}/v1",
                max_retries=0,
                http_client=http_client,
            ) as client,
        ):
            yield running, client
    finally:
        await runner.cleanup()


async def _chat(client: openai.AsyncOpenAI, **params: Any) -> str:
    """Stream a chat and return the text that the client made of it."""
    messages: Any = [{"role": "user", "content": "Hello over there"}]
    chunks: Any = await client.chat.completions.create(messages=messages, stream=True, **params)
    choices = [choice async for chunk in chunks for choice in chunk.choices or ()]
    contents = [choice.delta.content for choice in choices]
    return "".join(content for content in contents if isinstance(content, str))


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_span_has_what_was_said(dialect: str) -> None:
    """Also usage for which only spantap asked (``docs/contract/sources.md#s0-6``)."""
    async with _stage(dialect) as (running, client):
        text = await _chat(client, model=MODEL)
        exchange = await running.sink.wait_for(1)
    span = build_exchange_attributes(exchange)
    assert (text == TEXT) == (dialect != "qwen-cumulative")
    assert exchange.outcome is Outcome.COMPLETED
    assert span["llm.output_messages.0.message.content"] == TEXT
    assert span["llm.finish_reason"] == "stop"
    counts = {
        "llm.token_count.prompt": 4,
        "llm.token_count.completion": TOKENS,
        "llm.token_count.total": 4 + TOKENS,
    }
    if dialect in NO_USAGE:
        assert not counts.keys() & span.keys()
    else:
        assert {name: span[name] for name in counts} == counts
    assert exchange.anomalies == (
        ("cumulative_content",) if dialect == "qwen-cumulative" else ()
    ) + (("no_usage",) if dialect in NO_USAGE else ())


@pytest.mark.parametrize("dialect", sorted(TOLD - NO_USAGE))
async def test_the_span_has_what_was_thought(dialect: str) -> None:
    """Reasoning apart from text, its tokens as reported (``docs/contract/sources.md#s0-9``)."""
    async with _stage(dialect) as (running, client):
        await _chat(client, model=REASONING_MODEL)
        exchange = await running.sink.wait_for(1)
    message = chat_answer(exchange).choices[0].message
    assert (message.reasoning, message.content) == (THOUGHTS, TEXT)
    usage = chat_answer(exchange).usage
    assert usage is not None
    assert usage.completion == TOKENS + THOUGHT_TOKENS
    assert usage.reasoning == THOUGHT_TOKENS
