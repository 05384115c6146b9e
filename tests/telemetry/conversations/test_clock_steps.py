"""Runs while the machine's clock steps: none ends for it, and no span ends before it begins."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from telemetry.conversations.run import RUN_IDLE_SECONDS
from tests.telemetry.conversations.agents import SECOND_NS, Agents
from tests.telemetry.conversations.talks import answer, calls, result, user

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOUR_NS = 3_600 * SECOND_NS
RUNS = 5


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with Agents(tmp_path / "spans.db") as opened:
        yield opened


def ask(agents: Agents, number: int, step: int, *, at: float | None = None) -> None:
    """Take a step of a run: two tools, then one, then the answer."""
    asked = user(f"Question {number}")
    two = calls(f"call_a{number}", f"call_b{number}")
    one = calls(f"call_c{number}")
    results = (result(f"call_a{number}"), result(f"call_b{number}"))
    histories = (
        (asked,),
        (asked, two, *results),
        (asked, two, *results, one, result(f"call_c{number}")),
    )
    agents.call(*histories[step], said=(two, one, answer(f"So much for {number}"))[step], at=at)


@pytest.mark.parametrize("steps", [(HOUR_NS, 0), (-HOUR_NS, 0), (HOUR_NS, -HOUR_NS), (-1, 1)])
def test_runs_go_on_when_the_clock_steps(agents: Agents, steps: tuple[int, int]) -> None:
    """Forward and back, between calls: each run is whole, and ends once, by its answer."""
    for at, step_ns in enumerate((0, *steps)):
        agents.step_ns = step_ns
        agents.service.commit()
        for number in range(RUNS):
            ask(agents, number, at)
    seen = agents.see()
    assert Counter(one.columns.kind for one in seen) == {
        "LLM": 3 * RUNS,
        "TOOL": 3 * RUNS,
        "AGENT": RUNS,
    }
    ended = [one.metadata for one in agents.see_kind("AGENT")]
    assert [(one["calls"], one["tools"], one["ended_by"]) for one in ended] == [
        (3, 3, "answer")
    ] * RUNS
    assert all(one.span.start_ns <= one.span.end_ns for one in seen)
    parents = {one.span.span_id: one.span.trace_id for one in seen}
    assert all(
        parents[one.span.parent_span_id] == one.span.trace_id
        for one in seen
        if one.span.parent_span_id is not None
    )


@pytest.mark.parametrize("step_ns", [HOUR_NS, -HOUR_NS])
def test_a_run_rests_as_long_as_ever_when_the_clock_steps(agents: Agents, step_ns: int) -> None:
    """Ten minutes after its last call was recorded, no sooner and no later."""
    ask(agents, 0, 0)
    agents.step_ns = step_ns
    ask(agents, 1, 0)
    agents.now_ns += RUN_IDLE_SECONDS * SECOND_NS - 1
    agents.service.commit()
    assert len(agents.see_kind("AGENT")) == 1  # the first one's time came a second before
    agents.now_ns += 2
    agents.service.commit()
    assert [one.metadata["ended_by"] for one in agents.see_kind("AGENT")] == ["idle"] * 2


def test_a_run_that_ended_in_the_future_is_one_of_now_after_a_restart(agents: Agents) -> None:
    """A clock that was put back before a start makes none rest for an hour."""
    ask(agents, 0, 0)
    agents.now_ns -= HOUR_NS
    agents.start()
    agents.service.commit()
    agents.now_ns += (RUN_IDLE_SECONDS + 1) * SECOND_NS
    agents.service.commit()
    [agent] = agents.see_kind("AGENT")
    assert agent.metadata["ended_by"] == "idle"


def test_calls_that_waited_long_are_in_their_runs(agents: Agents) -> None:
    """Those that telemetry reads an hour later, from the spool, end no run."""
    for step in range(3):
        ask(agents, 0, step, at=2.0 * step - 3_600)
        agents.service.commit()
    [agent] = agents.see_kind("AGENT")
    assert (agent.metadata["calls"], agent.metadata["ended_by"]) == (3, "answer")
