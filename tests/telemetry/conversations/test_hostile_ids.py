"""Ids that contradict each other, in calls of any order: the tree stays one, nothing is left."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from telemetry.conversations.run import RUN_IDLE_SECONDS
from tests.telemetry.conversations.agents import SECOND_NS, Agents
from tests.telemetry.conversations.talks import answer, calls, result, user
from tests.telemetry.conversations.test_agent_ids import LAUNCHED, NOTICE, PROMPT, claude, launch

if TYPE_CHECKING:
    from collections.abc import Sequence

CALLS = 40
NAMES = ("a1", "b2", "c3")


def choose_answer(chance: random.Random, number: int) -> dict[str, Any] | None:
    """An answer, calls of tools, or a failure."""
    return chance.choice(
        [
            None,
            answer(f"It is {number}"),
            launch(f"call_{number}", f"call_{number}b"),
            calls(f"call_{number}"),
        ]
    )


def list_next(chance: random.Random, said: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """What the client says to an answer: results that name any agent, or a message."""
    name = chance.choice(NAMES)
    texts = ["done", LAUNCHED.format(name), f"It is there\nagentId: {name}"]
    made = said.get("tool_calls", ())
    results = [result(one["id"], chance.choice(texts)) for one in made]
    return results or [user(chance.choice(["More", NOTICE.format(name)]))]


@pytest.mark.parametrize("seed", range(12))
def test_contradicting_ids_leave_a_tree(agents: Agents, seed: int) -> None:
    """Each span is there once, below one of its own trace; no agent is below itself."""
    chance = random.Random(seed)
    histories: dict[str, Sequence[dict[str, Any]]] = {}
    for number in range(CALLS):
        agent = chance.choice(["", *NAMES])
        parent = chance.choice(["", agent, *NAMES]) if agent else ""
        prompt, kind = chance.choice(["", "p-1"]), chance.choice(["", "", "", "compaction"])
        history = histories.setdefault(agent, [user(PROMPT)])
        said = choose_answer(chance, number)
        agents.call(
            *history,
            said=said,
            headers=claude(agent, parent, prompt_id=prompt, request_class=kind),
            at=chance.choice([None, number]),
            diagnostics={"previous_message_id": chance.choice([None, f"a-{number}"])},
        )
        if said is not None:
            histories[agent] = [*history, said, *list_next(chance, said)]
        if chance.random() < 0.05:
            agents.start()
    for _ in range(2):  # a run above rests as long as one below it is at work
        agents.now_ns += 3 * RUN_IDLE_SECONDS * SECOND_NS
        agents.service.commit()
    seen = agents.see()
    spans = {one.span.span_id: one.span for one in seen}
    assert len(spans) == len(seen)
    for span in spans.values():
        above = [span]
        while (parent_id := above[-1].parent_span_id) is not None:
            above.append(spans[parent_id])
            assert len(above) <= len(spans)
        assert {one.trace_id for one in above} == {span.trace_id}
    kept = agents.service.conversations.runs.launches
    assert not any((kept._runs, kept._agents, kept._prompts, kept._held, kept._unfinished))
