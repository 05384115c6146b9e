"""The screens of calls and of one call, in a real browser, by keys alone.

Each test leaves its pictures under ``.e2e`` to be looked at.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shutil
import signal
import struct
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openai
import pytest

from proxy.demo.script import ENDLESS_MODEL, ERROR_MODEL, MODEL
from telemetry.store.store import Store
from tests.bench.conversation_store import make_conversation
from tests.e2e import agent as agents
from tests.e2e.page_stage import open_stage
from tests.e2e.spantap import running_proxy
from tests.e2e.test_runs import DEFAULTS, sail

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tests.e2e.browser import Page
    from tests.e2e.page_stage import Stage

pytestmark = pytest.mark.e2e

ROWS = "document.querySelectorAll('table.calls .rows tr').length"
CHOSEN = "document.querySelector('tr[aria-current]')?.dataset.id"
MOST_ROWS = 300
"""Rows in the page at a time."""

STEPS = 60
"""Rows that are walked through by a key: more than a window shows, so the list has to scroll."""

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

HIDE_SECONDS = 6.0
"""A second longer than a hidden tab keeps its stream."""

SEE = """
    Object.defineProperty(document, 'hidden', {value: %s, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'))
"""
"""Hides or shows the tab, as far as its scripts can tell."""

MARKDOWN = "# Tides\n\nThey are **high**.\n\n1. at `noon`\n2. at night\n\n```\nx = 1\n```\n"


def make_png(width: int, height: int) -> str:
    """A picture of one colour, as the address of its bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x43\x50\xc9" * width) * height)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(data).decode()


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


@pytest.fixture(scope="module")
def sailed(upstream_port: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with an agent's calls, and enough others to scroll through."""
    folder = tmp_path_factory.mktemp("sailed")
    with running_proxy(
        folder,
        upstream_port=upstream_port,
        project="page",
        endpoint="",
        protocol="http/protobuf",
        environment={**DEFAULTS, "SPANTAP_PAGE": "false"},
    ) as proxy:
        with openai.OpenAI(api_key="demo", base_url=proxy.base_url, max_retries=0) as client:
            for number in range(STEPS + 60):
                client.embeddings.create(model="embed", input=[f"Tide number {number}"])
        sail(proxy)
    return proxy.store


async def test_newcomer_is_told_how_to_send_a_call(upstream_port: int, tmp_path: Path) -> None:
    """An empty store says what to do; the first call takes its place with no hand on the page."""
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        await stage.page.wait_for("Waiting for the first call", "spantap run -- python script.py")
        assert not await stage.find_barriers()
        await stage.take_pictures("empty")
        await Talk(stage).ask("What is the capital of Portugal?")
        await stage.page.wait_for("What is the capital of Portugal?", seconds=10)
        await stage.page.wait_until(f"{ROWS} == 1")


async def test_calls_are_walked_through_by_keys(
    sailed: Path, upstream_port: int, tmp_path: Path
) -> None:
    """Keys alone move, peek, open, step through the conversation, and lead back to the same row."""
    shutil.copy(sailed, tmp_path / "traces.db")
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        page = await show_calls(stage)
        listed = [one["span_id"] for one in stage.read("calls", limit=300)["calls"]]
        await page.wait_until(f"{ROWS} > 20")
        await page.press(*"jjjk")
        assert await page.ask(CHOSEN) == listed[1]
        assert await page.ask("document.activeElement.closest('tr').dataset.id") == listed[1]
        await page.press(*"j" * STEPS)
        assert await page.ask(CHOSEN) == listed[1 + STEPS]
        assert await page.ask(ROWS) <= MOST_ROWS
        seen = await page.ask(
            "(({top, bottom}) => top >= 0 && bottom <= innerHeight)"
            "(document.activeElement.getBoundingClientRect())"
        )
        assert seen
        await page.press("Home")
        assert await page.ask(CHOSEN) == listed[0]
        await page.press(" ")
        await page.wait_until(f"location.hash == '#/calls?call={listed[0]}'")
        await page.wait_until("document.querySelector('.peek .facts')")
        await page.press("j")
        await page.wait_until(f"location.hash == '#/calls?call={listed[1]}'")
        await page.press("Escape")
        await page.wait_until("document.querySelector('.peek').hidden")
        at = find_place(stage, agents.LEAVING)
        await page.press("Home", *"j" * at, "Enter")
        await page.wait_until(f"location.hash == '#/calls/{listed[at]}'")
        await page.wait_for("unchanged: ", "call 2 of 5")
        await page.press("[")
        await page.wait_for("call 1 of 5")
        await page.press("]")
        await page.wait_for("call 2 of 5")
        await page.press("Escape")
        await page.wait_until(f"{CHOSEN} == '{listed[at]}'")
        await page.press("?")
        await page.wait_for("difference to the previous call")
        await page.press("Escape")
        await page.press("/")
        await page.ask("document.activeElement.select()")
        await page.press(*"model:embed", "Enter")
        await page.wait_until("location.hash.includes('filter=model%3Aembed')")
        await page.wait_until(
            "![...document.querySelectorAll('td.model')].some(one => one.textContent != 'embed')"
        )


def find_place(stage: Stage, preview: str) -> int:
    """The place in the list of the newest call with this preview."""
    calls = stage.read("calls", limit=300)["calls"]
    return [one["preview"] for one in calls].index(preview)


async def test_list_looks_well_and_has_no_barriers(
    sailed: Path, upstream_port: int, tmp_path: Path
) -> None:
    """The list and its peek, also at twice the size and on a narrow screen."""
    shutil.copy(sailed, tmp_path / "traces.db")
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        page = await show_calls(stage)
        await page.wait_until(f"{ROWS} > 20")
        assert not await stage.find_barriers()
        await stage.take_pictures("calls")
        await page.press(*"jjj", " ")
        await page.wait_until("document.querySelector('.peek .facts')")
        assert not await stage.find_barriers()
        await stage.take_pictures("peek")
        await page.look(width=1280, height=900, zoom=2)
        assert await stage.find_wide() == 0
        await page.look(width=420)
        assert await stage.find_wide() == 0


async def test_older_calls_come_when_the_list_is_scrolled(
    sailed: Path, upstream_port: int, tmp_path: Path
) -> None:
    """The end of the list is reached by scrolling, with few rows in the page."""
    shutil.copy(sailed, tmp_path / "traces.db")
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        page = await show_calls(stage)
        oldest = stage.read("calls", limit=300)["calls"][-1]["span_id"]
        await page.wait_until(f"{ROWS} > 20")
        for _ in range(3):
            await page.press("End")
            await asyncio.sleep(0.3)
        await page.wait_until(f"{CHOSEN} == '{oldest}'")
        assert await page.ask(ROWS) <= MOST_ROWS
        assert "no more" in await page.ask("document.querySelector('.list-end').textContent")


async def test_new_calls_wait_while_a_reader_is_not_at_the_top(
    sailed: Path, upstream_port: int, tmp_path: Path
) -> None:
    """What a reader looks at stays in its place, and the number of new calls is told."""
    shutil.copy(sailed, tmp_path / "traces.db")
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        page = await show_calls(stage)
        await page.wait_until(f"{ROWS} > 20")
        await page.press(*"j" * 40)
        place = "document.activeElement.getBoundingClientRect().top"
        before = await page.ask(place)
        for number in range(3):
            await Talk(stage).ask(f"Question {number}")
        await page.wait_until("document.querySelector('.fresh-rows').textContent.includes('3 new')")
        assert abs(await page.ask(place) - before) < 1
        await page.press("f")
        await page.wait_until("document.querySelector('.fresh-rows').hidden")
        first = "document.querySelector('table.calls .rows tr').innerText"
        await page.wait_until(f"{first}.includes('Question 2')")


async def test_wrong_filter_is_told_with_its_place(upstream_port: int, tmp_path: Path) -> None:
    """A filter that nobody can follow is told with the place marked."""
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        await Talk(stage).ask("Hello?")
        stage.wait_for_calls(1)
        await show_calls(stage, "#/calls?filter=status%3Aerror%20modl%3Ax")
        await stage.page.wait_for("did you mean `model`")
        assert await stage.page.ask("document.querySelector('.wrong mark').textContent") == "modl:x"
        assert not await stage.find_barriers()
        await stage.take_pictures("wrong-filter")
        stage.page.faults.clear()  # the browser itself reports an answer of 400


async def test_stream_grows_on_the_page(upstream_port: int, tmp_path: Path) -> None:
    """An open call is listed at once, its text grows beside it, and it becomes the recorded one."""
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        page = await show_calls(stage)
        await page.wait_for("Waiting for the first call")
        stream = Talk(stage).count()
        await anext(stream)
        await page.wait_until("document.querySelector('.mark.open')", seconds=5)
        await page.press("j", " ")
        await page.wait_for("1 2 3 4 5 6 7 8 9 10")
        size, sizes = "document.querySelector('.live-text .text').textContent.length", []
        for _ in range(3):
            for _ in range(40):
                await anext(stream)
            sizes.append(await page.ask(size))
            await asyncio.sleep(0.3)
        assert sizes == sorted(set(sizes))
        await stage.take_pictures("live")
        await page.press("Enter")
        await page.wait_until("document.querySelector('spantap-call .live-text .text')")
        await stream.aclose()  # the client goes away
        await page.wait_for("client", "new 1", seconds=15)
        await page.press("Escape")
        await page.wait_until(f"{ROWS} == 1")
        await page.wait_until("document.querySelector('.mark.cut')")


@pytest.mark.parametrize("process", ["telemetry", "page"])
async def test_watching_goes_on_when_a_process_is_killed(
    process: str, upstream_port: int, tmp_path: Path
) -> None:
    """Its successor tells the page what comes next, with no hand on it."""
    async with open_stage(tmp_path, upstream_port=upstream_port, is_hurt=True) as stage:
        page, talk = await show_calls(stage), Talk(stage)
        await talk.ask("Before")
        await page.wait_for("Before")
        os.kill(find_process(stage.proxy.store, process), signal.SIGKILL)
        await talk.ask("Behind")
        await page.wait_for("Before", "Behind", seconds=30)
        await page.wait_until("document.body.innerText.includes('live')")
        page.faults.clear()  # the browser tells of the stream that broke


def find_process(store: Path, name: str) -> int:
    """The process of the store's proxy that does this; the lock tells the supervisor."""
    (supervisor,) = {int(Path(f"{store}.lock").read_text().split()[0])}
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    words = {one: Path(f"/proc/{one}/cmdline").read_bytes() for one in children}
    (found,) = (one for one in children if re.search(rf"\b{name}\b".encode(), words[one]))
    return int(found)


async def test_tab_that_was_hidden_is_up_to_date_when_it_is_seen(
    upstream_port: int, tmp_path: Path
) -> None:
    """Hidden it lets go of its stream; what came meanwhile is there when it is seen again."""
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        page, talk = await show_calls(stage), Talk(stage)
        await talk.ask("Before")
        await page.wait_for("Before")
        await page.ask(SEE % "true")
        await asyncio.sleep(HIDE_SECONDS)
        await talk.ask("Meanwhile")
        stage.wait_for_calls(2)
        await asyncio.sleep(1)
        assert "Meanwhile" not in await page.ask("document.body.innerText")
        await page.ask(SEE % "false")
        await page.wait_for("Before", "Meanwhile", seconds=5)


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
        ]
        for key, words in tabs:
            await page.press(key)
            await page.wait_for(words)
            assert not await stage.find_barriers()
        await stage.take_pictures("difference")
        await page.press("7")
        await page.ask("document.querySelector('.raw button').click()")
        await page.wait_for('"messages"')
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


async def test_error_is_told_where_it_is_seen_first(upstream_port: int, tmp_path: Path) -> None:
    """A refused call shows its status in the list and the upstream's words in the call."""
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        with pytest.raises(openai.RateLimitError):
            await Talk(stage).ask("Hello?", model=ERROR_MODEL)
        page = await show_calls(stage)
        await page.wait_for("HTTP 429", "Hello?")
        await page.press("j", "Enter")
        await page.wait_for("Rate limit reached")
        assert not await stage.find_barriers()
        await stage.take_pictures("call-error")


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
    """A picture in the request is to be seen; one that lies elsewhere is told by its address."""
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        pictures = (make_png(120, 80), "https://elsewhere.invalid/picture.png")
        content: list[Any] = [{"type": "text", "text": "What is on these?"}]
        content += [{"type": "image_url", "image_url": {"url": url}} for url in pictures]
        await Talk(stage).ask(content)
        stage.wait_for_calls(1)
        call = stage.read("calls")["calls"][0]["span_id"]
        await stage.open(f"#/calls/{call}")
        await stage.page.wait_until("document.querySelector('.picture')?.naturalWidth == 120")
        await stage.page.wait_for("https://elsewhere.invalid/picture.png", "not loaded")
        assert await stage.page.ask("document.querySelector('.picture').src.startsWith('blob:')")
        await stage.take_pictures("pictures")


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


async def test_token_is_asked_for_and_a_wrong_one_refused(
    upstream_port: int, tmp_path: Path
) -> None:
    """Without its token the page shows nothing but a form, which takes the right one alone."""
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        page = stage.page
        await Talk(stage).ask("Something private")
        stage.wait_for_calls(1)
        await page.open(f"{stage.url}?again#token=wrong")
        await page.wait_for("That is not the token of this page.")
        assert "private" not in await page.ask("document.body.innerText")
        assert not await stage.find_barriers()
        await stage.take_pictures("token")
        await page.ask("document.getElementById('token').focus()")
        await page.press(*"guess", "Enter")
        await page.wait_for("That is not the token of this page.")
        await page.ask("document.getElementById('token').select()")
        await page.press(*stage.token, "Enter")
        await page.wait_for("Something private")
        assert "token" not in await page.ask("location.href")
        page.faults.clear()  # the browser itself reports an answer of 401
