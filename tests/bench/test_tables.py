"""What is told of a benchmark: medians, ratios, growth, tables, goals. No load is run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.bench.budgets import judge
from tests.bench.growth import GROWTHS, Point, find_deviations, find_rises, measure_growth
from tests.bench.measuring import Figures
from tests.bench.open_streams import OpenStreams
from tests.bench.plan import FULL, JSON
from tests.bench.results import Results, find_ratio
from tests.bench.saturation import Saturated
from tests.bench.tables import fill_in, render_sections

DOCUMENT = Path(__file__).parents[2] / "docs/performance.md"

FIGURES = Figures(
    start_seconds=1.0,
    answers=100,
    answers_per_second=1000.0,
    chunk_delay_p50_ms=None,
    chunk_delay_p99_ms=None,
    ttfb_p50_ms=1.0,
    ttfb_p99_ms=2.0,
    cpu_seconds_per_1000={"worker": 0.2, "telemetry": 0.05},
    memory_bytes=40_000_000,
    backlog_seconds=0.0,
    queue_bytes=0,
    exchanges=101,
    spans=101,
    dropped=0,
)


def figures(**members: Any) -> Figures:
    return dataclasses.replace(FIGURES, **members)


@pytest.fixture
def results() -> Results:
    """Some of each part."""
    found = Results(date="today", machine={"Python": "3"})
    for work in FULL.works:
        delays = {"chunk_delay_p50_ms": 1.0, "chunk_delay_p99_ms": 3.0} if work.rate else {}
        found.works[work.name] = {"bare": [figures(**delays)], "spantap": [figures(**delays)]}
    held = OpenStreams(
        streams=1000,
        idle_bytes={"worker": 40_000_000, "telemetry": 50_000_000},
        open_bytes={"worker": 70_000_000, "telemetry": 60_000_000},
        cpu_seconds=1.0,
    )
    found.open_streams = {"spantap": [held, held]}
    whole = Saturated(
        answers=9, answers_per_second=1.0, whole_spans=9, spool_bytes=0, recorded_seconds=0.0
    )
    found.saturation = {"whole answers": whole, "streams": whole}
    found.growths = {
        name: [Point(count=n, cpu_us=100.0 + n, memory_bytes=n * 1000.0) for n in counts]
        for name, counts in FULL.growths.items()
        if name != "workers"
    }
    found.growths["workers"] = [Point(count=n, cpu_us=500, memory_bytes=60_000.0) for n in (1, 2)]
    return found


def test_ratios_are_those_of_the_same_round() -> None:
    """A round that was slow for both changes none; of a single round beside many, medians do."""

    def rate(one: Figures) -> float:
        return one.answers_per_second

    ours = [figures(answers_per_second=value) for value in (8.0, 80.0, 800.0)]
    bares = [figures(answers_per_second=value) for value in (10.0, 100.0, 1000.0)]
    assert find_ratio(ours, bares, rate) == pytest.approx(0.8)
    assert find_ratio(ours, bares[:1], rate) == pytest.approx(8.0)


def points(*costs: tuple[int, float]) -> list[Point]:
    """Each costs as much CPU as memory."""
    return [Point(count=count, cpu_us=cost, memory_bytes=cost) for count, cost in costs]


def test_a_unit_costs_what_is_more_than_before() -> None:
    """Growth rules 1 and 2: the fixed part is in no rise, and noise is not told."""
    grown = points((1, 1000), (11, 1010), (1011, 2010))
    assert find_rises(grown, "cpu_us") == [None, None, 1.0]
    assert find_rises(points((1, 10), (11, 110), (21, 410)), "cpu_us") == [None, 10, 20]
    assert find_rises(grown, "memory_bytes") == [None, None, None]
    assert find_rises(points((1, 1e5), (2, 2e5)), "memory_bytes") == [None, 1e5]
    assert find_rises(points((1, 100), (2, 90)), "cpu_us") == [None, None]


def test_of_rounds_the_median_of_cpu_and_the_least_of_memory_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Growth rule 4."""
    rounds = iter([(3.0, 30.0), (1.0, 20.0), (2.0, 10.0)])

    def grow(count: int, _exchanges: int) -> Point:
        cpu_us, memory_bytes = next(rounds)
        return Point(count=count, cpu_us=cpu_us, memory_bytes=memory_bytes)

    monkeypatch.setitem(GROWTHS, "workers", grow)
    assert measure_growth("workers", {7: 1}, 3) == [Point(count=7, cpu_us=2.0, memory_bytes=10.0)]


def test_growth_is_linear_where_no_unit_costs_more_than_before() -> None:
    """Growth rule 3: beside the cheapest at any smaller count, past those that are not told."""
    grown = points((0, 100), (1, 110), (2, 118), (4, 140), (8, 260))
    assert find_rises(grown, "cpu_us") == [None, None, 9, 10, 20]
    told = find_deviations("open streams", grown, "cpu_us")
    assert told == [None, None, None, pytest.approx(1 / 9), pytest.approx(11 / 9)]


def test_the_document_has_a_place_for_everything(results: Results) -> None:
    """And keeps what is around it; filled in twice it is the same."""
    sections = render_sections(results)
    once = fill_in(DOCUMENT.read_text(), sections)
    assert fill_in(once, sections) == once
    for text in sections.values():
        assert text in once
    with pytest.raises(ValueError, match="no place for rest"):
        fill_in(once, {"rest": ""})


def test_goals_are_met_up_to_their_figure(results: Results) -> None:
    """Equal to bare meets all; memory is what streams add."""
    met = {budget.what: budget for budget in judge(results)}
    assert all(budget.met for budget in met.values())
    more = met["memory with 1,000 streams open, more"]
    assert (more.goal, more.figure) == ("at most 100 MB", "40 MB")
    slower = figures(answers_per_second=799.0, dropped=1)
    results.works[JSON.name]["spantap"] = [slower]
    hollow = dataclasses.replace(results.saturation["streams"], whole_spans=8)
    results.saturation["streams"] = hollow
    assert {budget.what for budget in judge(results) if not budget.met} == {
        "JSON requests/s",
        "spans dropped, all works",
        "and after a load that does not rest",
    }
