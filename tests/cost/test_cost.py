"""The hot paths cost what is recorded; more is a regression, and would be noticed.

The rules are those of :mod:`tests.cost.costs` and :mod:`tests.cost.counters`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cost.costs import (
    COUNTERS,
    describe_this_python,
    find_obstacle,
    find_tool_obstacle,
    judge,
    measure,
    read_locked,
    read_record,
)

if TYPE_CHECKING:
    from tests.cost.costs import Costs

pytestmark = pytest.mark.timeout(300)  # valgrind takes ten seconds of a processor that others use

EVENT_FILTERED = "codec: read of one event filtered"


@pytest.mark.parametrize("counter", COUNTERS)
def test_hot_paths_cost_what_is_recorded(counter: str) -> None:
    """Rule 1: none costs 15 % more than recorded, or less; `make costs` records what is right."""
    if obstacle := find_obstacle(counter):
        pytest.skip(obstacle)
    assert judge(read_record()[counter], measure(counter)[0]) == []


def test_record_is_of_the_locked_libraries() -> None:
    """Rule 3: a lock with another version of what a call goes through needs a new record."""
    assert read_record()["libraries"] == read_locked()


@pytest.mark.parametrize(
    ("counter", "other", "is_compared"),
    [
        ("bytecodes", {"build": "another"}, True),
        ("bytecodes", {"python": "3.12"}, False),
        ("bytecodes", {"libraries": {}}, False),
        ("instructions", {"build": "another"}, False),
    ],
)
def test_costs_are_compared_where_they_were_recorded(
    monkeypatch: pytest.MonkeyPatch, counter: str, other: dict[str, Any], is_compared: bool
) -> None:
    """Rules 2 and 3: one Python, one set of libraries, and for instructions one build."""
    here = describe_this_python()
    monkeypatch.setattr("tests.cost.costs.read_record", lambda: here | other)
    assert (find_obstacle(counter) is None) == is_compared


def test_judge_tells_what_is_dearer_cheaper_new_or_gone() -> None:
    """Rule 1: 15 % either way is let pass, what is beyond is told, and so is a missing figure."""
    recorded = {
        "dearer": 1000,
        "much dearer": 1000,
        "cheaper": 1000,
        "much cheaper": 1000,
        "gone": 1,
    }
    counted = {"dearer": 1150, "much dearer": 1151, "cheaper": 850, "much cheaper": 849, "new": 1}
    told = judge(recorded, counted)
    assert [sentence.partition(":")[0] for sentence in told] == [
        "much dearer",
        "much cheaper",
        "gone",
        "new",
    ]
    assert told[0] == "much dearer: 1000 -> 1151 (+15%): a regression"


def test_a_count_is_the_same_each_time() -> None:
    """Rule 1 of the counters: another process counts the same."""
    [first], [second] = measure("bytecodes", "filters"), measure("bytecodes", "filters")
    assert first == pytest.approx(second, rel=0.01)


def test_work_that_is_done_again_is_noticed() -> None:
    """A filter that does every fifth read twice is 20 % dearer: told. Every tenth is let pass."""
    ways = ("fifth read filtered twice", "tenth read filtered twice")
    before, by_a_fifth, by_a_tenth = measure("bytecodes", "filters", ways)
    assert EVENT_FILTERED in _find_regressions(before, by_a_fifth)
    assert EVENT_FILTERED not in _find_regressions(before, by_a_tenth)


@pytest.mark.parametrize("counter", COUNTERS)
def test_work_of_c_code_is_noticed_by_instructions_alone(counter: str) -> None:
    """Rule 2 of the counters: each read is gone through once more, in C."""
    if obstacle := find_tool_obstacle(counter):
        pytest.skip(obstacle)
    before, worsened = measure(counter, "filters", ["reads gone through in C"])
    noticed = EVENT_FILTERED in _find_regressions(before, worsened)
    assert noticed == (counter == "instructions")


def _find_regressions(before: Costs, after: Costs) -> list[str]:
    """Names of paths that are judged so."""
    told = [sentence for sentence in judge(before, after) if sentence.endswith("a regression")]
    return [name for name in before if any(sentence.startswith(name) for sentence in told)]
