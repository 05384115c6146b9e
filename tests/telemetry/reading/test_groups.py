"""``telemetry.reading.groups``: what the calls of each session or user come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from telemetry.reading import groups as groups_module
from telemetry.reading.stored_calls import open_calls
from telemetry.store.store import Store
from tests.telemetry.run_rows import Run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from telemetry.reading.calls import Calls

ENOUGH = 60.0


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[Calls]:
    """Twelve calls: four of ann's, four of bob's between them, four of nobody's."""
    rows = []
    for number in range(12):
        run = Run(number + 1, begin_ms=number * 1_000, user=["ann", "bob", None][number % 3])
        run.call(0, 500, cost_usd=None if number == 3 else 0.25, status="OK")
        rows += run.rows
    with Store.open(tmp_path / "t.db", delivers=False) as store:
        store.add(rows)
    with open_calls(tmp_path / "t.db") as reader:
        yield reader


def test_the_one_with_the_newest_call_comes_first(calls: Calls) -> None:
    """With its sums, and the number of calls that nobody named."""
    found = calls.newest_groups("user", seconds=ENOUGH)
    known = [(one.key, one.calls, one.priced, one.cost_usd, one.last_seq) for one in found.groups]
    assert known == [("bob", 4, 4, 1.0, 11), ("ann", 4, 3, 0.75, 10)]
    assert (found.unnamed, found.left_out, found.back_to) == (4, False, 0)
    assert found.groups[0].end_ns - found.groups[0].start_ns == 9_500_000_000


def test_the_sums_of_older_calls_are_the_rest(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read ends when its time is over, after a step; the next one goes on from there."""
    monkeypatch.setattr(groups_module, "STEP_NUMBERS", 5)
    before, read = calls.last_seq() + 1, []
    while before:
        found = calls.newest_groups("user", before=before, seconds=0)
        read.append({one.key: one.calls for one in found.groups} | {"": found.unnamed})
        before = found.back_to
    assert read == [
        {"bob": 2, "ann": 1, "": 2},
        {"bob": 1, "ann": 2, "": 2},
        {"bob": 1, "ann": 1, "": 0},
    ]
    assert calls.newest_groups("user", seconds=ENOUGH).groups[0].calls == 4


def test_of_too_many_groups_those_with_older_calls_are_left_out(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sums of the others, and what nobody named, are whole."""
    monkeypatch.setattr(groups_module, "MAX_GROUPS", 2)
    monkeypatch.setattr(groups_module, "STEP_NUMBERS", 3)
    found = calls.newest_groups("user", seconds=ENOUGH)
    assert [(one.key, one.calls) for one in found.groups] == [("bob", 4)]
    assert (found.unnamed, found.left_out) == (4, True)


def test_of_an_empty_store_there_are_none(tmp_path: Path) -> None:
    """Nothing to go on from."""
    Store.open(tmp_path / "t.db", delivers=False).close()
    with open_calls(tmp_path / "t.db") as reader:
        found = reader.newest_groups("session", seconds=ENOUGH)
    assert (found.groups, found.unnamed, found.back_to) == ([], 0, 0)
