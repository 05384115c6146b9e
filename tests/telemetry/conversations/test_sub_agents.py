"""Sub-agents: a run below the tool of another that called it (C11)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from telemetry.conversations import sub_agents
from telemetry.conversations.run import RUN_IDLE_SECONDS, derive_span_id
from telemetry.privacy.switches import PrivacySwitches
from telemetry.spans.rules import SpanRules
from tests.telemetry.conversations.agents import SECOND_NS, Agents
from tests.telemetry.conversations.talks import answer, calls, result, user

if TYPE_CHECKING:
    from pathlib import Path


PROMPT = "Find every place where the port is opened, and say which."


def delegate(*ids: str, prompt: str = PROMPT) -> dict[str, Any]:
    """Calls of a tool that begins sub-agents, all with one prompt."""
    made = calls(*ids, name="task")
    for call in made["tool_calls"]:
        call["function"]["arguments"] = f'{{"prompt": "{prompt}", "kind": "explore"}}'
    return made


def test_a_sub_agent_is_below_its_tool(agents: Agents) -> None:
    """In the trace and the session of the run that called it."""
    told = delegate("call_a")
    first = agents.call(user("Where is it?"), said=told)
    tool_id = derive_span_id(first, "tool 0")
    inner = calls("call_x")
    child = agents.call(user(PROMPT), said=inner)
    agents.call(user(PROMPT), inner, result("call_x"), said=answer("In main"))
    agents.call(user("Where is it?"), told, result("call_a", "In main"), said=answer("There"))
    below, above = agents.see_kind("AGENT")
    assert below.span.span_id == derive_span_id(child, "run")
    assert below.span.parent_span_id == below.columns.parent_span_id == tool_id
    assert len({one.span.trace_id for one in agents.see()}) == 1
    assert {one.span.attributes["session.id"] for one in agents.see()} == {f"conv-{first}"}
    assert {one.columns.run for one in agents.see()} == {1, below.columns.run}
    assert above.span.parent_span_id is None
    [tool] = [one for one in agents.see_kind("TOOL") if one.span.span_id == tool_id]
    assert tool.span.parent_span_id == above.span.span_id


def test_a_task_may_be_a_message_in_a_list(agents: Agents) -> None:
    """Arguments are searched at any depth, as Haystack's tools have the task in messages."""
    told = calls("call_a", name="task")
    told["tool_calls"][0]["function"]["arguments"] = json.dumps(
        {"messages": [{"role": "user", "content": [{"text": PROMPT}]}], "limit": None}
    )
    first = agents.call(user("Where is it?"), said=told)
    child = agents.call(user(PROMPT), said=answer("In main"))
    spans = {one.span.span_id: one.span for one in agents.see()}
    assert spans[child].parent_span_id == derive_span_id(first, "tool 0")


def frame(task: str) -> str:
    """A task in CrewAI's words."""
    return (
        f"\nCurrent Task: {task}\n\nThis is the expected criteria for your final answer: A list.\n"
        "you MUST return the actual complete content as the final answer, not a summary."
    )


def test_a_task_may_be_in_the_frame_of_crewai(agents: Agents) -> None:
    """What is inside the frame was in the arguments of a tool call; no other text is looked for."""
    first = agents.call(user(frame("Where is it?")), said=delegate("call_a", "call_b"))
    other = agents.call(user(f"Please: {frame(PROMPT)}"), said=answer("In main"))
    child = agents.call(user(frame(PROMPT)), said=answer("In main"))
    spans = {one.span.span_id: one.span for one in agents.see()}
    assert spans[child].parent_span_id == derive_span_id(first, "tool 0")
    assert spans[other].parent_span_id is None


def test_the_framed_question_of_an_agent_begins_no_sub_agent(agents: Agents) -> None:
    """A tool that gets the agent's own task verbatim does not take the next crew's call."""
    agents.call(user(frame(PROMPT)), said=delegate("call_a"))
    other = agents.call(user(frame(PROMPT)), said=answer("In main"))
    [span] = [one.span for one in agents.see() if one.span.span_id == other]
    assert span.parent_span_id is None


def test_who_asks_the_same_at_the_same_time_is_no_sub_agent(agents: Agents) -> None:
    """It began before the answer that calls the tool; a later one is one."""
    first = agents.call(user("Where is it?"), said=delegate("call_a"), at=1)
    beside = agents.call(user(PROMPT), said=answer("In main"), at=1.5)
    later = agents.call(user(PROMPT), said=answer("In main"), at=10)
    spans = {one.span.span_id: one.span for one in agents.see()}
    assert spans[beside].parent_span_id is None
    assert spans[later].parent_span_id == derive_span_id(first, "tool 0")


def test_a_sub_agent_of_one_call_is_that_call(agents: Agents) -> None:
    """C11: no AGENT span stands between; another conversation of the caller is not one."""
    first = agents.call(user("Where?"), said=delegate("call_a"))
    child = agents.call(user(PROMPT), said=answer("In main"))
    other = agents.call(user(PROMPT), said=answer("In main"))
    spans = {one.span.span_id: one for one in agents.see()}
    assert spans[child].span.parent_span_id == derive_span_id(first, "tool 0")
    assert spans[child].columns.run is None
    assert spans[child].columns.parent_span_id == derive_span_id(first, "tool 0")
    assert spans[other].span.parent_span_id is None
    agents.call(user(PROMPT), answer("In main"), user("More"), said=answer("No"))
    assert len(agents.service.conversations.runs) == 1  # the words were not the parent's


def test_a_command_that_comes_again_and_again_takes_no_room(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5: it may be a prompt, and nobody takes it away; the newest calls wait for a sub-agent."""
    monkeypatch.setattr(sub_agents, "MAX_CALLS_OF_PROMPT", 3)
    firsts = [agents.call(user(f"Nr. {n}"), said=delegate("call_a")) for n in range(5)]
    [waiting] = agents.service.conversations.runs._prompts._prompts.values()
    assert len(waiting) == 3
    child = agents.call(user(PROMPT), said=answer("In main"))
    [one] = [one for one in agents.see() if one.span.span_id == child]
    assert one.span.parent_span_id == derive_span_id(firsts[2], "tool 0")


def test_commands_of_all_kinds_take_no_room(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5: calls wait with many texts, and those that were said last go on waiting."""
    monkeypatch.setattr(sub_agents, "MAX_WAITING_CALLS", 4)
    prompts = [f"Nr. {number}: {PROMPT}" for number in range(3)]
    for prompt in prompts:
        agents.call(user(f"Do {prompt}"), said=delegate("call_a", "call_b", prompt=prompt))
    waiting = agents.service.conversations.runs._prompts
    assert (len(waiting), waiting._calls) == (2, 4)
    children = [agents.call(user(prompt), said=answer("Yes")) for prompt in prompts]
    parents = {one.span.span_id: one.span.parent_span_id for one in agents.see()}
    assert [parents[child] is None for child in children] == [True, False, False]
    assert waiting._calls == 2


@pytest.mark.parametrize("rules", [{}, {"hide_inputs": True}], ids=["shown", "hidden"])
def test_who_asks_what_the_agent_was_asked_is_no_sub_agent(
    tmp_path: Path, rules: dict[str, Any]
) -> None:
    """A tool that searches has the question as it was said; hidden, it is no other."""
    with Agents(tmp_path / "spans.db", SpanRules(privacy=PrivacySwitches(**rules))) as agents:
        agents.call(user(PROMPT), said=delegate("call_a"))
        other = agents.call(user(PROMPT), said=answer("In main"))
        spans = {one.span.span_id: one.span for one in agents.see()}
    assert spans[other].parent_span_id is None


def test_a_tool_with_a_sub_agent_has_a_span_after_a_kill(agents: Agents) -> None:
    """Nothing came behind the sub-agent's call: it hangs on no span that there never was."""
    first = agents.call(user("Where?"), said=delegate("call_a"))
    agents.call(user(PROMPT), said=answer("In main"))
    agents.start()
    agents.now_ns += (RUN_IDLE_SECONDS + 1) * SECOND_NS
    agents.service.commit()
    [tool] = agents.see_kind("TOOL")
    assert tool.span.span_id == derive_span_id(first, "tool 0")


def test_no_sub_agent_begins_with_a_users_question_after_a_restart_either(agents: Agents) -> None:
    """A search of what the user asked, by the agent or by one below it."""
    question = "Where in all of these files is the port opened, and by whom?"
    first = calls("call_a")
    agents.call(user(question), said=first)
    agents.start()
    second = delegate("call_b")
    history = [user(question), first, result("call_a")]
    search = delegate("call_s", prompt=question)
    agents.call(*history, said=search)
    agents.call(*history, search, result("call_s"), said=second)
    agents.call(user(PROMPT), said=delegate("call_t", prompt=question))
    other = agents.call(user(question), said=answer("In main"))
    spans = {one.span.span_id: one.span for one in agents.see()}
    assert spans[other].parent_span_id is None
    assert agents.service.conversations.runs._prompts._questions.keys() <= {1, 2, 4}


def test_a_restart_forgets_no_sub_agents_work(agents: Agents) -> None:
    """Result and answer of an agent are in its run: its sub-agent worked until the restart."""
    told = delegate("call_9aX2pQr7Lm4Tz8Wb")
    agents.call(user("Where?"), said=told)
    history = [user(PROMPT)]
    for said in (calls("call_x"), calls("call_y"), answer("In main")):
        agents.now_ns += RUN_IDLE_SECONDS * SECOND_NS * 2 // 3
        agents.service.commit()
        agents.call(*history, said=said)
        history += [said, result(said["tool_calls"][0]["id"])] if "tool_calls" in said else []
    agents.start()
    done = result("call_9aX2pQr7Lm4Tz8Wb", "In main")
    agents.call(user("Where?"), told, done, said=answer("There"))
    ended = [one.metadata["ended_by"] for one in agents.see_kind("AGENT")]
    assert ended[-1] == "answer"
    assert [one.span.attributes["output.value"] for one in agents.see_kind("TOOL")][-1] == "In main"


def test_a_sub_agent_has_its_tool_though_no_result_came(agents: Agents) -> None:
    """Somebody interrupted it: the tree is whole, and the tool has neither result nor status."""
    first = agents.call(user("Where?"), said=delegate("call_a", "call_b"))
    agents.call(user(PROMPT), said=answer("In main"))
    agents.now_ns += 2 * RUN_IDLE_SECONDS * SECOND_NS
    agents.service.commit()
    [tool], [agent] = agents.see_kind("TOOL"), agents.see_kind("AGENT")
    assert tool.span.span_id == derive_span_id(first, "tool 0")
    assert tool.span.parent_span_id == agent.span.span_id
    assert (tool.span.status, tool.span.attributes.get("output.value")) == ("UNSET", None)
    assert agent.metadata["tool_calls_unanswered"] == 2


def test_sub_agents_with_one_prompt_get_one_each(agents: Agents) -> None:
    """In the order of the calls; no more than there are."""
    first = agents.call(user("Where?"), said=delegate("call_a", "call_b"))
    children = [agents.call(user(PROMPT), said=answer(f"Nr. {n}")) for n in range(3)]
    spans = {one.span.span_id: one.span for one in agents.see()}
    assert [spans[child].parent_span_id for child in children] == [
        derive_span_id(first, "tool 0"),
        derive_span_id(first, "tool 1"),
        None,
    ]


def test_a_sub_agent_is_of_the_same_caller(agents: Agents) -> None:
    """Whoever says the same with another key is somebody else."""
    agents.call(
        user("Where?"),
        said=delegate("call_a"),
        key="sk-ann-000000000001",
    )
    other = agents.call(user(PROMPT), said=answer("?"), key="sk-bob-000000000002")
    [one] = [one for one in agents.see() if one.span.span_id == other]
    assert one.span.parent_span_id is None


@pytest.mark.parametrize(("at", "is_below"), [(2.02, True), (2.98, True), (3.1, False)])
def test_a_sub_agent_may_begin_with_the_result_of_its_tool(
    agents: Agents, at: float, *, is_below: bool
) -> None:
    """A tool that starts it in the background answers at once; the agent may be done before it."""
    told = delegate("call_a")
    first = agents.call(user("Where?"), said=told, at=0)
    agents.call(user("Where?"), told, result("call_a", "launched"), said=answer("Wait"), at=2)
    assert len(agents.see_kind("AGENT")) == 1
    inner = calls("call_x")
    child = agents.call(user(PROMPT), said=inner, at=at)
    agents.call(user(PROMPT), inner, result("call_x"), said=answer("In main"), at=6)
    spans = {one.span.span_id: one for one in agents.see()}
    below, above = spans[derive_span_id(child, "run")], spans[derive_span_id(first, "run")]
    tool_id = derive_span_id(first, "tool 0")
    assert below.span.parent_span_id == (tool_id if is_below else None)
    assert (below.span.trace_id == above.span.trace_id) == is_below
    assert not agents.service.conversations.runs._open


def test_a_tool_with_a_result_has_one_sub_agent(agents: Agents) -> None:
    """Who says the same a moment later is somebody else."""
    told = delegate("call_a")
    first = agents.call(user("Where?"), said=told, at=0)
    agents.call(user("Where?"), told, result("call_a", "launched"), said=calls("call_b"), at=2)
    asked = [agents.call(user(PROMPT), said=answer("Yes"), at=2.1 + n / 10) for n in range(2)]
    parents = {one.span.span_id: one.span.parent_span_id for one in agents.see()}
    assert [parents[one] for one in asked] == [derive_span_id(first, "tool 0"), None]
