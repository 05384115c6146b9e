"""What a person sees: Phoenix's page of a recorded call in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.browser import open_page
from tests.e2e.calls import have_chats, open_client
from tests.e2e.spantap import running_proxy

if TYPE_CHECKING:
    from tests.e2e.phoenix import Phoenix

pytestmark = pytest.mark.e2e

PROJECT = "spantap"

SCREENSHOT = Path(".e2e/phoenix-trace.png")
"""Where the picture is left to be looked at; docs/images has a copy of a good one."""


async def test_page_shows_messages_and_tool_calls(
    phoenix: Phoenix, upstream_port: int, tmp_path: Path
) -> None:
    """The page of the streamed tool calls has model, messages, calls, tool and tokens."""
    with running_proxy(
        tmp_path,
        upstream_port=upstream_port,
        project=PROJECT,
        endpoint=phoenix.url,
        protocol="http/protobuf",
    ) as proxy:
        with open_client(proxy.base_url, f"http://127.0.0.1:{upstream_port}/v1") as client:
            calls = have_chats(client, ("5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174"))
        spans = phoenix.wait_for_spans(PROJECT, len(calls))
    call = calls["tool calls"]
    (span,) = (span for span in spans if span.request_id == call.request_id)
    project_id = phoenix.read_project(PROJECT)["id"]
    assert call.usage is not None
    async with open_page(tmp_path) as page:
        await page.open(f"{phoenix.url}/projects/{project_id}/traces/{span.trace_id}")
        text = await page.wait_for("ChatCompletion", "get_weather", "Lisbon", "Invocation Params")
        await page.screenshot(SCREENSHOT)
    assert f"model: {call.request['model']}" in text
    for message in call.request["messages"]:
        assert message["content"] in text
    for tool_call in call.message["tool_calls"]:
        assert f"Tool Call: {tool_call['id']}" in text
    assert str(call.usage["total_tokens"]) in text.splitlines()
    assert not page.faults
