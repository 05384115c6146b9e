"""The overview, in a real browser: figures, the chart with its range, and where numbers lead.

Each test leaves its pictures under ``.e2e`` to be looked at.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.calls import have_chats
from tests.e2e.page_stage import open_stage
from tests.e2e.special_calls import have_special_chats, open_clients

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.e2e.page_stage import Stage
    from tests.e2e.spantap import Upstream

pytestmark = pytest.mark.e2e

PLOT = "document.querySelector('spantap-spark .plot')"
MANY = 900
"""Bars of a timeline that are more than a drawing of elements takes."""


@asynccontextmanager
async def open_overview(folder: Path, upstreams: tuple[Upstream, ...]) -> AsyncIterator[Stage]:
    """The overview of all chats of the lists: well and failed ones, with and without a price."""
    default, *others = upstreams
    async with open_stage(folder, upstream_port=default.port, upstreams=others) as stage:
        with open_clients(stage.proxy, upstreams) as clients:
            trace = (secrets.token_hex(16), secrets.token_hex(8))
            calls = await asyncio.to_thread(have_chats, clients.default, trace)
            special = await asyncio.to_thread(have_special_chats, clients, "talk")
        stage.wait_for_calls(len(calls) + len(special))
        await stage.open("#/overview")
        await stage.page.wait_until("document.querySelector('.by-model tbody tr')")
        yield stage


def _count_bars(group: dict[str, Any]) -> int:
    """Count what is drawn of a group: its cost, its p50, and what p90 and p99 are more."""
    p50, p90, p99 = (group["duration_ms"][name] or 0 for name in ("p50", "p90", "p99"))
    return ((group["cost_usd"] or 0) > 0) + (p50 > 0) + (p90 > p50) + (p99 > p90)


async def test_numbers_are_those_of_the_store_and_lead_to_their_calls(
    upstreams: tuple[Upstream, ...], tmp_path: Path
) -> None:
    """Sums, models and extremes are told as the API tells them; each number leads to its calls."""
    async with open_overview(tmp_path, upstreams) as stage:
        page, told = stage.page, stage.read("stats")
        totals = told["totals"]
        read = "Object.fromEntries([...document.querySelectorAll('.amounts div')].map("
        sums = await page.ask(f"{read}one => [one.children[0].textContent, one.innerText]))")
        assert sums["calls"].split()[1] == str(totals["calls"])
        assert sums["errors"].split()[1] == str(totals["errors"])
        rows = "[...document.querySelectorAll('.by-model tbody th')].map(one => one.textContent)"
        groups = [f"{one['model'] or 'unknown'} {one['upstream']}" for one in told["groups"]]
        assert sorted(await page.ask(rows)) == sorted(groups)
        bars = "document.querySelectorAll('.drawn .bar > rect').length"
        assert await page.ask(bars) == sum(_count_bars(one) for one in told["groups"])
        assert not await stage.find_barriers()
        await stage.take_pictures("overview")
        await page.ask("document.querySelector('.amounts .bad').click()")
        await page.wait_until("location.hash.startsWith('#/calls?filter=status%3Aerror')")
        failed = stage.read("calls", filter="status:error")["calls"]
        assert len(failed) == totals["errors"]
        await page.wait_until(
            f"document.querySelectorAll('table.calls .rows tr').length == {len(failed)}"
        )


async def test_range_is_chosen_by_keys_and_by_dragging(
    upstreams: tuple[Upstream, ...], tmp_path: Path
) -> None:
    """Shift and arrows choose a range that Enter takes; so does dragging. Both are addresses."""
    async with open_overview(tmp_path, upstreams) as stage:
        page = stage.page
        await page.ask(f"{PLOT}.focus()")
        await page.press("End")
        words = await page.ask("document.activeElement.getAttribute('aria-valuetext')")
        assert "call" in words
        await page.press("ArrowLeft", "ArrowLeft", shift=True)
        await page.press("Enter")
        await page.wait_until("location.hash.includes('from=') && location.hash.includes('to=')")
        await stage.open("#/overview")
        await page.wait_until("!location.hash.includes('from=')")
        place = f"(({{x, y, width}}) => [x, y, width])({PLOT}.getBoundingClientRect())"
        x, y, width = await page.ask(place)
        await page.drag((x + width * 0.3, y + 20), (x + width * 0.9, y + 40))
        await page.wait_until("location.hash.includes('from=') && location.hash.includes('to=')")


async def test_chart_can_be_read_as_a_table(
    upstreams: tuple[Upstream, ...], tmp_path: Path
) -> None:
    """What the chart shows can be read as a table, opened by keys."""
    async with open_overview(tmp_path, upstreams) as stage:
        buckets = stage.read("stats")["buckets"]
        await stage.page.ask("document.querySelector('spantap-spark summary').focus()")
        await stage.page.press("Enter")
        rows = "[...document.querySelectorAll('.as-table tbody tr')].map(one => one.innerText)"
        await stage.page.wait_until(f"{rows}.length > 0")
        told = [row.split("\t")[1:] for row in await stage.page.ask(rows)]
        seen = [one for one in buckets if one["calls"]]
        assert [one for one in told if one[0] != "0"] == [
            [str(one["calls"]), str(one["errors"])] for one in seen
        ]
        assert not await stage.find_barriers()


async def test_many_bars_are_drawn_on_a_canvas(
    upstreams: tuple[Upstream, ...], tmp_path: Path
) -> None:
    """A timeline of more shapes than elements are for is a canvas; its keys are the same."""
    async with open_overview(tmp_path, upstreams) as stage:
        drawn = await stage.page.ask(f"""(async () => {{
            const bars = Array.from({{ length: {MANY} }}, (_, at) => ({{
                row: at % 2, start: at * 10, end: at * 10 + 20, kind: 'a', words: '' }}));
            const one = document.createElement('spantap-lanes');
            one.data = {{
                label: 'many', bars, boxes: [],
                rows: [{{ words: 'calls', level: 0 }}, {{ words: '', level: 0 }}],
                tell: (bar) => `bar ${{bar.start}}`, href: () => '#/overview',
                listing: () => ({{ head: [], rows: [] }}) }};
            document.querySelector('.survey').prepend(one);
            await new Promise((done) => setTimeout(done, 300));
            one.plot.focus();
            return [one.querySelectorAll('canvas').length, one.querySelectorAll('rect').length];
        }})()""")
        assert drawn == [1, 0]
        await stage.page.press("End")
        words = await stage.page.ask("document.activeElement.getAttribute('aria-valuetext')")
        assert words == f"bar {(MANY - 1) * 10}"
