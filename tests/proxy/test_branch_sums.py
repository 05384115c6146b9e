"""``proxy.reading.branch_sums``: what each branch of a run's tree comes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.reading.branch_sums import sum_branches
from proxy.reading.run_tree import build_tree
from telemetry.reading.stored_calls import open_calls
from telemetry.store.store import Store
from tests.telemetry.run_rows import Run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from proxy.reading.branch_sums import BranchSums
    from telemetry.store.rows import SpanRow

TASK = "00c0ffee00000001"


def sum_up(path: Path, rows: Sequence[SpanRow], run: int = 812) -> list[BranchSums | None]:
    """The sums of each step of a run in a store of these rows."""
    with Store.open(path, delivers=False) as store:
        store.add(rows)
    with open_calls(path) as reader:
        found = reader.run_tree(run)
    assert found is not None
    return sum_branches(build_tree(*found))


def nested() -> list[SpanRow]:
    """A run of two calls, whose tool ``task`` is a sub-agent with a tool that failed."""
    run = Run(812)
    run.call(0, 1_000, "task")
    sub = Run(815, trace_id=run.trace_id, begin_ms=1_100)
    sub.call(0, 300, "grep", status="ERROR")
    sub.tool("grep", 300, 200, failed=True)
    sub.call(500, 300, cost_usd=None)
    # An agent's span repeats what its calls have.
    sub.agent(800, parent_span_id=TASK, prompt_tokens=999, cost_usd=99.0, status="ERROR")
    run.tool("task", 1_000, 1_000, span_id=TASK)
    run.call(2_000, 500)
    run.agent(2_500)
    return [run.rows[0], *sub.rows, *run.rows[1:]]


def test_each_step_is_counted_once_in_each_branch_that_it_is_in(tmp_path: Path) -> None:
    """Sub-agents are in the branch of the tool that started them, and in that of the root."""
    sums = sum_up(tmp_path / "traces.db", nested())
    counted = [
        one and (one.calls, one.errors, one.tools, one.tool_errors, one.prompt_tokens)
        for one in sums
    ]
    sub = (2, 1, 1, 1, 200)
    # agent, call, task, sub-agent, its call, grep, its call, call
    assert counted == [(4, 1, 2, 1, 400), None, (2, 1, 2, 1, 200), sub, None, None, None, None]


def test_the_calls_of_a_branch_that_have_no_cost_are_counted(tmp_path: Path) -> None:
    """A cost is the sum of known ones, and says of how many calls."""
    root, _, task, *_ = sum_up(tmp_path / "traces.db", nested())
    assert root is not None
    assert task is not None
    assert (root.cost_usd, root.priced, root.calls) == (0.75, 3, 4)
    assert (task.cost_usd, task.priced, task.calls) == (0.25, 1, 2)
    assert (root.list_usd, root.saved_usd) == (None, None)
    run = Run(812)
    run.call(0, 10, cost_usd=None, prompt_tokens=None)
    [unpriced, _] = sum_up(tmp_path / "other.db", run.rows)
    assert unpriced is not None
    assert (unpriced.cost_usd, unpriced.priced, unpriced.prompt_tokens) == (None, 0, None)


def test_the_time_of_a_branch_is_from_its_first_row_to_its_last(tmp_path: Path) -> None:
    """A sub-agent that nobody waits for may end after the run."""
    run = Run(812)
    run.call(0, 1_000, "task")
    run.tool("task", 1_000, 100, span_id=TASK)
    run.agent(1_100)
    late = Run(815, trace_id=run.trace_id, begin_ms=1_050)
    late.call(0, 4_000)
    late.agent(4_000, parent_span_id=TASK)
    root, *_ = sum_up(tmp_path / "traces.db", [*run.rows, *late.rows])
    assert root is not None
    assert (root.end_ns - root.start_ns) == 5_050_000_000


def test_what_a_subscription_paid_stands_apart(tmp_path: Path) -> None:
    """It is a part of the cost; what the cache saved is summed up, too."""
    run = Run(812)
    run.call(0, 10, cost_basis="list", saved_usd=0.5)
    run.call(10, 10, saved_usd=0.25)
    root, *_ = sum_up(tmp_path / "traces.db", run.rows)
    assert root is not None
    assert (root.cost_usd, root.list_usd, root.saved_usd) == (0.5, 0.25, 0.75)
