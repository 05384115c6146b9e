"""The screen of calls, in a real browser, by keys alone; and the way in.

Each test leaves its pictures under ``.e2e`` to be looked at.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import openai
import pytest

from proxy.demo.script import ERROR_MODEL
from tests.e2e import agent as agents
from tests.e2e.page_stage import Stage, open_stage
from tests.e2e.page_talk import Talk, find_place, sail_once, show_calls
from tests.load.tool import LOAD_TOOL_OBSTACLE, ClientLoad, LoadUpstream, run_client

pytestmark = pytest.mark.e2e

ROWS = "document.querySelectorAll('table.calls .rows tr').length"
CHOSEN = "document.querySelector('tr[aria-current]')?.dataset.id"
MOST_ROWS = 300
"""Rows in the page at a time."""

STEPS = 60
"""Rows that are walked through by a key: more than a window shows, so the list has to scroll."""

SETTLE_SECONDS = 3.0
"""A list that gets many calls asks for them after two seconds."""

HIDE_SECONDS = 6.0
"""A second longer than a hidden tab keeps its stream."""

SEE = """
    Object.defineProperty(document, 'hidden', {value: %s, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'))
"""
"""Hides or shows the tab, as far as its scripts can tell."""

NO_COLUMNS = """
    window.noColumns = true;
    const answer = window.fetch;
    window.fetch = (address, options) => window.noColumns && address == '/api/columns'
        ? Promise.resolve(Response.json({error: {message: 'No columns today.'}}, {status: 503}))
        : answer(address, options)
"""
"""A script that lets the API fail to say which columns there are, until it is set to false."""


@pytest.fixture(scope="module")
def sailed(upstream_port: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with an agent's calls, and enough others to scroll through."""
    return sail_once(tmp_path_factory.mktemp("sailed"), upstream_port, others=STEPS + 60)


async def test_newcomer_is_told_how_to_send_a_call(upstream_port: int, tmp_path: Path) -> None:
    """An empty store says what to do; the first call takes its place with no hand on the page."""
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        await stage.page.wait_for(
            "Waiting for the first call", f"export OPENAI_BASE_URL={stage.proxy.base_url}"
        )
        await stage.page.wait_for(
            "spantap run --store ", f"{tmp_path}/traces.db -- python script.py"
        )
        assert not await stage.find_barriers()
        await stage.take_pictures("empty")
        await Talk(stage).ask("What is the capital of Portugal?")
        await stage.page.wait_for("What is the capital of Portugal?", seconds=10)
        await stage.page.wait_until(f"{ROWS} == 1")


async def test_a_list_without_columns_says_why(
    sailed: Path, upstream_port: int, tmp_path: Path
) -> None:
    """The button asks for them again."""
    shutil.copy(sailed, tmp_path / "traces.db")
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        await stage.page.prepare(NO_COLUMNS)
        await stage.page.open(f"{stage.url}?again#/calls")
        await stage.page.wait_for("The store cannot be read", "No columns today.", "Try again")
        assert await stage.page.ask(ROWS) == 0
        await stage.page.ask("window.noColumns = false")
        await stage.page.ask("document.querySelector('.list-notice button').click()")
        await stage.page.wait_until(f"{ROWS} > 20")


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


async def test_list_looks_well_and_has_no_barriers(
    sailed: Path, upstream_port: int, tmp_path: Path
) -> None:
    """The list and its peek, also at twice the size and on a narrow screen."""
    shutil.copy(sailed, tmp_path / "traces.db")
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        page = await show_calls(stage)
        await page.wait_until(f"{ROWS} > 20")
        words = await page.ask(
            "[...document.querySelectorAll('td.what')].map((one) => one.innerText)"
        )
        assert not [one for one in words if one.split()[-1:] == ["0"]], (
            "a count of nothing is shown"
        )
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


async def test_a_list_with_room_to_spare_has_nothing_new_above(
    upstream_port: int, tmp_path: Path
) -> None:
    """All rows are in sight, also while a call is peeked at: none is told as new."""
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        page = await show_calls(stage)
        await Talk(stage).ask("The first question")
        await page.wait_until(f"{ROWS} == 1")
        await page.press("j", " ")
        await page.wait_until("document.querySelector('.peek .facts')")
        await Talk(stage).ask("Another question")
        await page.wait_until(f"{ROWS} == 2")
        assert await page.ask("document.querySelector('.fresh-rows').hidden")
        await page.press("Enter")
        await page.wait_until("document.querySelector('.place')")
        assert not await page.ask("document.querySelector('.place button, .place .button')")


@pytest.mark.skipif(LOAD_TOOL_OBSTACLE is not None, reason=LOAD_TOOL_OBSTACLE or "")
async def test_thousands_of_calls_leave_a_reader_where_they_are(tmp_path: Path) -> None:
    """However many come: what is looked at stays; whoever goes back to the top sees the newest."""
    with LoadUpstream(chunks=1) as upstream:
        async with open_stage(tmp_path, upstream_port=upstream.port) as stage:
            load = await _read_further_down(stage)
            page, chosen = stage.page, await stage.page.ask(CHOSEN)
            place = "document.activeElement.getBoundingClientRect().top"
            before = await page.ask(place)
            for requests in (400, 3_000, 400):
                load = replace(load, requests=requests, rate=1_500)
                await asyncio.to_thread(run_client, load)
                assert await page.ask(CHOSEN) == chosen
                assert abs(await page.ask(place) - before) < 1
            await asyncio.sleep(SETTLE_SECONDS)
            assert await page.ask(CHOSEN) == chosen
            assert abs(await page.ask(place) - before) < 1
            await page.press("f")
            await _wait_for_newest(stage)


@pytest.mark.skipif(LOAD_TOOL_OBSTACLE is not None, reason=LOAD_TOOL_OBSTACLE or "")
async def test_list_that_fell_behind_waits_for_its_reader(tmp_path: Path) -> None:
    """A tab is seen again after thousands of calls: its reader is told, and asked for no more."""
    with LoadUpstream(chunks=1) as upstream:
        async with open_stage(tmp_path, upstream_port=upstream.port) as stage:
            load = await _read_further_down(stage)
            page, chosen = stage.page, await stage.page.ask(CHOSEN)
            await page.ask(SEE % "true")
            await asyncio.sleep(HIDE_SECONDS)
            await asyncio.to_thread(run_client, replace(load, requests=2_500))
            await asyncio.sleep(SETTLE_SECONDS)  # traffic is over: no more news come
            await page.ask(SEE % "false")
            fresh = "document.querySelector('.fresh-rows')"
            await page.wait_until(f"!{fresh}.hidden && {fresh}.textContent === '↑ new'")
            await asyncio.sleep(SETTLE_SECONDS)
            assert await page.ask(CHOSEN) == chosen
            await page.ask("document.querySelector('.scroll').scrollTop = 0")
            await _wait_for_newest(stage)
            await page.wait_until(f"{fresh}.hidden")


async def _read_further_down(stage: Stage) -> ClientLoad:
    """Fill the list, and walk down in it; the load that did so, to be sent again."""
    load = ClientLoad(port=stage.proxy.port, mode="json", connections=8, requests=200)
    await asyncio.to_thread(run_client, load)
    stage.wait_for_calls(200)
    page = await show_calls(stage)
    await page.wait_until(f"{ROWS} > 20")
    await asyncio.sleep(SETTLE_SECONDS)
    await page.press(*"j" * 40)
    return load


async def _wait_for_newest(stage: Stage) -> None:
    """Wait until the newest call is the first row."""
    newest = stage.read("calls", limit=1)["calls"][0]["span_id"]
    first = "document.querySelector('table.calls .rows tr').dataset.id"
    await stage.page.wait_until(f"{first} == '{newest}'")


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
        await page.wait_for("client", "messages 1", seconds=15)
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
