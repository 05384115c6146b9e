"""``proxy.reading.spent_time``: where the time of a run went."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.reading.spent_time import build_time, measure_time
from telemetry.reading.stored_calls import open_calls
from telemetry.store.store import Store
from tests.telemetry.run_rows import MS, Run

if TYPE_CHECKING:
    from pathlib import Path

    from telemetry.store.rows import SpanSummary


def read(path: Path, run: Run) -> list[SpanSummary]:
    """The rows of a run in a store."""
    with Store.open(path, delivers=False) as store:
        store.add(run.rows)
    with open_calls(path) as reader:
        found = reader.run_tree(run.number)
    assert found is not None
    return found[1]


def test_models_and_tools_share_the_time_and_the_longest_step_is_named(tmp_path: Path) -> None:
    """Tools at the same time count once, and a tool beside a call is no time of its own."""
    run = Run(812)
    run.call(0, 1_000, "grep", "bash")
    run.tool("grep", 1_000, 400)
    run.tool("bash", 1_000, 2_500, step="bash pytest")
    run.call(3_000, 1_000)
    run.agent(4_000)
    spent = measure_time(read(tmp_path / "t.db", run))
    assert (spent.model_ns, spent.tools_ns) == (2_000 * MS, 2_000 * MS)
    assert build_time(spent)["longest"] | {"span_id": ""} == {
        "span_id": "", "kind": "TOOL", "what": "bash pytest", "duration_ms": 2_500.0,
    }  # fmt: skip


def test_a_run_without_steps_took_no_time() -> None:
    """All of its rows may have been deleted."""
    assert build_time(measure_time([])) == {"model_ms": 0, "tools_ms": 0, "longest": None}
