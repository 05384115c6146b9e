"""``/api/runs/N``: a run as a tree, with sums of each branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.page.api import runs as runs_module
from telemetry.store.store import Store
from tests.proxy.page.serving import serve_api
from tests.proxy.page.test_conversations import PROMPT, delegate
from tests.proxy.test_branch_sums import nested
from tests.telemetry.conversations.agents import Agents
from tests.telemetry.run_rows import Run
from tests.telemetry.test_canary import rules_of

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from telemetry.store.rows import SpanRow


def keep(path: Path, rows: list[SpanRow]) -> None:
    """Record rows."""
    with Store.open(path, delivers=False) as store:
        store.add(rows)


async def test_steps_are_in_the_order_of_the_tree(tmp_path: Path) -> None:
    """As ``spantap show run:N`` draws them; the sums of the run are without its sub-agent."""
    keep(tmp_path / "t.db", nested())
    async with serve_api(tmp_path / "t.db") as api:
        told = await api.get("runs/812")
        below = await api.get("runs/815")
    steps = [(one["kind"], one["depth"], one["run"]) for one in told["steps"]]
    sub = [("AGENT", 2, 815), ("LLM", 3, 815), ("TOOL", 3, 815), ("LLM", 3, 815)]
    top = [("AGENT", 0, 812), ("LLM", 1, 812), ("TOOL", 1, 812)]
    assert steps == [*top, *sub, ("LLM", 1, 812)]
    assert (told["run"]["calls"], told["steps"][0]["branch"]["calls"]) == (2, 4)
    assert told["steps"][2]["branch"]["duration_ms"] == 1_000
    assert (told["steps"][1]["start_ms"], told["steps"][1]["branch"]) == (0, None)
    assert (told["parent_run"], told["complete"]) == (None, True)
    assert (below["parent_run"], len(below["steps"])) == (812, 4)


async def test_an_agent_without_a_span_is_a_step_without_an_id(tmp_path: Path) -> None:
    """The run is open; its time is that of what is below it."""
    run = Run(812)
    run.call(0, 1_000, "grep")
    keep(tmp_path / "t.db", run.rows)
    async with serve_api(tmp_path / "t.db") as api:
        told = await api.get("runs/812")
    root, call = told["steps"]
    assert told["run"]["open"]
    assert (root["span_id"], root["seq"], root["kind"], root["run"]) == (None, None, "AGENT", 812)
    assert (root["end_ms"], root["branch"]["calls"]) == (1_000, 1)
    assert call["tools"] == ["grep"]


async def test_what_is_left_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree has so many steps; of a run that is not there it says so."""
    keep(tmp_path / "t.db", nested())
    async with serve_api(tmp_path / "t.db") as api:
        monkeypatch.setattr(runs_module, "MAX_STEPS", 3)
        told = await api.get("runs/812")
        missing = await api.ask("runs/5")
        monkeypatch.undo()
        monkeypatch.setattr("proxy.reading.run_tree.MAX_DEPTH", 2)
        flat = await api.get("runs/812")
    assert (told["complete"], told["too_deep"]) == (False, 0)
    assert (flat["complete"], flat["too_deep"], len(flat["steps"])) == (True, 3, 5)
    assert told["run"]["calls"] == 2
    assert (missing.status, missing.json["error"]["code"]) == (404, "not_found")


async def test_what_is_hidden_is_in_no_tree(tmp_path: Path) -> None:
    """Neither what a user asked nor what a tool was called with, which is the model's output."""
    for switches, shown in (
        ((), (True, True)),
        (("HIDE_INPUTS",), (False, True)),
        (("HIDE_INPUTS", "HIDE_OUTPUTS"), (False, False)),
    ):
        path = tmp_path / f"{len(switches)}.db"
        with Agents(path, rules_of(*switches)) as agents:
            delegate(agents)
        async with serve_api(path) as api:
            told = (await api.ask("runs/1")).body.decode()
        assert ("Where is it?" in told, PROMPT in told) == shown
