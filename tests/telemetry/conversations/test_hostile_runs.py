"""Runs of hostile calls: what is hidden stays so, and what cannot be written costs nothing else."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from telemetry.conversations.run import (
    MAX_TOOL_NAME_CHARS,
    RUN_IDLE_SECONDS,
    derive_span_id,
)
from telemetry.conversations.runs import MAX_UNHELD
from telemetry.conversations.sub_agents import MAX_CALLS_OF_PROMPT
from telemetry.recording.span_row import make_row
from telemetry.spans.run_spans import build_agent_span
from tests.telemetry.conversations.agents import SECOND_NS, Agents
from tests.telemetry.conversations.talks import answer, calls, result, user

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from telemetry.conversations.run import Run
    from telemetry.store.rows import SpanRow

PROMPT = "Find every place where the port is opened, and say which."
STRONG = "call_Xk29vQm4Tz81bLwP"
OFF = (("x-spantap-content", "off"),)
KEY = "sk-Secret0a1b2c3d4e5f6g7h8i9j"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spans.db"


@pytest.fixture
def agents(path: Path) -> Iterator[Agents]:
    with Agents(path) as opened:
        yield opened


def read_tables(path: Path) -> str:
    """All that the store's tables hold, in the words of Python."""
    tables = ("spans", "span_bytes", "parts", "links", "open_runs")
    with sqlite3.connect(path) as connection:
        return str([connection.execute(f"SELECT * FROM {one}").fetchall() for one in tables])


@pytest.mark.parametrize("odd", ["\ud800", "\0", "\udfff\ud83d", "é\ud83d"])
def test_what_is_no_text_costs_a_run_nothing(agents: Agents, odd: str) -> None:
    """In ids, names, arguments, questions, answers and results: the run goes on after a restart."""
    called = calls(STRONG + odd, "call_b", name=f"read{odd}")
    called["tool_calls"][0]["function"]["arguments"] = json.dumps({"path": odd})
    asked = user(f"Look{odd}")
    agents.call(asked, said=called)
    agents.start()
    told = (result(STRONG + odd, f"one{odd}"), result("call_b", odd))
    agents.call(asked, called, *told, said=answer(f"Both{odd}"))
    kinds = [str(one.columns.kind) for one in agents.see()]
    assert sorted(kinds) == ["AGENT", "LLM", "LLM", "TOOL", "TOOL"]


def test_a_long_name_of_a_tool_is_cut(agents: Agents) -> None:
    """On its span, in its column and in the run; its result is found all the same."""
    called = calls(STRONG, name="é" * 5_000)
    agents.call(user("Look"), said=called)
    [run] = agents.service.conversations.runs._open.values()
    assert [len(one.name or "") for one in run.tools] == [MAX_TOOL_NAME_CHARS]
    agents.start()
    agents.call(user("Look"), called, result(STRONG), said=answer("Yes"))
    [tool] = agents.see_kind("TOOL")
    shown = "é" * MAX_TOOL_NAME_CHARS
    assert (tool.span.name, tool.span.attributes["tool.name"]) == (shown, shown)
    assert tool.columns.tools == shown


def test_what_open_runs_hold_is_counted_with_their_usage(agents: Agents) -> None:
    """Ids, names, arguments, and what is kept to compare prompts; once a run is over, nothing."""
    runs = agents.service.conversations.runs
    history: tuple[dict[str, Any], ...] = (user("Look"),)
    held = []
    for number in range(30):
        called = calls(*[f"{STRONG}{number}-{n}" for n in range(20)])
        for n, one in enumerate(called["tool_calls"]):
            one["function"]["arguments"] = f'{{"n":"{number}-{n}"}}'
        agents.call(*history, said=called)
        history = (*history, called, *[result(one["id"]) for one in called["tool_calls"]])
        held.append(runs._held_bytes)
    [usage] = runs._usages.values()
    assert held[-1] - held[0] > 500 * 150, "of each call a digest is kept"
    assert held[-1] > usage.held_bytes > len(usage.save())
    agents.call(*history, said=answer("Done"))
    assert runs._held_bytes == 0


def test_the_ids_of_hidden_calls_are_hidden(agents: Agents, path: Path) -> None:
    """In the TOOL spans, too, as in those of the calls."""
    called = calls("call_classified")
    agents.call(user("Look"), said=called, headers=OFF)
    assert "classified" not in read_tables(path)
    agents.call(user("Look"), called, result("call_classified"), said=answer("Yes"))
    [tool] = agents.see_kind("TOOL")
    assert "tool_call.id" not in tool.span.attributes
    assert tool.span.attributes["output.value"] == "done"  # as the call shows it that has it


def test_credentials_are_in_nothing_of_a_run(agents: Agents, path: Path) -> None:
    """Wherever a model says them, and also where it calls a tool by them again and again."""
    called = calls(KEY, f"{KEY}2", "c", name=KEY)
    for one in called["tool_calls"]:
        one["function"]["arguments"] = json.dumps({"key": KEY})
    asked = user(f"Use {KEY}")
    agents.call(asked, said=called, key=KEY)
    assert KEY not in read_tables(path)
    told = [result(one, f"of {KEY}") for one in (KEY, f"{KEY}2", "c")]
    agents.call(asked, called, *told, said=answer(f"It is {KEY}"), key=KEY)
    assert len(agents.see_kind("TOOL")) == 3
    [agent] = agents.see_kind("AGENT")
    assert agent.metadata["usage"]["repeated_tool_calls"] == [{"times": 3}]
    assert KEY not in read_tables(path)
    assert not any(KEY in str(one) for one in agents.see())


def test_a_last_answer_that_is_hidden_is_no_earlier_one(agents: Agents) -> None:
    """The AGENT span has no answer then: what was said on the way was not it."""
    called = calls("call_a")
    agents.call(user("Look"), said={**called, "content": "I look into it"})
    told = ({**called, "content": "I look into it"}, result("call_a"))
    agents.call(user("Look"), *told, said=answer("secret"), headers=OFF)
    [agent] = agents.see_kind("AGENT")
    assert agent.metadata["ended_by"] == "answer"
    assert agent.span.attributes["input.value"] == "Look"
    assert "output.value" not in agent.span.attributes


def test_a_clock_that_was_ahead_keeps_no_run_open(agents: Agents) -> None:
    """Neither the run that seems to end in years, nor those behind it."""
    agents.step_ns = 10 * 365 * 86_400 * SECOND_NS
    agents.call(user("In ten years"), said=calls("call_a"))
    agents.step_ns = 0
    agents.call(user("Now"), said=calls("call_b"))
    agents.step_ns = -60 * SECOND_NS  # set back a little
    agents.call(user("Before"), said=calls("call_c"))
    assert len(agents.service.conversations.runs) == 3
    agents.now_ns += (RUN_IDLE_SECONDS + 1) * SECOND_NS
    agents.service.commit()
    assert [one.metadata["ended_by"] for one in agents.see_kind("AGENT")] == ["idle"] * 3


def test_a_run_whose_span_fails_keeps_none_from_ending(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R2: it is given up, and the others have theirs."""

    def fail(run: Run, *args: Any, **more: Any) -> Any:
        if run.asked == "Look":
            raise ZeroDivisionError
        return build_agent_span(run, *args, **more)

    monkeypatch.setattr("telemetry.recording.run_rows.build_agent_span", fail)
    agents.call(user("Look"), said=calls("call_a"))
    agents.call(user("See"), said=calls("call_b"))
    agents.now_ns += (RUN_IDLE_SECONDS + 5) * SECOND_NS
    agents.service.commit()
    assert [one.columns.preview for one in agents.see_kind("AGENT")] == ["See"]
    assert not len(agents.service.conversations.runs)


def delegate(*ids: str) -> dict[str, Any]:
    """Calls of a tool that hands on a prompt."""
    told = calls(*ids)
    for one in told["tool_calls"]:
        one["function"]["arguments"] = json.dumps({"prompt": PROMPT})
    return told


def test_a_sub_agent_whose_first_call_failed_is_below_its_tool(agents: Agents) -> None:
    """It has a run with all attempts, though only one of them has an answer; the next is not it."""
    first = agents.call(user("Where?"), said=delegate("call_a"))
    tried = [agents.call(user(PROMPT), said=None) for _ in range(3)]
    tried.append(agents.call(user(PROMPT), said=answer("In main")))
    other = agents.call(user(PROMPT), said=answer("In main"))
    [agent] = agents.see_kind("AGENT")
    assert agent.span.parent_span_id == derive_span_id(first, "tool 0")
    assert agent.metadata["calls"] == 4
    seen = {one.span.span_id: one for one in agents.see()}
    assert {seen[one].span.parent_span_id for one in tried} == {agent.span.span_id}
    assert [seen[one].columns.link_rule for one in tried] == [None, "retry", "retry", "retry"]
    assert len({seen[one].span.trace_id for one in (first, *tried)}) == 1
    assert seen[other].span.parent_span_id is None
    assert not agents.service.conversations.runs._tried


def test_sub_agents_with_one_prompt_that_fail_at_once_try_again_each(agents: Agents) -> None:
    """Which attempt repeats which is not known; each tool has one failure and one answer."""
    first = agents.call(user("Where?"), said=delegate("call_a", "call_b"), at=0)
    failed = [agents.call(user(PROMPT), said=None, at=2 + n / 10) for n in range(2)]
    again = [agents.call(user(PROMPT), said=answer("In main"), at=5 + n / 10) for n in range(2)]
    other = agents.call(user(PROMPT), said=answer("In main"), at=9)
    parents = {one.span.span_id: one.span.parent_span_id for one in agents.see()}
    assert [parents[parents[one] or ""] for one in (*failed, *again)] == 2 * [
        derive_span_id(first, "tool 0"),
        derive_span_id(first, "tool 1"),
    ]
    assert parents[other] is None


def test_a_sub_agent_that_never_got_an_answer_has_a_run(agents: Agents) -> None:
    """It ends when it rested, below its tool; a tool that failed once takes no other call."""
    first = agents.call(user("Where?"), said=delegate("call_a"))
    agents.call(user(PROMPT), said=None)
    agents.now_ns += 2 * RUN_IDLE_SECONDS * SECOND_NS
    agents.service.commit()
    agent, _ = sorted(agents.see_kind("AGENT"), key=lambda one: one.span.parent_span_id is None)
    assert agent.span.parent_span_id == derive_span_id(first, "tool 0")
    assert agent.metadata["ended_by"] == "idle"
    assert not agents.service.conversations.runs._tried


def test_prompts_that_come_again_and_again_are_few(agents: Agents) -> None:
    """R5: nobody begins with them, and the latest are kept."""
    for number in range(MAX_CALLS_OF_PROMPT // 100 + 2):
        agents.call(user(f"Look {number}"), said=delegate(*[f"c{n}" for n in range(100)]))
    [waiting] = agents.service.conversations.runs._prompts._prompts.values()
    assert len(waiting) == MAX_CALLS_OF_PROMPT
    child = agents.call(user(PROMPT), said=answer("In main"))
    [seen] = [one for one in agents.see() if one.span.span_id == child]
    assert seen.span.parent_span_id is not None


def test_runs_that_are_not_recorded_leave_nothing_behind(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5: where no span is made, none is held of its usage."""
    monkeypatch.setattr(agents.service._call_rows._recorder, "record", lambda _: None)
    for number in range(3 * MAX_UNHELD):
        agents.call(user(f"Look {number}"), said=calls("call_a"))
    assert len(agents.service.conversations.runs._usages) <= MAX_UNHELD + 1


@pytest.mark.parametrize("is_last", [False, True])
def test_what_waits_of_a_run_goes_when_a_span_of_it_is_deleted(
    agents: Agents, path: Path, monkeypatch: pytest.MonkeyPatch, *, is_last: bool
) -> None:
    """What is left is the call that came after the deletion, alone."""
    asked, called = user("Look for my password"), calls("call_a", name="hunter2")
    agents.call(asked, said=called)
    monkeypatch.setattr(agents.service, "commit", lambda: None)
    said = answer("Yes") if is_last else calls("call_b")
    agents.call(user("Something else"), said=answer("Else"))
    agents.call(asked, called, result("call_a"), said=said, headers=OFF)
    monkeypatch.undo()
    agents.delete_all()
    assert [one.columns.kind for one in agents.see()] == ["LLM", "LLM"]
    tables = read_tables(path)
    assert "password" not in tables
    assert "hunter2" not in tables
    agents.now_ns += (RUN_IDLE_SECONDS + 5) * SECOND_NS
    agents.start()
    agents.service.commit()
    assert not agents.see_kind("AGENT")


def test_a_row_that_the_store_refuses_costs_no_other(
    agents: Agents, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R2: the rest is there, and the run that was over is not open."""
    add = agents.service._store.add

    def refuse(rows: Sequence[SpanRow], runs: Any) -> int:
        if any(row.columns.kind == "TOOL" for row in rows):
            raise ZeroDivisionError
        return add(rows, runs)

    monkeypatch.setattr(agents.service._store, "add", refuse)
    agents.call(user("Look"), said=calls("call_a"))
    agents.call(user("Look"), calls("call_a"), result("call_a"), said=answer("Yes"))
    agents.call(user("Another"), said=answer("Yes"))
    kinds = [str(one.columns.kind) for one in agents.see()]
    assert sorted(kinds) == ["AGENT", "LLM", "LLM", "LLM"]
    assert agents.service.counts.lost == 1
    assert agents.service.waiting == 0
    with sqlite3.connect(path) as connection:
        assert not connection.execute("SELECT * FROM open_runs").fetchall()


def test_a_row_that_sqlite_refuses_keeps_none_waiting(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R2: it would wait for ever, and all behind it."""

    def make_odd_row(*args: Any) -> SpanRow:
        return msgspec.structs.replace(make_row(*args), name={})

    monkeypatch.setattr("telemetry.recording.call_rows.make_row", make_odd_row)
    agents.call(user("Look"), said=calls("call_a"))
    monkeypatch.undo()
    agents.call(user("Another"), said=answer("Yes"))
    assert agents.service.waiting == 0
    assert agents.service.counts.lost == 1
    assert [one.columns.preview for one in agents.see()] == ["Another"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_run_does_not_rest_while_a_sub_agent_is_at_work(
    agents: Agents, *, restarts: bool
) -> None:
    """It waits for the result, however long that takes."""
    told = delegate(STRONG)
    agents.call(user("Where?"), said=told)
    inner: tuple[dict[str, Any], ...] = (user(PROMPT),)
    for number in range(4):
        called = calls(f"{STRONG}{number}")
        agents.call(*inner, said=called, at=number * 0.7 * RUN_IDLE_SECONDS + 2)
        inner = (*inner, called, result(f"{STRONG}{number}"))
        if restarts:
            agents.start()
    agents.call(*inner, said=answer("In main"))
    agents.call(user("Where?"), told, result(STRONG, "In main"), said=answer("There"))
    below, above = agents.see_kind("AGENT")
    assert [one.metadata["ended_by"] for one in (below, above)] == ["answer", "answer"]
    assert below.span.trace_id == above.span.trace_id
    assert above.span.parent_span_id is None
    assert above.metadata["tools"] == 1


def test_a_sub_agent_in_the_session_of_its_agent_is_below_its_tool(agents: Agents) -> None:
    """Coding agents name one session for all of them."""
    headers = (("x-session-id", "session-1"),)
    told, inner = delegate(STRONG), calls(f"{STRONG}7")
    first = agents.call(user("Where?"), said=told, headers=headers)
    agents.call(user(PROMPT), said=inner, headers=headers)
    lone = agents.call(
        user("A title for it, please, of five words"), said=answer("Ports"), headers=headers
    )
    done = result(f"{STRONG}7")
    agents.call(user(PROMPT), inner, done, said=answer("In main"), headers=headers)
    agents.call(user("Where?"), told, result(STRONG), said=answer("There"), headers=headers)
    below, above = agents.see_kind("AGENT")
    assert below.span.parent_span_id == derive_span_id(first, "tool 0")
    assert below.span.trace_id == above.span.trace_id
    [title] = [one for one in agents.see() if one.span.span_id == lone]
    assert title.span.parent_span_id is None
