"""What is told of a benchmark: medians, ratios, growth, tables, goals. No load is run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.bench.big_bodies import Stall
from tests.bench.budgets import judge
from tests.bench.growth import Point, find_deviations, find_rises
from tests.bench.measuring import Figures
from tests.bench.open_streams import OpenStreams
from tests.bench.plan import FULL, JSON, QUICK, slow_work
from tests.bench.render import fill_in
from tests.bench.results import Results, find_difference, find_ratio, middle
from tests.bench.saturation import Saturated
from tests.bench.tables import render_sections, render_table

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


def test_the_median_is_taken_of_each_figure_and_process() -> None:
    """A figure that some round lacks has none."""
    rounds = [
        figures(answers_per_second=rate, cpu_seconds_per_1000={"worker": cpu})
        for rate, cpu in ((1.0, 30.0), (5.0, 10.0), (2.0, 20.0))
    ]
    told = middle(rounds)
    assert (told.answers_per_second, told.cpu_seconds) == (2.0, 20.0)
    assert told.chunk_delay_p99_ms is None


def test_ratios_are_those_of_the_same_round() -> None:
    """A round that was slow for both changes none; of a single round beside many, medians do."""

    def rate(one: Figures) -> float:
        return one.answers_per_second

    ours = [figures(answers_per_second=value) for value in (8.0, 80.0, 800.0)]
    bares = [figures(answers_per_second=value) for value in (10.0, 100.0, 1000.0)]
    assert find_ratio(ours, bares, rate) == pytest.approx(0.8)
    assert find_ratio(ours, bares[:1], rate) == pytest.approx(8.0)


def test_differences_are_those_of_the_same_round() -> None:
    """As ratios are."""
    ours = [figures(answers_per_second=value) for value in (3.0, 30.0, 301.0)]
    bares = [figures(answers_per_second=value) for value in (1.0, 29.0, 300.0)]
    assert find_difference(ours, bares, lambda one: one.answers_per_second) == 1.0


def points(*costs: tuple[int, float]) -> list[Point]:
    """Each costs as much CPU as memory."""
    return [Point(count=count, cpu_us=cost, memory_bytes=cost) for count, cost in costs]


def test_a_unit_costs_what_is_more_than_before() -> None:
    """Growth rules 1 and 2: the fixed part is in no rise, and noise is not told."""
    grown = points((1, 1000), (11, 1010), (1011, 2010))
    assert find_rises(grown, "cpu_us") == [None, None, 1.0]
    assert find_rises(grown, "memory_bytes") == [None, None, None]
    assert find_rises(points((1, 1e5), (2, 2e5)), "memory_bytes") == [None, 1e5]
    assert find_rises(points((1, 100), (2, 90)), "cpu_us") == [None, None]


def test_growth_is_linear_where_no_unit_costs_more_than_before() -> None:
    """Growth rule 3: beside the cheapest at any smaller count, past those that are not told."""
    grown = points((0, 0), (1, 10), (2, 18), (3, 18), (4, 28))
    assert find_rises(grown, "cpu_us") == [None, 10, 8, None, 10]
    told = find_deviations("open streams", grown, "cpu_us")
    assert told == [None, None, pytest.approx(-0.2), None, pytest.approx(0.25)]


def test_workers_are_compared_as_they_are() -> None:
    """Growth rule 4: a call costs what it costs through one."""
    told = find_deviations("workers", points((1, 100), (2, 130)), "memory_bytes")
    assert told == [None, pytest.approx(0.3)]


def test_what_large_bodies_add_is_the_median_of_the_rounds() -> None:
    """A round that was slow all the time says nothing of them."""
    rounds = [
        Stall(alone_p99_ms=alone, beside_p99_ms=beside, bodies=7, body_seconds=0.1)
        for alone, beside in ((1.0, 4.0), (1.0, 1.5), (4.0, 4.25))
    ]
    found = Results(date="today", machine={}, big_bodies={"spantap": rounds})
    assert [budget.figure for budget in judge(found)] == ["0.5 ms"]
    assert "+0.50" in render_sections(found)["bodies"]


def test_a_table_is_markdown_and_even() -> None:
    """Text on the left, figures on the right."""
    assert render_table(("", "figure"), [("a", "1"), ("bcd", "10")]) == (
        "|     | figure |\n| --- | -----: |\n| a   |      1 |\n| bcd |     10 |\n"
    )


def test_the_document_has_a_place_for_everything(results: Results) -> None:
    """And keeps what is around it; filled in twice it is the same."""
    sections = render_sections(results)
    once = fill_in(DOCUMENT.read_text(), sections)
    assert fill_in(once, sections) == once
    for text in sections.values():
        assert text in once
    with pytest.raises(ValueError, match="no place for rest"):
        fill_in(once, {"rest": ""})


def test_what_was_not_run_has_no_table_and_no_goal() -> None:
    """A part that was left out is silent, not met."""
    nothing = Results(date="today", machine={})
    assert list(render_sections(nothing)) == ["machine"]
    assert judge(nothing) == []


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


def test_results_are_read_as_they_were_written(results: Results, tmp_path: Path) -> None:
    """Every round of them."""
    path = tmp_path / "new/results.json"
    results.write(path)
    assert Results.read(path) == results


def test_the_slow_contestant_does_little() -> None:
    """The two loads whose ratios are told, a twentieth of them."""
    done = [work for work in map(slow_work, FULL.works) if work is not None]
    assert [work.requests for work in done] == [400, 100]
    assert all(work.seconds for work in done)


def test_a_quick_run_has_all_parts() -> None:
    """Smaller, and none of them so small that a connection has nothing to do."""
    assert [work.name for work in QUICK.works] == [work.name for work in FULL.works]
    assert all(work.requests >= work.connections for work in QUICK.works)
    assert QUICK.growths.keys() == FULL.growths.keys()
