"""What tests of the page's screens look at: calls by a real SDK, and an agent's runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai

from proxy.demo.script import ENDLESS_MODEL, MODEL
from tests.e2e.spantap import running_proxy
from tests.e2e.test_runs import DEFAULTS, sail

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from tests.e2e.browser import Page
    from tests.e2e.page_stage import Stage

__all__ = ("Talk", "find_place", "sail_once", "show_calls")


def sail_once(folder: Path, upstream_port: int, others: int = 0) -> Path:
    """Make a store with the skipper's runs, whose pilots are sub-agents, and a talk of two turns.

    Args:
        folder: an empty folder.
        upstream_port: where the demo upstream listens.
        others: calls before these, which are in no conversation.
    """
    with running_proxy(
        folder,
        upstream_port=upstream_port,
        project="page",
        endpoint="",
        protocol="http/protobuf",
        environment={**DEFAULTS, "SPANTAP_PAGE": "false"},
    ) as proxy:
        with openai.OpenAI(api_key="demo", base_url=proxy.base_url, max_retries=0) as client:
            for number in range(others):
                client.embeddings.create(model="embed", input=[f"Tide number {number}"])
        sail(proxy)
    return proxy.store


class Talk:
    """Calls by the real SDK through a stage's proxy."""

    def __init__(self, stage: Stage) -> None:
        self._base_url = stage.proxy.base_url

    def _open(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(api_key="demo", base_url=self._base_url, max_retries=0)

    async def ask(self, content: Any, **more: Any) -> None:
        """One question, answered."""
        messages: Any = [{"role": "user", "content": content}]
        async with self._open() as client:
            chat: Any = client.chat.completions
            await chat.create(model=more.pop("model", MODEL), messages=messages, **more)

    async def count(self) -> AsyncGenerator[None]:
        """Step through a stream that goes on for half a minute; closing it ends the call."""
        messages: Any = [{"role": "user", "content": "Count, please."}]
        async with self._open() as client:
            chat: Any = client.chat.completions
            stream = await chat.create(model=ENDLESS_MODEL, messages=messages, stream=True)
            async with stream:
                async for _ in stream:
                    yield


async def show_calls(stage: Stage, fragment: str = "#/calls") -> Page:
    """Go to the list, and wait until it stands."""
    await stage.open(fragment)
    await stage.page.wait_until("document.querySelector('table.calls')")
    return stage.page


def find_place(stage: Stage, preview: str) -> int:
    """The place in the list of the newest call with this preview."""
    calls = stage.read("calls", limit=300)["calls"]
    return [one["preview"] for one in calls].index(preview)
