"""``telemetry.reading.runs``: runs, their sums and their rows."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from telemetry.reading import runs
from telemetry.reading.sqlite import engine, walking
from telemetry.reading.stored_calls import open_calls
from telemetry.store.minutes import MAX_COST_USD, MAX_TOKENS
from telemetry.store.store import Store
from tests.telemetry.damage import make_older
from tests.telemetry.reading.asking import connection_of, where
from tests.telemetry.run_rows import MS, Run, lone_call, make_agent_run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from telemetry.store.rows import SpanRow


def fill(path: Path, *groups: Sequence[SpanRow]) -> Path:
    """A store of these rows."""
    with Store.open(path, delivers=False) as store:
        for rows in groups:
            store.add(rows)
    return path


def runs_of(path: Path, limit: int = 99, words: str = "") -> list[int]:
    """The numbers of the runs that have a call for which that holds."""
    with open_calls(path) as reader:
        return [sums.run for sums in reader.that(where(words)).runs(limit)]


def test_a_run_comes_to_what_its_calls_do(path: Path) -> None:
    """Tools are counted apart; times are those of all rows."""
    run = make_agent_run()
    with open_calls(fill(path, [lone_call(1)], run.rows)) as reader:
        [sums] = reader.runs(9)
    assert (sums.run, sums.calls, sums.errors, sums.tools, sums.tool_errors) == (812, 3, 0, 3, 1)
    assert (sums.prompt_tokens, sums.cached_tokens, sums.completion_tokens) == (300, 240, 30)
    assert (sums.cost_usd, sums.priced) == (0.5, 2)
    assert sums.end_ns - sums.start_ns == 5_000 * MS
    assert (sums.first_seq, sums.last_seq) == (2, 8)
    assert sums.first_call is not None
    assert sums.first_call.span_id == run.rows[0].span_id
    assert sums.agent is not None
    assert sums.agent.span_id == run.agent_id


def test_a_run_without_its_agent_is_open_and_what_nobody_told_is_not_known(path: Path) -> None:
    """No token is invented."""
    run = Run(5)
    nothing = dict.fromkeys(("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd"))
    run.call(0, 10, "grep", **nothing)
    with open_calls(fill(path, run.rows)) as reader:
        [sums] = reader.runs(9)
    assert sums.agent is None
    assert (sums.prompt_tokens, sums.cached_tokens, sums.completion_tokens) == (None, None, None)
    assert (sums.cost_usd, sums.priced) == (None, 0)


def test_rule_3_no_provider_breaks_a_sum(path: Path) -> None:
    """A row is worth no more than in the sums by minute."""
    run = Run(5)
    for _ in range(3):
        run.call(0, 10, prompt_tokens=(1 << 63) - 1, completion_tokens=-5, cost_usd=float("inf"))
    with open_calls(fill(path, run.rows)) as reader:
        [sums] = reader.runs(9)
    assert (sums.prompt_tokens, sums.completion_tokens) == (3 * MAX_TOKENS, 0)
    assert sums.cost_usd == 3 * MAX_COST_USD


@pytest.mark.parametrize("step", [1, 2, 7, 20_000])
def test_rule_1_runs_are_found_in_steps_the_newest_first(
    step: int, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over gaps, up to the limit, and only those that have a call that fits."""
    monkeypatch.setattr(engine, "STEP_RUNS", step)
    numbers = sorted(random.Random(step).sample(range(1, 200), 12))
    groups = [make_agent_run(number, begin_ms=number * 10_000).rows for number in numbers]
    fill(path, [lone_call(1)], *groups)
    assert runs_of(path) == numbers[::-1]
    assert runs_of(path, 5) == numbers[:-6:-1]
    third = numbers[3] * 65_536 + 1
    assert runs_of(path, words=f"id:{third:016x}") == [numbers[3]]
    assert runs_of(path, words="tool:bash -api:* -kind:llm") == [], "a tool is no call"
    assert len(runs_of(path, words="kind:tool status:error")) == 12


def test_runs_are_found_by_their_index(path: Path) -> None:
    """A million calls of none take no time."""
    fill(path, make_agent_run().rows)
    statements: list[str] = []
    with open_calls(path) as reader:
        connection = connection_of(reader)
        connection.set_trace_callback(statements.append)
        assert len(reader.that(where("upstream:default")).runs(9)) <= 1
        assert reader.of_run(812) is not None
        connection.set_trace_callback(None)
        asked = [one for one in statements if " run " in one]
        assert len(asked) >= 5
        for statement in asked:
            plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
            assert "spans_by_run" in str(plan), statement


def test_rule_2_rows_of_the_trace_are_found_near_by(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not those that are far behind, nor those of other traces between."""
    monkeypatch.setattr(walking, "STEP_NUMBERS", 2)
    monkeypatch.setattr(runs, "NEAR_ROWS", 2)
    run, other = make_agent_run(), make_agent_run(900)
    sub = Run(815, trace_id=run.trace_id)
    for start in range(4):
        sub.call(start, 1)
    mixed = [row for pair in zip(run.rows, other.rows, strict=True) for row in pair]
    with open_calls(fill(path, mixed, sub.rows)) as reader:
        found = reader.run_tree(812)
    assert found is not None
    _, rows = found
    # The last row of the other run lies between, and so does one of the two that are near.
    assert [row.span_id for row in rows] == [
        *(row.span_id for row in run.rows),
        sub.rows[0].span_id,
    ]


def test_a_tree_that_is_too_large_is_cut(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row more tells that it is."""
    monkeypatch.setattr(runs, "MAX_TREE_ROWS", 3)
    with open_calls(fill(path, make_agent_run().rows)) as reader:
        found = reader.run_tree(812)
    assert found is not None
    assert len(found[1]) == 4


def test_an_older_store_has_no_runs(path: Path) -> None:
    """Nothing is asked of columns that it lacks."""
    make_older(fill(path, [lone_call(1)]))
    with open_calls(path) as reader:
        assert reader.runs(9) == []
        assert reader.run_tree(1) is None
        assert not reader.tool_calls().counts


def test_the_outermost_run_of_a_trace_is_the_first(path: Path) -> None:
    """Sub-agents begin later."""
    run = make_agent_run()
    sub = Run(815, trace_id=run.trace_id)
    sub.call(0, 1)
    with open_calls(fill(path, sub.rows, run.rows)) as reader:
        assert reader.run_of_trace(run.trace_id) == 812
        assert reader.run_of_trace("0" * 32) is None


def test_tools_that_were_called_are_counted_where_it_can_be_told(path: Path) -> None:
    """One tool often, or each once; not how often which of two."""
    run = Run(5)
    run.call(0, 1, "grep", "grep", "grep")
    run.call(1, 1, "grep", "read_file")
    run.call(2, 1, "bash", "bash", "task")
    run.call(3, 1)
    alone = Run(6)
    alone.call(0, 1, "extract", run=None)
    with open_calls(fill(path, run.rows, alone.rows)) as reader:
        asked = reader.tool_calls()
    assert asked.counts == {"grep": 4, "read_file": 1, "bash": 0, "task": 0}
    assert asked.unsure == {"bash", "task"}
