"""The screen of a run, in a real browser: an agent's run as a tree, and one of 2,000 calls.

Each test leaves its pictures under ``.e2e`` to be looked at.
"""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

import pytest

from telemetry.store.store import Store
from tests.e2e import agent as agents
from tests.e2e.page_stage import open_stage
from tests.e2e.page_talk import sail_once
from tests.telemetry.run_rows import BEGIN_NS, MS, Run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

ROWS = "[...document.querySelectorAll('[role=treeitem]')]"
CHOSEN = "document.querySelector('[role=treeitem][aria-selected=true]')?.dataset.id"
CALLS = 2_000
MOST_ROWS = 120
SECONDS = 5.0
"""Some times what it takes alone, for other tests run beside."""


@pytest.fixture(scope="module")
def sailed(upstream_port: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the skipper's runs, whose pilots are sub-agents."""
    return sail_once(tmp_path_factory.mktemp("sailed"), upstream_port)


async def test_tree_stands_beside_the_chosen_call(
    sailed: Path, upstream_port: int, tmp_path: Path
) -> None:
    """A conversation's timeline leads to its run; keys walk through the tree, fold and open."""
    shutil.copy(sailed, tmp_path / "traces.db")
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        page = stage.page
        [number] = [
            one["number"]
            for one in stage.read("conversations")["conversations"]
            if one["preview"] == agents.LEAVING
        ]
        await stage.open(f"#/conversations/{number}/timeline")
        await page.wait_until("document.querySelector('.sums a')")
        await page.ask("document.querySelector('.sums a').click()")
        await page.wait_until(ROWS + ".length > 1")
        run = int(await page.ask("location.hash.match(/^#.runs.([0-9]+)/)[1]"))
        steps = stage.read(f"runs/{run}")["steps"]
        ids = [step["span_id"] for step in steps]
        assert await page.ask(f"{ROWS}.map((row) => row.dataset.id)") == ids
        levels = await page.ask(f"{ROWS}.map((row) => Number(row.ariaLevel))")
        assert levels == [step["depth"] + 1 for step in steps]
        assert max(levels) >= 4, "a sub-agent's call"
        await page.wait_for("Asked")  # the first call, beside the tree
        assert not await stage.find_barriers()
        await page.press("Home", "j")
        await page.wait_until(f"{CHOSEN} == '{ids[1]}'")
        await page.wait_until(f"location.hash.endsWith('call={ids[1]}')")
        [branch] = [at for at, step in enumerate(steps) if step["depth"] == 1 and step["branch"]]
        await page.press(*"j" * (branch - 1), "ArrowLeft")
        below = sum(step["depth"] > 1 for step in steps)
        await page.wait_until(f"{ROWS}.length == {len(steps) - below}")
        await page.wait_for("All of this branch", "Called with", "Result")
        await page.press("ArrowRight", "ArrowRight")
        await page.wait_until(f"{CHOSEN} == '{ids[branch + 1]}'")
        await stage.take_pictures("run")
        await page.press("Home", "j", "Enter")
        await page.wait_until(f"location.hash == '#/calls/{ids[1]}'")
        await page.wait_for(f"run {run}")


async def test_run_of_thousands_of_steps_is_walked(upstream_port: int, tmp_path: Path) -> None:
    """As many rows as are seen are in the page; a key leads from failure to failure."""
    # What is older than a week is removed.
    run = Run(1, begin_ms=(time.time_ns() - BEGIN_NS) // MS - CALLS * 2_000)
    for number in range(CALLS):
        run.call(number * 2_000, 1_000, "grep")
        run.tool("grep", number * 2_000 + 1_000, 500, failed=number in {700, 1_500})
    run.agent(CALLS * 2_000)
    with Store.open(tmp_path / "traces.db", delivers=False) as store:
        store.add(run.rows)
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        page = stage.page
        began = time.monotonic()
        await stage.open("#/runs/1")
        await page.wait_until(ROWS + ".length > 1")
        assert time.monotonic() - began < SECONDS
        await page.wait_for(f"{CALLS:,}")
        for number in (700, 1_500, 700):  # the first one that failed is chosen at once
            await page.wait_until(f"{CHOSEN} == '{run.rows[number * 2 + 1].span_id}'")
            await page.press("e")
        await page.press("End")
        await page.wait_until(f"{CHOSEN} == '{run.rows[-2].span_id}'")
        assert await page.ask(ROWS + ".length") <= MOST_ROWS
        place = "document.activeElement.ariaPosInSet + ' of ' + document.activeElement.ariaSetSize"
        assert await page.ask(place) == f"{2 * CALLS} of {2 * CALLS}"
        assert not await stage.find_barriers()


async def test_sessions_and_users_lead_to_their_calls(upstream_port: int, tmp_path: Path) -> None:
    """Keys lead to the list; a line leads to the calls of its session or user."""
    rows = []
    since_ms = (time.time_ns() - BEGIN_NS) // MS - 600_000
    for number in range(6):
        name = "ann" if number % 2 else "bob"
        run = Run(number + 1, begin_ms=since_ms + number * 1_000, session=f"s {number}", user=name)
        run.call(0, 500)
        rows += run.rows
    with Store.open(tmp_path / "traces.db", delivers=False) as store:
        store.add(rows)
    lines = "[...document.querySelectorAll('.sheet td.what')].map((one) => one.textContent)"
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        page = stage.page
        await page.press("g", "u")
        await page.wait_until(f"{lines}.length == 6")
        assert await page.ask(lines) == [f"s {number}" for number in (5, 4, 3, 2, 1, 0)]
        assert not await stage.find_barriers()
        await stage.take_pictures("sessions")
        await page.press("j", "j", "Enter")
        await page.wait_until("document.querySelectorAll('table.calls tr[data-id]').length == 1")
        await page.wait_until("document.querySelector('.filter').value == 'session:\"s 4\"'")
        await stage.open("#/users")
        await page.wait_until(f"{lines}.length == 2")
        assert await page.ask(lines) == ["ann", "bob"]
