"""The demo's calls, by the real SDK and by aiohttp, against the demo upstream itself."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from codec.apis.table import POSTED, find_api
from proxy.demo import calls, chats, clients
from proxy.demo.calls import CALL_COUNT, run_calls
from proxy.demo.clients import CHAT_COMPLETIONS, ChatError, is_sdk_installed, open_client
from proxy.demo.script import ERROR_MODEL
from proxy.demo.upstream import Pace, create_demo_upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp.typedefs import Handler

HELLO = '"Hello! I am a demo model on your own machine. I never leave it, and I cost nothing."'

EXPECTED = {
    "chat": f"stop, 16 + 18 tokens: {HELLO}",
    "streamed": f"stop, 20 chunks: {HELLO}",
    "two tool calls": (
        "get_weather, get_weather; then stop: "
        '"This is what the tools told me: 24 degrees and sunny; 8 degrees and rain."'
    ),
    "refusal": "stop: \"I'm sorry, but I can't help with getting into places that are not yours.\"",
    "upstream error": f"HTTP 429: Rate limit reached for {ERROR_MODEL}. Please try again in 20s.",
    "abandoned": 'left after 8 chunks: "1 2 3 4 5 6 7"',
    "completion": f"stop, 4 + 18 tokens: {HELLO}",
    "response": f"completed, reasoning and message: {HELLO}",
    "WebSocket": f"completed, 26 events: {HELLO}",
    "Realtime": f"completed, 8,640 bytes of sound: {HELLO}",
    "message": f"end_turn, 15 + 18 tokens: {HELLO}",
    "token count": "15 tokens",
    "Gemini": f"STOP, 6 + 18 tokens: {HELLO}",
    "Ollama": f"stop, 6 + 18 tokens: {HELLO}",
    "embeddings": "3 vectors of 8 numbers",
    "ranking": 'best with 0.75: "Lisbon is sunny for most of the year."',
    "moderation": "flagged as illicit",
    "image": "1 image of 70 bytes, 275 tokens",
    "speech": "1,728 bytes of sound",
    "transcription": f"8 + 18 tokens: {HELLO}",
}


class Noted:
    """A demo upstream on loopback that notes the paths of the calls it gets."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        app = create_demo_upstream(pace=Pace(first_seconds=0, chunk_seconds=0.0005))
        app.middlewares.append(self._note)
        self.server = TestServer(app)

    @property
    def base_url(self) -> str:
        """Where its API begins."""
        return str(self.server.make_url("/v1"))

    @web.middleware
    async def _note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.paths.append(request.path)
        return await handler(request)


@pytest.fixture
async def upstream() -> AsyncIterator[Noted]:
    """A running demo upstream."""
    noted = Noted()
    async with noted.server:
        yield noted


@pytest.mark.parametrize("use_sdk", [True, False])
async def test_every_call_goes_as_scripted(upstream: Noted, use_sdk: bool) -> None:
    """Both clients make the same calls, in order, and tell the same in a line each."""
    seen = [report async for report in run_calls(upstream.base_url, use_sdk=use_sdk)]
    assert seen == [*EXPECTED.items()]
    assert len(upstream.paths) == CALL_COUNT, "and nothing was tried twice"


async def test_every_kind_of_call_is_made(upstream: Noted) -> None:
    """One of each that becomes a span, but for other forms of what is shown."""
    async for _ in run_calls(upstream.base_url, use_sdk=False):
        pass
    called = {api.span_name for path in upstream.paths if (api := find_api("POST", path))}
    assert {api.span_name for api in POSTED} - called == {
        *("Generate", "GenerateContentStream", "Translation")
    }


async def test_the_installed_sdk_is_the_default(
    upstream: Noted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a choice the SDK calls where it is installed, and aiohttp where it is not."""
    used = []

    def open_and_note(base_url: str, *, use_sdk: bool) -> object:
        used.append(use_sdk)
        return open_client(base_url, use_sdk=use_sdk)

    monkeypatch.setattr(calls, "open_client", open_and_note)
    assert is_sdk_installed()
    assert len([report async for report in run_calls(upstream.base_url)]) == len(EXPECTED)
    monkeypatch.setitem(sys.modules, "openai", None)
    assert len([report async for report in run_calls(upstream.base_url)]) == len(EXPECTED)
    assert used == [True, False]


async def test_a_missing_error_is_told(monkeypatch: pytest.MonkeyPatch, upstream: Noted) -> None:
    """An upstream that answers where an error was expected is no crash."""
    monkeypatch.setattr(chats, "ERROR_MODEL", "gpt-demo")
    seen = [report async for report in run_calls(upstream.base_url, use_sdk=False)]
    assert dict(seen)["upstream error"] == "no error, though one was expected"


@pytest.mark.parametrize("use_sdk", [True, False])
async def test_clients_raise_the_same_error(upstream: Noted, use_sdk: bool) -> None:
    """An error status becomes a ChatError with the server's words, streamed or not."""
    request = {"model": ERROR_MODEL, "messages": [{"role": "user", "content": "Hi"}]}
    async with open_client(upstream.base_url, use_sdk=use_sdk) as client:
        with pytest.raises(ChatError, match=r"^HTTP 429: Rate limit") as plain:
            await client.ask(CHAT_COMPLETIONS, **request)
        with pytest.raises(ChatError) as streamed:
            await anext(client.stream(**request))
    assert (plain.value.status, plain.value.message) == (429, streamed.value.message)


def test_error_without_object_is_told_as_it_is() -> None:
    """An error body that is no object becomes text."""
    assert clients._error_message("overloaded") == "overloaded"
