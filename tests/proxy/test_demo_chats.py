"""The demo's chats, by the real SDK and by aiohttp, against the demo upstream itself."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from proxy.demo import chats, clients
from proxy.demo.chats import CALL_COUNT, run_chats
from proxy.demo.clients import CHATS, ChatError, is_sdk_installed, open_client
from proxy.demo.script import ERROR_MODEL
from proxy.demo.upstream import Pace, create_demo_upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp.typedefs import Handler

EXPECTED = {
    "plain": '"Hello! I am a demo model',
    "streamed": '"Hello! I am a demo model',
    "streamed, two tool calls": (
        "called get_weather, get_weather; then "
        '"This is what the tools told me: 24 degrees and sunny; 8 degrees and rain." (stop)'
    ),
    "response": '"Hello! I am a demo model',
    "message": '"Hello! I am a demo model',
    "refusal": "refused: \"I'm sorry",
    "upstream error": f"HTTP 429: Rate limit reached for {ERROR_MODEL}.",
    "abandoned": '"1 2 3 4 5 6 7" ... and left after 8 chunks',
}


class Counted:
    """A demo upstream on loopback that counts the calls it gets."""

    def __init__(self) -> None:
        self.calls = 0
        app = create_demo_upstream(pace=Pace(first_seconds=0, chunk_seconds=0.0005))
        app.middlewares.append(self._count)
        self.server = TestServer(app)

    @property
    def base_url(self) -> str:
        """Where its API begins."""
        return str(self.server.make_url("/v1"))

    @web.middleware
    async def _count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.calls += 1
        return await handler(request)


@pytest.fixture
async def upstream() -> AsyncIterator[Counted]:
    """A running demo upstream."""
    counted = Counted()
    async with counted.server:
        yield counted


@pytest.mark.parametrize("use_sdk", [True, False])
async def test_every_chat_goes_as_scripted(upstream: Counted, use_sdk: bool) -> None:
    """Both clients have the same chats, in order, and see the same things."""
    seen = [report async for report in run_chats(upstream.base_url, use_sdk=use_sdk)]
    assert [title for title, _ in seen] == list(EXPECTED)
    for title, summary in seen:
        assert summary.startswith(EXPECTED[title])
        assert "\n" not in summary
    assert upstream.calls == CALL_COUNT, "and nothing was tried twice"


async def test_the_installed_sdk_is_the_default(
    upstream: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a choice the SDK chats where it is installed, and aiohttp where it is not."""
    used = []

    def open_and_note(base_url: str, *, use_sdk: bool) -> object:
        used.append(use_sdk)
        return open_client(base_url, use_sdk=use_sdk)

    monkeypatch.setattr(chats, "open_client", open_and_note)
    assert is_sdk_installed()
    assert len([report async for report in run_chats(upstream.base_url)]) == len(EXPECTED)
    monkeypatch.setitem(sys.modules, "openai", None)
    assert len([report async for report in run_chats(upstream.base_url)]) == len(EXPECTED)
    assert used == [True, False]


async def test_a_missing_error_is_told(monkeypatch: pytest.MonkeyPatch, upstream: Counted) -> None:
    """An upstream that answers where an error was expected is no crash."""
    monkeypatch.setattr(chats, "ERROR_MODEL", "gpt-demo")
    seen = [report async for report in run_chats(upstream.base_url, use_sdk=False)]
    assert dict(seen)["upstream error"] == "no error, though one was expected"


@pytest.mark.parametrize("use_sdk", [True, False])
async def test_clients_raise_the_same_error(upstream: Counted, use_sdk: bool) -> None:
    """An error status becomes a ChatError with the server's words, streamed or not."""
    request = {"model": ERROR_MODEL, "messages": [{"role": "user", "content": "Hi"}]}
    async with open_client(upstream.base_url, use_sdk=use_sdk) as client:
        with pytest.raises(ChatError, match=r"^HTTP 429: Rate limit") as plain:
            await client.ask(CHATS, **request)
        with pytest.raises(ChatError) as streamed:
            await anext(client.stream(**request))
    assert (plain.value.status, plain.value.message) == (429, streamed.value.message)


def test_error_without_object_is_told_as_it_is() -> None:
    """An error body that is no object becomes text."""
    assert clients._error_message("overloaded") == "overloaded"
