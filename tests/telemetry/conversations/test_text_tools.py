"""Runs of smolagents, which tells of its tools in texts: as whole as any other's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from telemetry.privacy.switches import PrivacySwitches
from telemetry.spans.rules import SpanRules
from tests.smolagents import (
    GO_ON,
    call,
    calling,
    error,
    failed,
    managed,
    message,
    observation,
    task,
)
from tests.telemetry.conversations.agents import Agents, by_kind
from tests.telemetry.conversations.talks import answer

if TYPE_CHECKING:
    from pathlib import Path

ASKED = task("Where is it?")
USER = message("user", ASKED)
TOOLS: dict[str, Any] = {
    "stop": ["Observation:", "Calling tools:"],
    "tool_choice": "required",
    "tools": [
        {"type": "function", "function": {"name": name, "parameters": {}}}
        for name in ("read", "list", "pilot", "final_answer")
    ],
}
CODE: dict[str, Any] = {"stop": ["Observation:", "Calling tools:", "</code>"]}
FINAL = call("call_f", "final_answer", {"answer": "In main"})
ONE = call("call_1", "read", {"path": "a"})
TWO = call("call_2", "read", {"path": "b"})
LIST = call("call_3", "list", {"path": "/"})
FIRST = (message("assistant", calling(ONE)), message("user", observation("x")))


def said(*made: dict[str, Any], text: str | None = None) -> dict[str, Any]:
    """An answer that makes calls, as they are on the wire."""
    sent = [
        one
        | {"function": one["function"] | {"arguments": json.dumps(one["function"]["arguments"])}}
        for one in made
    ]
    return {"role": "assistant", "content": text, "tool_calls": sent}


def tell(agents: Agents) -> list[tuple[str | None, str | None, str]]:
    """What each tool got and told, and whether it failed."""
    return [
        (
            one.span.attributes.get("input.value"),
            one.span.attributes.get("output.value"),
            one.span.status,
        )
        for one in agents.see_kind("TOOL")
    ]


def test_a_run_ends_with_the_final_answer(agents: Agents) -> None:
    """One run, its tools with arguments and results, and the answer by itself."""
    agents.call(USER, said=said(ONE), **TOOLS)
    agents.call(USER, *FIRST, said=said(TWO, text="And b."), **TOOLS)
    more = (
        message("assistant", "And b.", calling(TWO)),
        message("user", observation("y")),
    )
    agents.call(USER, *FIRST, *more, said=said(FINAL), **TOOLS)
    assert tell(agents) == [('{"path": "a"}', "x", "OK"), ('{"path": "b"}', "y", "OK")]
    [run] = agents.see_kind("AGENT")
    assert run.span.attributes["input.value"] == "Where is it?"
    assert run.span.attributes["output.value"] == "In main"
    assert (run.metadata["calls"], run.metadata["tools"]) == (3, 2)
    assert run.metadata["ended_by"] == "answer"
    assert {one.columns.run for one in agents.see()} == {1}
    assert {one.columns.turn for one in agents.see()} == {1}


def test_the_next_task_begins_the_next_run(agents: Agents) -> None:
    """In the same conversation; the result of the final answer is no tool's."""
    final = message("assistant", calling(FINAL))
    then = message("user", observation("In main"), task("And then?"))
    agents.call(USER, said=said(ONE), **TOOLS)
    agents.call(USER, *FIRST, said=said(FINAL), **TOOLS)
    agents.call(USER, *FIRST, final, then, said=said(TWO), **TOOLS)
    more = (message("assistant", calling(TWO)), message("user", observation("y")))
    agents.call(USER, *FIRST, final, then, *more, said=said(FINAL), **TOOLS)
    first, second = agents.see_kind("AGENT")
    assert second.span.attributes["input.value"] == "And then?"
    assert (first.metadata["tools"], second.metadata["tools"]) == (1, 1)
    assert first.columns.conversation == second.columns.conversation
    assert [one.columns.turn for one in agents.see_kind("LLM")] == [1, 1, 2, 2]


def test_tools_called_together_have_one_result(agents: Agents) -> None:
    """Its ids are sorted, whatever the order of the answer."""
    agents.call(USER, said=said(TWO, ONE), **TOOLS)
    told = (message("assistant", calling(ONE, TWO)), message("user", observation("x\ny")))
    agents.call(USER, *told, said=said(FINAL), **TOOLS)
    assert tell(agents) == [('{"path": "b"}', "x\ny", "OK"), ('{"path": "a"}', "x\ny", "OK")]
    assert by_kind(agents.see()) == {"LLM": 2, "TOOL": 2, "AGENT": 1}


def test_a_tool_that_fails_is_in_the_run(agents: Agents) -> None:
    """Its call is not repeated, and the errors of steps in a row are one message."""
    agents.call(USER, said=said(ONE), **TOOLS)
    lost = [failed("read", {"path": "a"}), failed("list", {"path": "/"})]
    agents.call(message("user", ASKED, lost[0]), said=said(LIST), **TOOLS)
    agents.call(message("user", ASKED, *lost), said=said(TWO, text="Then b."), **TOOLS)
    then = (message("assistant", "Then b."), message("user", failed("read", {"path": "b"})))
    agents.call(message("user", ASKED, *lost), *then, said=said(FINAL), **TOOLS)
    assert [(arguments, status) for arguments, _, status in tell(agents)] == [
        ('{"path": "a"}', "ERROR"),
        ('{"path": "/"}', "ERROR"),
        ('{"path": "b"}', "ERROR"),
    ]
    assert str(tell(agents)[1][1]).startswith("Error executing tool 'list' with arguments ")
    assert by_kind(agents.see()) == {"LLM": 4, "TOOL": 3, "AGENT": 1}
    assert {one.columns.run for one in agents.see()} == {1}
    assert {one.columns.turn for one in agents.see()} == {1}


@pytest.mark.parametrize(
    ("made", "failure", "expected"),
    [
        ([LIST, ONE], failed("read", {"path": "a"}), ['{"path": "a"}']),
        ([ONE, TWO], failed("read", {"path": "b"}), ['{"path": "b"}']),
        ([ONE, TWO], failed("read", {"path": "other"}), []),
        ([ONE, LIST], error("Argument path is required"), []),
        ([ONE], error("Argument path is required"), ['{"path": "a"}']),
    ],
)
def test_an_error_belongs_to_the_tool_that_it_names(
    made: list[dict[str, Any]], failure: str, expected: list[str], agents: Agents
) -> None:
    """Of tools called together nothing is told about the others; nothing is guessed."""
    agents.call(USER, said=said(*made), **TOOLS)
    agents.call(message("user", ASKED, failure), said=said(FINAL), **TOOLS)
    assert [arguments for arguments, _, _ in tell(agents)] == expected
    [run] = agents.see_kind("AGENT")
    assert run.metadata.get("tool_calls_unanswered", 0) == len(made) - len(expected)


def test_the_same_task_at_the_same_time_is_confused_with_nothing(agents: Agents) -> None:
    """Two runs whose histories look the same up to an error: neither is chosen by chance."""
    for _ in range(2):
        agents.call(USER, said=said(ONE), **TOOLS)
    agents.call(message("user", ASKED, failed("read", {"path": "a"})), said=said(FINAL), **TOOLS)
    assert agents.see_kind("TOOL") == []
    assert len({one.columns.conversation for one in agents.see_kind("LLM")}) == 3


def test_the_same_request_again_is_another_conversation(agents: Agents) -> None:
    """No state of an answer is that of its request."""
    for _ in range(2):
        agents.call(USER, said=said(ONE), **TOOLS)
        agents.call(USER, *FIRST, said=said(TWO), **TOOLS)
    llm = agents.see_kind("LLM")
    assert [one.columns.conversation for one in llm] == [1, 1, 3, 3]


def test_an_answer_that_calls_nothing_is_refused_by_the_agent(agents: Agents) -> None:
    """The run goes on. Only where its steps are used up, a text is the answer."""
    agents.call(USER, said=said(ONE), **TOOLS)
    agents.call(USER, *FIRST, said=answer("I think so."), **TOOLS)
    no = error("Error while parsing tool call from model output: no JSON")
    again = (message("assistant", "I think so."), message("user", no))
    agents.call(USER, *FIRST, *again, said=said(TWO), **TOOLS)
    asks = "Based on the above, please provide an answer to the following user task:\nWhere?"
    last = (message("assistant", calling(TWO)), message("user", observation("y"), asks))
    agents.call(USER, *FIRST, *again, *last, said=answer("In main"))
    [run] = agents.see_kind("AGENT")
    assert (run.metadata["calls"], run.metadata["tools"]) == (4, 2)
    assert run.metadata["ended_by"] == "answer"
    assert run.span.attributes["output.value"] == "In main"


def test_a_plan_does_not_cut_a_run(agents: Agents) -> None:
    """Nobody but the agent asks for it, and says to go on."""
    agents.call(USER, said=said(ONE), **TOOLS)
    asks = "Now write your updated facts below, taking into account the above history:\n## 1."
    planned = message("user", observation("x"), asks)
    agents.call(USER, FIRST[0], planned, said=answer("1. Look"), stop=["<end_plan>"])
    plan = (message("assistant", "The plan:\n1. Look"), message("user", GO_ON))
    agents.call(USER, *FIRST, *plan, said=said(FINAL), **TOOLS)
    assert {one.columns.turn for one in agents.see_kind("LLM")} == {1}
    assert {one.columns.run for one in agents.see_kind("LLM")} == {1}


def test_an_agent_that_is_managed_is_below_its_tool(agents: Agents) -> None:
    """Also if it gets the user's own question: the words around it name the tool."""
    ask = call("call_p", "pilot", {"task": "Where is it?"})
    agents.call(USER, said=said(ask), **TOOLS)
    below = message("user", managed("pilot", "Where is it?"))
    agents.call(below, said=said(ONE), **TOOLS)
    agents.call(below, *FIRST, said=said(FINAL), **TOOLS)
    told = (message("assistant", calling(ask)), message("user", observation("In main")))
    agents.call(USER, *told, said=said(FINAL), **TOOLS)
    inner, outer = agents.see_kind("AGENT")
    [tool] = [one for one in agents.see_kind("TOOL") if one.columns.tools == "pilot"]
    assert inner.span.parent_span_id == tool.span.span_id
    assert tool.span.parent_span_id == outer.span.span_id
    assert inner.span.attributes["input.value"] == "Where is it?"


def test_an_agent_of_another_name_is_not_below(agents: Agents) -> None:
    """Another one with the same task belongs to nobody here."""
    agents.call(USER, said=said(call("call_p", "pilot", {"task": "Where is it?"})), **TOOLS)
    other = agents.call(message("user", managed("cook", "Where is it?")), said=said(FINAL), **TOOLS)
    spans = {one.span.span_id: one.span for one in agents.see()}
    assert spans[other].parent_span_id is None


def test_code_is_a_tool(agents: Agents) -> None:
    """A CodeAgent's steps: code in the answer, what it printed in the next request."""
    made = [call("call_1", "python_interpreter", "x = pilot('How deep?')\nprint(x)")]
    told = "Thought: ask.\n<code>\nx = pilot('How deep?')\nprint(x)\n"
    agents.call(USER, said=answer(told), **CODE)
    agents.call(message("user", managed("pilot", "How deep?")), said=said(FINAL), **TOOLS)
    first = (
        message("assistant", f"{told}</code>", calling(*made)),
        message("user", observation("Execution logs:\n11 m\nLast output from code snippet:\nNone")),
    )
    agents.call(USER, *first, said=answer("<code>\nfail()"), **CODE)
    made = [call("call_2", "python_interpreter", "fail()")]
    lost = error("Code execution failed at line 'fail()' due to: no", "call_2")
    second = (message("assistant", "<code>\nfail()</code>", calling(*made)), message("user", lost))
    agents.call(USER, *first, *second, said=answer("No code"), **CODE)
    no = error("Error in code parsing:\nno")
    third = (message("assistant", "No code</code>"), message("user", no))
    agents.call(USER, *first, *second, *third, said=answer("<code>\nfinal_answer(1)"), **CODE)
    tools = agents.see_kind("TOOL")
    assert [(one.columns.tools, one.span.status) for one in tools] == [
        ("python_interpreter", "OK"),
        ("python_interpreter", "ERROR"),
    ]
    assert tools[0].span.attributes["input.value"] == "x = pilot('How deep?')\nprint(x)"
    llm = agents.see_kind("LLM")
    assert llm[1].span.parent_span_id == tools[0].span.span_id
    assert [one.columns.run for one in llm] == [1, None, 1, 1, 1]
    assert {one.columns.turn for one in llm} == {1}


def test_a_run_goes_on_after_a_restart(agents: Agents) -> None:
    """By its ids, or by the state that an error leaves."""
    words = " ".join(f"word{number}" for number in range(20))
    agents.call(USER, said=said(ONE, text=words), **TOOLS)
    agents.start()
    told = (message("assistant", words), message("user", failed("read", {"path": "a"})))
    agents.call(USER, *told, said=said(FINAL), **TOOLS)
    assert by_kind(agents.see()) == {"LLM": 2, "TOOL": 1, "AGENT": 1}


@pytest.mark.parametrize(
    ("switches", "absent"),
    [
        (PrivacySwitches(hide_input_text=True), ("CANARYR", "CANARYQ")),
        (PrivacySwitches(hide_inputs=True), ("CANARYR", "CANARYQ")),
        (PrivacySwitches(hide_input_messages=True), ("CANARYR", "CANARYQ")),
        (PrivacySwitches(hide_output_text=True), ("CANARYC",)),
        (PrivacySwitches(hide_outputs=True), ("CANARYC",)),
        (PrivacySwitches(hide_output_messages=True), ("CANARYC",)),
    ],
)
def test_what_is_hidden_is_in_no_row(
    switches: PrivacySwitches, absent: tuple[str, ...], tmp_path: Path
) -> None:
    """Neither the user's words, nor results, nor code."""
    user = message("user", task("CANARYQ?"))
    with Agents(tmp_path / "spans.db", SpanRules(privacy=switches)) as agents:
        agents.call(user, said=answer("<code>\nprint('CANARYC')"), **CODE)
        made = call("call_1", "python_interpreter", "print('CANARYC')")
        rest = (
            message("assistant", "<code>\nprint('CANARYC')\n</code>", calling(made)),
            message("user", observation("CANARYR")),
        )
        agents.call(user, *rest, said=answer("<code>\nfinal_answer('CANARYC')"), **CODE)
        rows = [repr((one.columns, [*one.span.attributes.items()])) for one in agents.see()]
        assert any("TOOL" in row for row in rows)
        derived = [row for row in rows if "TOOL" in row or "AGENT" in row]
        columns = [repr(one.columns) for one in agents.see()]
    assert not [row for row in (*derived, *columns) for word in absent if word in row]
