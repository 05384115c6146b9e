"""Real SDKs with nothing but the base URL set: each call reaches its own provider."""

from __future__ import annotations

import contextlib
from typing import Any

import anthropic
import ollama
import openai
import pytest
from google import genai
from google.genai import types

from proxy.demo.script import MODEL
from proxy.upstream.owners import Owner
from tests.proxy.canary_keys import KEY
from tests.proxy.harness import request_bytes
from tests.proxy.own_providers import providers
from tests.proxy.raw_client import ask
from tests.proxy.recorded_calls import tell_span

pytestmark = pytest.mark.filterwarnings(  # the SDK's own doing
    "ignore:Inheritance class AiohttpClientSession:DeprecationWarning"
)
CHAT: Any = {"model": MODEL, "messages": [{"role": "user", "content": "Ahoy?"}]}


async def test_each_sdk_reaches_its_own_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its own key in its own header, and a span that names the API."""
    async with providers(monkeypatch) as (running, heard):
        async with openai.AsyncOpenAI(base_url=f"{running.url}/v1", api_key="k-openai") as client:
            await client.chat.completions.create(**CHAT)
        async with anthropic.AsyncAnthropic(base_url=running.url, api_key="k-anthropic") as claude:
            await claude.messages.create(max_tokens=9, **CHAT)
            with contextlib.suppress(anthropic.APIStatusError):
                await claude.models.list()
        options = types.HttpOptions(base_url=running.url)
        async with genai.Client(api_key="k-google", http_options=options).aio as gemini:
            await gemini.models.generate_content(model=MODEL, contents="Ahoy?")
        local: Any = ollama.AsyncClient(running.url, trust_env=False)
        await local.chat(**CHAT)
        await local.close()
        await running.sink.wait_for(4)
    assert [(owner, path.partition("?")[0]) for owner, path, _ in heard] == [
        (Owner.OPENAI, "/v1/chat/completions"),
        (Owner.ANTHROPIC, "/v1/messages"),
        (Owner.ANTHROPIC, "/v1/models"),
        (Owner.GOOGLE, f"/v1/models/{MODEL}:generateContent"),
        (Owner.OLLAMA, "/api/chat"),
    ]
    assert heard[0][2]["authorization"] == "Bearer k-openai"
    fields = [[name for name, value in heads.items() if "k-" in value] for _, _, heads in heard]
    bearer, google = ["authorization"], ["x-goog-api-key"]
    assert fields == [bearer, bearer, bearer, google, []]  # as these SDKs send a key
    assert [exchange.endpoint for exchange in running.sink.exchanges] == [
        *("chat.completions", "messages", "gemini.generate", "ollama.chat")
    ]


@pytest.mark.parametrize(
    ("head", "query"),
    [
        (f"Authorization: Bearer {KEY}\r\n", ""),
        (f"x-api-key: {KEY}\r\n", ""),
        (f"api-key: {KEY}\r\n", ""),
        (f"x-goog-api-key: {KEY}\r\n", ""),
        ("", f"?a=%41&key={KEY}&b"),
        ("", f"?a=%41&k%65y={KEY}&b"),
    ],
)
async def test_an_inbound_key_opens_from_each_place_and_goes_nowhere(
    head: str, query: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The provider gets neither the field nor the member; no frame, span or line has it (R7)."""
    caplog.set_level("DEBUG")
    target = f"/v1beta/models/{MODEL}:generateContent{query}"
    body = b'{"contents": [{"parts": [{"text": "Ahoy?"}]}]}'
    async with providers(monkeypatch, inbound_keys=(KEY,)) as (running, heard):
        request = request_bytes(body, target=target.encode(), head=head.encode())
        answer = await ask(running.address, request)
        exchange = await running.sink.wait_for()
    assert answer.status == 200
    [(owner, path, heads)] = heard
    assert (owner, path.partition("?")[2]) == (Owner.GOOGLE, "a=%41&b" if query else "")
    for seen in (heads, path, running.sink.frames, tell_span(exchange), caplog.text, answer.raw):
        assert KEY not in str(seen)


async def test_a_wrong_key_in_the_query_opens_nothing_and_is_not_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """401, and no provider hears of it."""
    async with providers(monkeypatch, inbound_keys=(KEY,)) as (running, heard):
        target = b"/v1beta/models?key=wrong-canary-0123456789"
        answer = await ask(running.address, request_bytes(b"", target=target, method=b"GET"))
    assert (answer.status, heard) == (401, [])
    assert "canary" not in f"{answer.raw!r} {caplog.text}"


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        (b"GET", b"http://evil.example/v1/models", 400),
        (b"POST", b"https://evil.example/groq/v1/models", 400),
        (b"CONNECT", b"evil.example:443", 405),
        (b"GET", b"evil.example", 400),
    ],
)
async def test_spantap_is_no_open_proxy(
    method: bytes, target: bytes, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What names a host is refused, and no ``Host`` field chooses one."""
    async with providers(monkeypatch) as (running, heard):
        answer = await ask(running.address, request_bytes(b"", method=method, target=target))
        assert (answer.status, heard) == (status, [])
        raw = b"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n"
        raw += b"X-Forwarded-Host: evil.example\r\nForwarded: host=evil.example\r\n\r\n"
        await ask(running.address, raw)
    [(owner, _, heads)] = heard
    assert owner is Owner.OPENAI
    assert heads["host"].startswith("127.0.0.1:")
