"""A page's ``WebSocket`` in Chromium hears through ``spantap serve`` what it hears directly."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.clients.web_sockets import HELLO, check_spans, check_spoken, even_out, serving
from tests.docs.blocks import DOCS
from tests.docs.blocks import Page as Document
from tests.e2e.browser import open_page

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.e2e.browser import Page

pytestmark = pytest.mark.e2e

KEY = "an-inbound-key-of-thirty-two-char"

_TALK = """
async (url, protocols, steps) => {
  const socket = new WebSocket(url, protocols);
  const events = [];
  let wake = () => {};
  socket.onmessage = ({ data }) => { events.push(JSON.parse(data)); wake(); };
  const closed = new Promise((resolve) => {
    socket.onclose = ({ code, wasClean }) => { resolve({ code, wasClean }); wake(); };
  });
  await new Promise((resolve) => { socket.onopen = socket.onerror = resolve; });
  const { protocol, extensions } = socket;
  let heard = 0;
  for (const { say, last } of steps) {
    for (const event of say) socket.send(JSON.stringify(event));
    const isHeard = () => events.slice(heard).some(({ type }) => type === last);
    while (socket.readyState === WebSocket.OPEN && !isHeard())
      await new Promise((resolve) => { wake = resolve; });
    heard = events.length;
  }
  socket.close(1000);
  return { protocol, extensions, events, closed: await closed };
}
"""
"""Says something, and hears the server up to an event of a type, and so on."""


def step(last: str, *say: dict[str, Any]) -> dict[str, Any]:
    """What the page says, and the type of the event up to which it listens then."""
    return {"say": say, "last": last}


async def talk(
    page: Page, url: str, protocols: Sequence[str], *steps: dict[str, Any]
) -> dict[str, Any]:
    """What a page hears and learns of a connection."""
    arguments = ", ".join(map(json.dumps, (url.replace("http", "ws", 1), protocols, steps)))
    heard: dict[str, Any] = await page.ask(f"({_TALK})({arguments})")
    return heard


async def test_a_page_s_responses_are_spans(tmp_path: Path) -> None:
    """The browser compresses; its messages are recorded as well."""
    create = {"type": "response.create", **HELLO}
    steps = [step("response.completed", create)] * 2
    with serving(tmp_path) as stage:
        async with open_page(tmp_path) as page:
            direct = await talk(page, f"{stage.direct_url}/responses", [], *steps)
            proxied = await talk(page, f"{stage.proxied_url}/responses", [], *steps)
        assert even_out(proxied) == even_out(direct)
        assert proxied["extensions"].startswith("permessage-deflate")
        ends = [it["response"] for it in proxied["events"] if it["type"] == "response.completed"]
        assert len(ends) == 2
        await asyncio.to_thread(check_spans, stage.store, ends)


async def test_a_page_shows_an_inbound_key_as_a_subprotocol(tmp_path: Path) -> None:
    """The server chooses among the others. Another key is refused, as a connection that fails."""
    protocols = ["realtime", f"openai-insecure-api-key.{KEY}"]
    content = [{"type": "input_text", "text": "Ahoy?"}]
    item = {"type": "message", "role": "user", "content": content}
    steps = [
        step("session.created"),
        step("conversation.item.done", {"type": "conversation.item.create", "item": item}),
        step("rate_limits.updated", {"type": "response.create"}),
    ]
    with serving(tmp_path, SPANTAP_INBOUND_KEYS=KEY) as stage:
        path = "/realtime?model=gpt-demo"
        async with open_page(tmp_path) as page:
            direct = await talk(page, stage.direct_url + path, protocols, *steps)
            proxied = await talk(page, stage.proxied_url + path, protocols, *steps)
            await asyncio.to_thread(check_spoken, stage.store, proxied["events"])
            # For an API that knows no subprotocol, the key comes in the query.
            url = f"{stage.proxied_url}/responses?key={KEY}"
            create = {"type": "response.create", **HELLO}
            asked = await talk(page, url, [], step("response.completed", create))
            refused = await talk(page, stage.proxied_url + path, ["realtime"])
    assert even_out(proxied) == even_out(direct)
    assert proxied["protocol"] == "realtime"
    assert proxied["closed"] == {"code": 1000, "wasClean": True}
    assert any(event["type"] == "response.output_audio.delta" for event in proxied["events"])
    assert asked["events"][-1]["type"] == "response.completed"
    assert (refused["events"], refused["closed"]["wasClean"]) == ([], False)


async def test_the_page_on_websockets_has_a_script_that_works(tmp_path: Path) -> None:
    """It logs what the model says."""
    [script] = [it.text for it in Document(DOCS / "websockets.md").blocks if it.language == "js"]
    with serving(tmp_path, SPANTAP_INBOUND_KEYS=KEY) as stage:
        script = script.replace(
            "ws://localhost:4000/v1", stage.proxied_url.replace("http", "ws", 1)
        )
        script = script.replace("YOUR-KEY", KEY)
        async with open_page(tmp_path) as page:
            said = await page.ask(
                f"new Promise((log) => {{ const console = {{ log }};\n{script}\n}})"
            )
    assert said.startswith("Hello! I am a demo model")
