"""``proxy.reading.sum_members``: a sum of dollars is the same number wherever it is asked for."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from codec.text.jsontext import decode_json
from proxy.commands.stats import StatsOptions, run_stats
from proxy.reading.sum_members import round_dollars
from telemetry.pricing.price_table import PriceTable
from telemetry.store.store import Store
from tests.proxy.page.serving import serve_api
from tests.telemetry.run_rows import Run

if TYPE_CHECKING:
    from pathlib import Path

COSTS = (0.1, 0.2, 0.3, 1e-9, 0.7)
"""Their sum depends on the order: 1.3000000010000002, or 1.300000001."""


def test_a_sum_of_dollars_loses_its_last_digits_and_no_others() -> None:
    """A nanodollar beside a thousand dollars stays."""
    assert sum(COSTS) != sum(sorted(COSTS, reverse=True))
    assert round_dollars(sum(COSTS)) == round_dollars(sum(sorted(COSTS))) == 1.300000001
    assert round_dollars(1_000 + 1e-8) == 1_000.00000001
    assert round_dollars(0.0) == 0.0
    assert round_dollars(None) is None


async def test_every_sum_of_the_same_calls_is_the_same_number(tmp_path: Path) -> None:
    """Of a session, a conversation, a run, its branch, all calls on the page, and the terminal."""
    path = tmp_path / "t.db"
    run = Run(1, user="ann")
    for at, cost in enumerate(COSTS):
        run.call(at * 1_000, 500, cost_usd=cost, saved_usd=cost, cost_basis="list")
    run.agent(5_000)
    with Store.open(path, delivers=False) as store:
        for row in run.rows:
            store.add([row])
    async with serve_api(path) as api:
        tree = await api.get("runs/1")
        found = [
            (await api.get("groups"))["groups"][0],
            (await api.get("groups", by="user"))["groups"][0],
            (await api.get("conversations"))["conversations"][0],
            tree["run"],
            tree["steps"][0]["branch"],
            (await api.get("stats", from_="2025-11-20T14:00:00Z", to="2025-11-20T15:00:00Z"))[
                "totals"
            ],
        ]
    out = io.StringIO()
    options = StatsOptions(
        words=[], since=None, by="model", price_as=None, limit=None, as_json=True
    )
    assert run_stats(path, options, prices=PriceTable, out=out, err=out) == 0
    found += map(decode_json, out.getvalue().splitlines())
    for sums in found:
        assert [sums[name] for name in ("cost_usd", "list_usd", "saved_usd")] == [1.300000001] * 3
        assert sums["priced"] == len(COSTS)
