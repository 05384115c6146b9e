"""The screen of one call, in a real browser: what is new in it, and what strangers sent.

Each test leaves its pictures under ``.e2e`` to be looked at.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import struct
import time
import zlib
from typing import TYPE_CHECKING, Any

import openai
import pytest
from aiohttp import web

from codec.chat.answer import ChatMessage
from telemetry.store.store import Store
from tests.bench.conversation_store import make_conversation
from tests.e2e import agent as agents
from tests.e2e.page_stage import open_stage
from tests.e2e.page_talk import Talk, find_place, sail_once, show_calls
from tests.e2e.processes import find_free_port
from tests.proxy.recorded_calls import make_exchange, make_store, span_id_of
from tests.telemetry.exchanges import make_response

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.e2e

HOSTILE = (
    "<img src=http://elsewhere.invalid/x onerror=alert(1)><script>alert(2)</script>"
    " [here](javascript:alert(3)) \u202egnp.exe \x00 \x1b[31m \u2028"
)
VISIBLE = "\\u202egnp.exe \\x00 \\x1b[31m \\u2028"
LONG_CHARACTERS = 10_000_000

TURNS, BYTES = 100, 475_000
MOST_NODES = 3_000
SECONDS = 2.0
"""Seven times the goal of 300 ms, for other tests run beside."""

MARKDOWN = "# Tides\n\nThey are **high**.\n\n1. at `noon`\n2. at night\n\n```\nx = 1\n```\n"


def make_png(width: int, height: int, level: int = 9) -> str:
    """A picture of one colour, as the address of its bytes; at level 0 they are many."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x43\x50\xc9" * width) * height, level)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(data).decode()


@pytest.fixture(scope="module")
def sailed(upstream_port: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with an agent's calls."""
    return sail_once(tmp_path_factory.mktemp("sailed"), upstream_port)


async def test_call_says_what_is_new_and_what_it_cost(
    sailed: Path, upstream_port: int, tmp_path: Path
) -> None:
    """A call folds what was there before, and each of its tabs holds what its name says."""
    shutil.copy(sailed, tmp_path / "traces.db")
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        page = stage.page
        calls = stage.read("calls", limit=300)["calls"]
        call = calls[find_place(stage, agents.LEAVING)]["span_id"]
        detail = stage.read(f"calls/{call}")
        await stage.open(f"#/calls/{call}")
        await page.wait_for(f"unchanged: {detail['unchanged']['messages']} message")
        assert not await stage.find_barriers()
        await stage.take_pictures("call")
        await page.wait_for("⤷ get_weather", "⤷ ask_pilot")  # results have the names of their tools
        await page.unfold("unchanged")
        shown = "document.querySelectorAll('#panel .message').length"
        assert await page.ask(shown) == len(detail["messages"]) + len(detail["answer"])
        tabs = [
            ("2", "You are a skipper"),
            ("3", "Answer"),
            ("4", detail["tools"][0]["name"]),
            ("5", "Metadata"),
            ("6", "whole call"),
            ("7", "Download"),
            ("8", "Compared with"),
            ("9", "user-agent"),
        ]
        for key, words in tabs:
            await page.press(key)
            await page.wait_for(words)
            assert not await stage.find_barriers()
        await stage.take_pictures("heads")
        await page.press("8")
        await page.wait_for("Compared with")
        await stage.take_pictures("difference")
        await page.press("7")
        await page.ask("document.querySelector('.raw button').click()")
        await page.wait_for('"messages"')
        assert not await stage.find_barriers()
        await page.press("4")
        await page.ask("document.querySelector('.tools summary').click()")
        await page.wait_for('"parameters"')
        await page.press("y")
        await page.wait_for("curl")
        await page.press("Escape")


async def test_call_of_200_messages_is_light(upstream_port: int, tmp_path: Path) -> None:
    """A call of 200 messages and 475 KB opens at once, and all of it has few nodes."""
    with Store.open(tmp_path / "traces.db", delivers=False) as opened:
        for row in make_conversation(TURNS, BYTES, is_agent=False):
            opened.add([row])
    # The calls are of a year long ago.
    environment = {"SPANTAP_STORE_MAX_AGE_DAYS": "36500"}
    async with open_stage(tmp_path, upstream_port=upstream_port, environment=environment) as stage:
        page, call = stage.page, stage.read("calls", limit=1)["calls"][0]["span_id"]
        assert len(stage.read(f"calls/{call}")["messages"]) >= 2 * TURNS
        began = time.monotonic()
        await stage.open(f"#/calls/{call}")
        await page.wait_for("unchanged: ")
        assert time.monotonic() - began < SECONDS
        assert await page.ask("document.querySelectorAll('*').length") < MOST_NODES
        await page.press("2")
        await page.wait_until(f"document.querySelectorAll('#panel .message').length > {TURNS}")
        assert await page.ask("document.querySelectorAll('*').length") < MOST_NODES


async def test_hostile_content_stays_text(upstream_port: int, tmp_path: Path) -> None:
    """Markup, addresses of scripts, control and bidi characters are shown as text, in every screen.

    That no policy was broken, and no other host asked, the stage looks at.
    """
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        say = f"say {json.dumps(MARKDOWN + HOSTILE)}"
        tool = {"type": "function", "function": {"name": "look", "description": HOSTILE}}
        await Talk(stage).ask(f"{HOSTILE}\n{say}", tools=[tool], user=HOSTILE[:60])
        page = await show_calls(stage)
        await page.wait_for("<img src=http://elsewhere.invalid/x onerror=alert(1)>", VISIBLE[:10])
        await page.press("j", " ")
        await page.wait_until("document.querySelector('.peek .facts')")
        await page.press("Enter")
        await page.wait_for("[here](javascript:alert(3))", "\\u202egnp.exe", "**high**")
        for key in "3456":
            await page.press(key)
            await asyncio.sleep(0.2)
        await page.press("3")
        await page.ask("document.querySelector('.toggle input').click()")
        await page.wait_until(
            "document.querySelector('.formatted .level-1')?.textContent == 'Tides'"
        )
        found = "[...document.querySelectorAll('.formatted *')].map(one => one.localName)"
        assert {"ol", "li", "code", "pre", "strong"} <= set(await page.ask(found))
        assert not {"a", "img", "script"} & set(await page.ask(found))
        assert not await stage.find_barriers()
        await stage.take_pictures("hostile")
        await page.ask("document.querySelector('.toggle input').click()")


async def test_pictures_of_a_call_are_shown_and_no_others(
    upstream_port: int, tmp_path: Path
) -> None:
    """Pictures of the request are to be seen, in the span or kept beside it.

    One that lies elsewhere is told by its address.
    """
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        elsewhere = "https://elsewhere.invalid/picture.png"
        pictures = (make_png(120, 80), elsewhere, make_png(400, 300, level=0))
        content: list[Any] = [{"type": "text", "text": "What is on these?"}]
        content += [{"type": "image_url", "image_url": {"url": url}} for url in pictures]
        await Talk(stage).ask(content)
        stage.wait_for_calls(1)
        call = stage.read("calls")["calls"][0]["span_id"]
        await stage.open(f"#/calls/{call}")
        await stage.page.wait_until("document.querySelector('.picture')?.naturalWidth == 120")
        await stage.page.wait_for(elsewhere, "not loaded", "400 \u00d7 300")
        assert await stage.page.ask("document.querySelector('.picture').src.startsWith('blob:')")
        await stage.take_pictures("pictures")


async def stall(request: web.Request) -> web.StreamResponse:
    """Answer with six words, and a second's silence before the fourth."""
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for word in ("So", " the", " tide", " is", " high", " now"):
        await asyncio.sleep(1.0 if word == " is" else 0.05)
        delta = {"choices": [{"index": 0, "delta": {"content": word}}]}
        await response.write(f"data: {json.dumps(delta)}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    return response


async def test_silence_in_a_stream_is_drawn(tmp_path: Path) -> None:
    """The bar of a call's time has its longest pause, as long as it was, between what came.

    So have the true bytes of the answer, line by line.
    """
    app, port = web.Application(), find_free_port()
    app.router.add_post("/v1/chat/completions", stall)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        environment = {"SPANTAP_RAW": "all"}
        async with open_stage(tmp_path, upstream_port=port, environment=environment) as stage:
            async with openai.AsyncOpenAI(api_key="demo", base_url=stage.proxy.base_url) as client:
                chat: Any = client.chat.completions
                asked = [{"role": "user", "content": "When?"}]
                async with await chat.create(model="m", messages=asked, stream=True) as stream:
                    assert len([chunk async for chunk in stream]) == 6
            stage.wait_for_calls(1)
            call = stage.read("calls")["calls"][0]["span_id"]
            await stage.open(f"#/calls/{call}")
            await stage.page.wait_for("longest pause in the stream", "at chunk 4 of 6")
            drawn = await stage.page.ask(
                "[...document.querySelectorAll('.time-bar span')]"
                ".map((part) => [part.className, Number(part.style.flexGrow)])"
            )
            assert [kind for kind, _ in drawn] == ["wait", "stream", "wait", "stream"]
            timing = stage.read(f"calls/{call}")["timing"]
            assert drawn[2][1] == pytest.approx(timing["longest_pause_ms"], rel=1e-4)
            assert drawn[2][1] > 900
            assert drawn[1][1] == pytest.approx(drawn[3][1], rel=1e-4)  # two chunks each
            assert sum(long for _, long in drawn) == pytest.approx(timing["duration_ms"], rel=1e-4)
            await stage.take_pictures("pause")
            await stage.page.press("7")
            await stage.page.wait_for("Answer, put together from the record", "Answer, as it came")
            await stage.page.ask("document.querySelectorAll('.raw button')[2].click()")
            await stage.page.wait_until("document.querySelectorAll('.as-came tbody tr').length")
            long = "[...document.querySelectorAll('.as-came .long')].map((row) => row.innerText)"
            [row] = await stage.page.ask(long)
            assert '" is"' in row
            assert not await stage.find_barriers()
            await stage.take_pictures("raw")
    finally:
        await runner.cleanup()


async def test_line_of_ten_megabytes_comes_in_slices(upstream_port: int, tmp_path: Path) -> None:
    """A huge line shows its beginning at once; each slice more is asked for."""
    more = {"SPANTAP_MAX_VALUE_BYTES": "12000000", "SPANTAP_MAX_SPAN_BYTES": "60000000"}
    async with open_stage(tmp_path, upstream_port=upstream_port, environment=more) as stage:
        await Talk(stage).ask("x" * LONG_CHARACTERS)
        stage.wait_for_calls(1)
        call = stage.read("calls")["calls"][0]["span_id"]
        await stage.open(f"#/calls/{call}")
        await stage.page.wait_for("64 KiB of", seconds=10)
        size = "document.querySelector('.message .text').textContent.length"
        assert await stage.page.ask(size) <= 2_048
        await stage.page.press("j", "o")
        await stage.page.wait_until(f"{size} > 60000")
        assert await stage.page.ask(size) <= 2_048 + 65_536


async def test_answer_is_folded_only_where_there_is_no_room(
    upstream_port: int, tmp_path: Path
) -> None:
    """In a call and in the peek; a long answer behind long questions stays folded."""
    long = "\n".join(f"Line {number} of a long text." for number in range(40))
    rows = []
    for number, asked in enumerate((["Short?"], [long] * 9), start=1):
        message = ChatMessage(role="assistant", content=long)
        messages = [{"role": "user", "content": one} for one in asked]
        request = {"model": "m", "messages": messages}
        made = make_response(message, model="m", body={})
        now_ns = time.time_ns()
        times = {"start_ns": now_ns, "first_chunk_ns": now_ns + 10**8, "end_ns": now_ns + 10**9}
        rows.append(make_exchange(number, request_json=request, response=made, **times))
    make_store(tmp_path / "traces.db", *rows)
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        folded = "document.querySelectorAll('.answer .clamp, .peek .assistant .clamp').length"
        for number, count in ((1, 0), (2, 1)):
            await stage.open(f"#/calls/{span_id_of(number)}")
            await stage.page.wait_until(f"location.hash.includes('{span_id_of(number)}')")
            await stage.page.wait_until("document.querySelector('.answer .text')")
            await stage.page.wait_until(f"{folded} == {count}")
            await stage.take_pictures(f"answer-{number}")
        await stage.open(f"#/calls?call={span_id_of(1)}")
        await stage.page.wait_until("document.querySelector('.peek .assistant .text')")
        await stage.page.wait_until(f"{folded} == 0")


async def test_call_in_which_no_model_speaks_says_what_it_is(
    upstream_port: int, tmp_path: Path
) -> None:
    """In the list, the peek and the call: what was asked, and what was found."""
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        base_url = stage.proxy.base_url
        async with openai.AsyncOpenAI(api_key="k", base_url=base_url, max_retries=0) as client:
            await client.moderations.create(model="m", input="How do I break into a house?")
        page = await show_calls(stage)
        await page.wait_for("moderation → flagged: illicit", seconds=10)
        await page.press("j", " ")
        await page.wait_until("document.querySelector('.peek .special')")
        said = "document.querySelector('.peek').textContent"
        await page.wait_until(f"{said}.includes('break into a house')")
        assert "No answer" not in await page.ask(said)
        await stage.take_pictures("moderation-peek")
        await page.press("Enter")
        await page.wait_until("document.querySelector('.answer .special')")
        said = "document.querySelector('.panel').textContent"
        await page.wait_until(f"{said}.includes('break into a house')")
        assert "flagged: illicit" in await page.ask(said)
        assert not await stage.find_barriers()
        await stage.take_pictures("moderation")


async def test_no_character_is_missing_where_a_slice_begins(
    upstream_port: int, tmp_path: Path
) -> None:
    """Letters that a browser counts as two are counted as the server does, as one."""
    said = "".join(f"{number} 🌊 " for number in range(2_000))
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        await Talk(stage).ask(said)
        stage.wait_for_calls(1)
        call = stage.read("calls")["calls"][0]["span_id"]
        await stage.open(f"#/calls/{call}")
        await stage.page.wait_for(f"show all {len(said):,} characters", seconds=10)
        await stage.page.press("j", "o")
        text = "document.querySelector('.message .text').textContent"
        await stage.page.wait_until(f"{text}.length > 10000")
        assert await stage.page.ask(text) == said
