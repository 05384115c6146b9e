"""What a person sees: Phoenix's pages of recorded calls in a real browser.

Each test leaves its picture under ``.e2e`` to be looked at; ``docs/images`` has copies of good
ones.
"""

from __future__ import annotations

import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.browser import open_page
from tests.e2e.calls import have_chats
from tests.e2e.spantap import running_proxy
from tests.e2e.special_calls import (
    SESSION_CALLS,
    SESSION_USER,
    have_special_chats,
    open_clients,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from codec.text.jsontext import JsonObject
    from tests.e2e.browser import Page
    from tests.e2e.calls import Call
    from tests.e2e.phoenix import Phoenix
    from tests.e2e.spantap import Upstream

pytestmark = pytest.mark.e2e

PROJECT = "spantap"
PICTURES = Path(".e2e")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The calls, and where Phoenix shows them.

    Attributes:
        calls: by name, as the client saw them.
        project_url: of the project's pages.
        traces: trace ids by the names of the calls.
        session: what Phoenix makes of the one session.
        session_id: its id.
    """

    calls: dict[str, Call]
    project_url: str
    traces: dict[str, str]
    session: JsonObject
    session_id: str

    def find_url(self, name: str) -> str:
        """The page of a call."""
        return f"{self.project_url}/traces/{self.traces[name]}"


@pytest.fixture(scope="module")
def shown(
    phoenix: Phoenix,
    upstreams: tuple[Upstream, ...],
    tmp_path_factory: pytest.TempPathFactory,
) -> Shown:
    """All chats of the lists, in the project that the pictures show."""
    default, *others = upstreams
    session_id = f"talk-{secrets.token_hex(4)}"
    with running_proxy(
        tmp_path_factory.mktemp(PROJECT),
        upstream_port=default.port,
        project=PROJECT,
        endpoint=phoenix.url,
        protocol="http/protobuf",
        upstreams=others,
        environment={"SPANTAP_VALUES": "text"},
    ) as proxy:
        with open_clients(proxy, upstreams) as clients:
            calls = have_chats(clients.default, (secrets.token_hex(16), secrets.token_hex(8)))
            calls |= have_special_chats(clients, session_id)
        spans = phoenix.wait_for_spans(PROJECT, len(calls))
    project = phoenix.read_project(PROJECT)
    traces = {span.request_id: span.trace_id for span in spans}
    (session,) = project["sessions"]
    return Shown(
        calls=calls,
        project_url=f"{phoenix.url}/projects/{project['id']}",
        traces={name: traces[call.request_id] for name, call in calls.items()},
        session=session,
        session_id=session_id,
    )


@asynccontextmanager
async def open_shown(url: str, folder: Path) -> AsyncIterator[Page]:
    """A browser at a page, on which no script may fail."""
    async with open_page(folder) as page:
        await page.open(url)
        yield page
    assert not page.faults


async def test_page_shows_messages_and_tool_calls(shown: Shown, tmp_path: Path) -> None:
    """The page of the streamed tool calls has model, messages, calls, tool and tokens."""
    call = shown.calls["tool calls"]
    async with open_shown(shown.find_url("tool calls"), tmp_path) as page:
        text = await page.wait_for("ChatCompletion", "get_weather", "Lisbon", "Invocation Params")
        await take_picture(page, "trace")
    assert_model_and_tokens(call, text)
    for message in call.request["messages"]:
        assert message["content"] in text
    for tool_call in call.message["tool_calls"]:
        assert f"Tool Call: {tool_call['id']}" in text


async def test_page_shows_reasoning(shown: Shown, tmp_path: Path) -> None:
    """The page of the reasoning stream has the thoughts apart from the answer."""
    call = shown.calls["reasoning"]
    async with open_shown(shown.find_url("reasoning"), tmp_path) as page:
        await page.wait_for("ChatCompletion", "Reasoning", call.message["content"])
        text = await page.wait_for(call.message["reasoning_content"])
        await take_picture(page, "reasoning")
    assert_model_and_tokens(call, text)


async def test_page_shows_the_error(shown: Shown, tmp_path: Path) -> None:
    """The page of the broken stream has the error beside the words that came before it."""
    call = shown.calls["stream error"]
    assert call.stream_error is not None
    async with open_shown(shown.find_url("stream error"), tmp_path) as page:
        message = "{type}: {message}".format(**call.stream_error)
        # The list behind has the words of the answer, too; the parameters are on the call's page.
        text = await page.wait_for("Invocation Params", message, call.message["content"])
        await take_picture(page, "error")
        await page.open_tab("Events")
        await page.wait_for("exception", "First Token Stream Event", call.stream_error["message"])
    assert f"model: {call.request['model']}" in text


async def test_page_shows_the_session(shown: Shown, tmp_path: Path) -> None:
    """The page of the session has its three chats in order, its user, its tokens and costs."""
    calls = [shown.calls[name] for name in SESSION_CALLS]
    traces = [shown.traces[name] for name in SESSION_CALLS]
    async with open_shown(f"{shown.project_url}/sessions/{shown.session['id']}", tmp_path) as page:
        text = await page.wait_for(shown.session_id, "Turn 03", *traces)
        await take_picture(page, "session")
    assert [text.index(trace) for trace in traces] == sorted(text.index(trace) for trace in traces)
    assert text.count(f"USER: {SESSION_USER}") == len(calls)
    for call in calls[:2]:  # the third turn is too long to be shown at once
        assert call.request["messages"][-1]["content"] in text
    lines = text.splitlines()
    totals = [call.usage["total_tokens"] for call in calls if call.usage is not None]
    assert {str(total) for total in (*totals, sum(totals))} <= set(lines)
    assert lines.count("<$0.01") >= len(calls)


def assert_model_and_tokens(call: Call, text: str) -> None:
    """The text of a call's page tells its model and how many tokens it took."""
    assert call.usage is not None
    assert f"model: {call.request['model']}" in text
    assert str(call.usage["total_tokens"]) in text.splitlines()


async def take_picture(page: Page, name: str) -> None:
    """Leave a picture of all that is to be seen."""
    await page.settle()
    await page.screenshot(PICTURES / f"phoenix-{name}.png")
