"""The table of what reading a large store came to. Nothing is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bench.store_figures import SECTION, Reading, ReadingResults
from tests.bench.tables import fill_in
from tests.bench.test_tables import DOCUMENT

if TYPE_CHECKING:
    from pathlib import Path


def read(**members: object) -> Reading:
    told = {"what": "a list", "unit": "s", "goal": 0.3, "rounds": [0.1, 0.3, 0.9]} | members
    return Reading(**told)  # type: ignore[arg-type]


RESULTS = ReadingResults(
    date="today",
    machine={},
    calls=1_000_000,
    size_bytes=3_500_000_000,
    parts={
        "reads": [read(cpu_seconds=[0.2]), read(rounds=[0.4])],
        "search": [read(unit="MB/s", goal=300, is_least=True, rounds=[299.0], cpu_rates=[400.0])],
        "beside": [read(goal=None)],
    },
)


def test_a_goal_is_met_up_to_its_figure() -> None:
    """The median counts; what has no goal cannot miss it."""
    assert read().is_met
    assert not read(rounds=[0.31]).is_met
    assert not read(is_least=True, rounds=[0.29]).is_met
    assert read(is_least=True).is_met
    assert read(goal=None, rounds=[9.0]).is_met


def test_the_table_tells_goals_figures_and_cpu_time() -> None:
    """A row for each figure, in the order of the parts."""
    _, _, *rows = RESULTS.render().splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert cells == [
        ["a list", "at most 0.3 s", "0.3 s", "0.2 s", "met"],
        ["a list", "at most 0.3 s", "0.4 s", "-", "**not met**"],
        ["a list", "at least 300 MB/s", "299 MB/s", "400 MB/s", "**not met**"],
        ["a list", "-", "0.3 s", "-", "-"],
    ]


def test_the_document_has_a_place_for_the_table() -> None:
    """And its other tables stay."""
    filled = fill_in(DOCUMENT.read_text(), {SECTION: RESULTS.render()})
    assert RESULTS.render() in filled
    with pytest.raises(ValueError, match="no place for rest"):
        fill_in(filled, {"rest": ""})


def test_what_was_kept_is_read_back(tmp_path: Path) -> None:
    """Every round of it."""
    RESULTS.write(tmp_path / "store.json")
    assert ReadingResults.read(tmp_path / "store.json") == RESULTS
