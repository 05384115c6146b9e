"""Runs: the tree of AGENT, LLM and TOOL spans that a service records of an agent's calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json_object
from telemetry.conversation_position import ConversationForm
from telemetry.conversations import runs as runs_module
from telemetry.conversations.run import RUN_IDLE_SECONDS, derive_span_id
from telemetry.frames.ending import EndKind
from telemetry.privacy.redaction import Redaction
from telemetry.privacy.switches import PrivacySwitches
from telemetry.spans.rules import SpanNaming, SpanRules
from tests.telemetry.conversations.agents import SECOND_NS, TWO, TWO_RESULTS, Agents, by_kind, look
from tests.telemetry.conversations.talks import answer, calls, result, user
from tests.telemetry.tap_frames import START_NS

if TYPE_CHECKING:
    from pathlib import Path


def test_a_run_is_one_trace(agents: Agents) -> None:
    """An AGENT span, its calls and its tools below it, all in the trace of the first call."""
    first, second = look(agents)
    seen = {one.span.span_id: one for one in agents.see()}
    agent_id = derive_span_id(first, "run")
    assert {one.span.trace_id for one in seen.values()} == {seen[first].span.trace_id}
    parents = {span_id: one.span.parent_span_id for span_id, one in seen.items()}
    assert parents.pop(agent_id) is None
    assert set(parents.values()) == {agent_id}
    assert len(parents) == 4
    assert {one.columns.run for one in seen.values()} == {seen[first].columns.conversation}
    assert [seen[one].columns.parent_span_id for one in (first, second)] == [agent_id] * 2
    sessions = {one.span.attributes["session.id"] for one in seen.values()}
    assert sessions == {f"conv-{first}"}


def test_the_agent_tells_what_was_asked_and_answered(agents: Agents) -> None:
    """From the first call's begin to the last one's end; neither tokens nor cost."""
    look(agents)
    [agent] = agents.see_kind("AGENT")
    span = agent.span
    assert (span.name, span.status) == ("agent", "OK")
    assert (span.attributes["input.value"], span.attributes["output.value"]) == (
        "Look",
        "Both are there",
    )
    assert span.attributes["openinference.span.kind"] == "AGENT"
    assert span.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert (span.start_ns, span.end_ns) == (START_NS + SECOND_NS, START_NS + 4 * SECOND_NS)
    assert agent.metadata == {
        "inferred": True,
        "run": 1,
        "calls": 2,
        "tools": 2,
        "ended_by": "answer",
        "usage": {
            "prompt_tokens": 6,
            "completion_tokens": 2,
            "estimated_tokens_by_part": {"history": 3, "new": 3},
            "context": {"first": 3, "last": 3, "greatest": 3},
        },
    }
    assert not [name for name in span.attributes if "token" in name or "cost" in name]
    assert (agent.columns.preview, agent.columns.tool_calls) == ("Look", 2)


def test_a_run_is_named_by_the_users_own_words(agents: Agents) -> None:
    """Not by what the agent puts around them; the call itself keeps that."""
    reminder = "<system-reminder>Today is Monday.</system-reminder>"
    parts = [{"type": "text", "text": text} for text in (reminder, "Look")]
    asked = {"role": "user", "content": parts}
    agents.call(asked, said=TWO)
    agents.call(asked, TWO, *TWO_RESULTS, said=answer("Both are there"))
    [agent] = agents.see_kind("AGENT")
    assert (agent.columns.preview, agent.span.attributes["input.value"]) == ("Look", "Look")
    first, *_ = agents.see_kind("LLM")
    assert first.columns.preview == "Look"
    assert reminder in first.span.attributes.values()


@pytest.mark.parametrize(
    ("switch", "step"),
    [(None, "read notes.txt"), ("hide_output_text", "read"), ("hide_outputs", None)],
)
def test_the_row_of_a_tool_says_what_it_was_called_with(
    switch: str | None, step: str | None, tmp_path: Path
) -> None:
    """By its telling argument, as far as the span of the answer shows it."""
    privacy = PrivacySwitches(**({switch: True} if switch else {}))
    called = calls("call_a")
    called["tool_calls"][0]["function"]["arguments"] = '{"path": "/w/notes.txt"}'
    with Agents(tmp_path / "t.db", SpanRules(privacy=privacy)) as agents:
        agents.call(user("Look"), said=called)
        agents.call(user("Look"), called, result("call_a", "one"), said=answer("There"))
        assert [one.columns.step for one in agents.see_kind("TOOL")] == [step]


def test_a_tool_has_its_arguments_and_result(agents: Agents) -> None:
    """Between the answer and the request that brings the result: an upper bound."""
    first, _ = look(agents)
    tools = agents.see_kind("TOOL")
    assert [one.span.span_id for one in tools] == [
        derive_span_id(first, f"tool {index}") for index in range(2)
    ]
    for at, (one, text) in enumerate(zip(tools, ("one", "two"), strict=True)):
        attributes = one.span.attributes
        assert one.span.name == attributes["tool.name"] == attributes["gen_ai.tool.name"] == "read"
        assert attributes["input.value"] == attributes["tool.parameters"] == f'{{"n":{at}}}'
        assert attributes["output.value"] == text
        assert attributes["tool_call.id"] == f"call_{'ab'[at]}"
        assert (one.span.start_ns, one.span.end_ns) == (
            START_NS + 2 * SECOND_NS,
            START_NS + 3 * SECOND_NS,
        )
        assert one.span.status == "OK"
        assert one.metadata == {"inferred": True, "times": "between_calls", "rule": "state"}
        assert one.columns.tools == "read"


def test_a_lone_call_stays_as_it_was(agents: Agents) -> None:
    """C7: an LLM span, a root, and nothing else."""
    agents.call(user("hi"), said=answer("Hello"))
    [one] = agents.see()
    assert one.span.parent_span_id is None
    assert one.columns.run is None
    assert "session.id" not in one.span.attributes


def test_a_new_message_begins_another_run(agents: Agents) -> None:
    """Results and words in one request: the results end the first, the words begin the next."""
    agents.call(user("Look"), said=TWO)
    history = (user("Look"), TWO, *TWO_RESULTS, user("Stop. Do it again"))
    third = calls("call_c")
    begun = agents.call(*history, said=third)
    agents.call(*history, third, result("call_c"), said=answer("Done"))
    first, second = agents.see_kind("AGENT")
    assert (first.metadata["ended_by"], first.metadata["tools"]) == ("new_message", 2)
    assert first.span.status == "UNSET"
    assert (second.metadata["ended_by"], second.metadata["tools"]) == ("answer", 1)
    assert second.span.span_id == derive_span_id(begun, "run")
    assert second.span.attributes["input.value"] == "Stop. Do it again"
    assert first.span.trace_id != second.span.trace_id
    assert first.columns.conversation == second.columns.conversation
    assert [one.columns.turn for one in (first, second)] == [1, 2]


def test_a_failed_call_ends_no_run(agents: Agents) -> None:
    """It is tried again, in the same run, and its results are one span each."""
    agents.call(user("Look"), said=TWO)
    history = (user("Look"), TWO, *TWO_RESULTS)
    failed = agents.call(*history, said=None)
    again = agents.call(*history, said=answer("Both"))
    [agent] = agents.see_kind("AGENT")
    assert (agent.metadata["calls"], agent.metadata["tools"]) == (3, 2)
    spans = {one.span.span_id: one.span for one in agents.see()}
    assert spans[failed].parent_span_id == spans[again].parent_span_id == agent.span.span_id
    assert len(agents.see_kind("TOOL")) == 2


def test_a_fork_has_a_run_of_its_own(agents: Agents) -> None:
    """Somebody went on from there before; the results are not told twice."""
    look(agents)
    agents.call(user("Look"), TWO, *TWO_RESULTS, said=calls("call_c"))
    forked = agents.call(user("Look"), TWO, *TWO_RESULTS, said=calls("call_c"))
    assert len(agents.see_kind("AGENT")) == 1
    assert len(agents.see_kind("TOOL")) == 2
    [one] = [one for one in agents.see() if one.span.span_id == forked]
    assert one.span.parent_span_id == derive_span_id(forked, "run")


@pytest.mark.parametrize(
    "forced",
    [
        {"tool_choice": "required"},
        {"tool_choice": {"type": "function", "function": {"name": "read"}}},
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required"}}},
        {"function_call": {"name": "read"}},
    ],
)
def test_a_forced_call_opens_no_run(agents: Agents, forced: dict[str, Any]) -> None:
    """C8: so structured data are asked for; where somebody comes back, the run begins there."""
    first = agents.call(user("Look"), said=TWO, **forced)
    [one] = agents.see()
    assert (one.span.parent_span_id, one.columns.run) == (None, None)
    more = calls("call_c")
    second = agents.call(user("Look"), TWO, *TWO_RESULTS, said=more)
    agents.call(user("Look"), TWO, *TWO_RESULTS, more, result("call_c"), said=answer("So"))
    [agent] = agents.see_kind("AGENT")
    assert agent.span.span_id == derive_span_id(second, "run")
    assert agent.metadata["calls"] == 2
    assert derive_span_id(first, "run") != agent.span.span_id


@pytest.mark.parametrize(
    ("choice", "is_free"),
    [
        ("required", True),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "required"}}, True),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"name": "read"}]}, False),
        ({"type": "function", "function": {"name": "read"}}, False),
    ],
)
def test_a_choice_among_several_opens_a_run(agents: Agents, choice: Any, is_free: bool) -> None:
    """So agents ask whose answer is a call, too."""
    tools = [{"type": "function", "function": {"name": name}} for name in ("read", "final")]
    asked: dict[str, Any] = {"tools": tools, "tool_choice": choice}
    agents.call(user("Look"), said=TWO, **asked)
    final = calls("call_c", name="final")
    history = (user("Look"), TWO, *TWO_RESULTS, final, result("call_c", "So be it"))
    agents.call(*history[:-2], said=final, **asked)
    agents.call(*history, user("Again"), said=answer("No"))
    assert [one.metadata["tools"] for one in agents.see_kind("AGENT")] == [3] * is_free
    assert len(agents.see_kind("TOOL")) == 3 * is_free


@pytest.mark.parametrize("free", [{}, {"tool_choice": "auto"}, {"tool_choice": {"type": "auto"}}])
def test_a_free_call_opens_one(agents: Agents, free: dict[str, Any]) -> None:
    """What leaves the choice to the model forces nothing."""
    first = agents.call(user("Look"), said=TWO, **free)
    [one] = agents.see()
    assert one.span.parent_span_id == derive_span_id(first, "run")


def test_whoever_sends_a_traceparent_has_spans_of_its_own(agents: Agents) -> None:
    """The call stays where the caller put it."""
    agents.call(user("Look"), said=TWO, parent="00f067aa0ba902b7")
    agents.call(user("Look"), TWO, *TWO_RESULTS, said=answer("Both"), parent="00f067aa0ba902b8")
    seen = agents.see()
    assert [one.span.parent_span_id for one in seen] == ["00f067aa0ba902b7", "00f067aa0ba902b8"]
    assert {one.columns.run for one in seen} == {None}
    assert [one.columns.link_rule for one in seen] == [None, "state"]


def test_a_run_without_calls_is_over_after_a_while(agents: Agents) -> None:
    """C9: its AGENT span ends with its last call; who comes back begins another."""
    first = agents.call(user("Look"), said=TWO)
    agents.now_ns += RUN_IDLE_SECONDS * SECOND_NS
    agents.service.commit()
    assert not agents.see_kind("AGENT")
    agents.now_ns += 1
    agents.service.commit()
    [agent] = agents.see_kind("AGENT")
    assert agent.metadata["ended_by"] == "idle"
    assert agent.metadata["tool_calls_unanswered"] == 2
    assert agent.span.end_ns == START_NS + 2 * SECOND_NS
    late = agents.call(user("Look"), TWO, *TWO_RESULTS, said=answer("Both"))
    [one] = [one for one in agents.see() if one.span.span_id == late]
    assert (one.span.parent_span_id, one.columns.run) == (None, None)
    assert one.columns.conversation == agent.columns.conversation
    assert first != late


def test_too_many_open_runs_end_the_one_that_rested(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By number, and by what they take."""
    monkeypatch.setattr(runs_module, "MAX_OPEN_RUNS", 2)
    first = agents.call(user("one"), said=TWO)
    agents.call(user("two"), said=TWO)
    agents.call(user("three"), said=TWO)
    agents.service.commit()
    [agent] = agents.see_kind("AGENT")
    assert (agent.metadata["ended_by"], agent.span.span_id) == (
        "limit",
        derive_span_id(first, "run"),
    )
    monkeypatch.setattr(runs_module, "MAX_HELD_BYTES", 4)
    agents.service.commit()
    assert len(agents.see_kind("AGENT")) == 3
    assert len(agents.service.conversations.runs) == 0
    assert agents.service.conversations.runs._held_bytes == 0


def test_a_moved_span_links_to_what_the_upstream_was_told(agents: Agents) -> None:
    """C13: its own trace id was sent on before the run was known."""
    _, second = look(agents)
    [one] = [one for one in agents.see() if one.span.span_id == second]
    assert (f"{2:032x}", second) in one.span.links
    assert one.span.trace_id == f"{1:032x}"


def test_a_first_call_is_marked_once_somebody_goes_on(agents: Agents) -> None:
    """C12: a span of a nanosecond takes its trace into the session; not so a retry."""
    first = agents.call(user("hi"), said=answer("Hello"))
    history = (user("hi"), answer("Hello"))
    agents.call(*history, user("a"), said=answer("b"))
    agents.call(*history, user("c"), said=answer("d"))
    agents.call(user("again"), said=None)
    agents.call(user("again"), said=answer("So"))
    [marker] = agents.see_kind("MARKER")
    span = marker.span
    assert (span.name, span.parent_span_id) == ("conversation continued", first)
    end_ns = START_NS + 2 * SECOND_NS
    assert (span.start_ns, span.end_ns) == (end_ns - 1, end_ns)
    assert span.attributes["session.id"] == f"conv-{first}"
    assert span.attributes["openinference.span.kind"] == "CHAIN"


@pytest.mark.parametrize("form", [ConversationForm.LINKS, ConversationForm.OFF])
def test_other_forms_have_no_runs(tmp_path: Path, form: ConversationForm) -> None:
    """``links`` leaves each call in its own trace, with the mark; ``off`` tells nothing."""
    with Agents(tmp_path / "spans.db", SpanRules(conversations=form)) as agents:
        look(agents)
        agents.call(user("hi"), said=answer("Hello"))
        agents.call(user("hi"), answer("Hello"), user("a"), said=answer("b"))
        kinds = [one.columns.kind for one in agents.see()]
        assert kinds.count("LLM") == 4
        assert kinds.count("MARKER") == (form is ConversationForm.LINKS)
        assert len(kinds) == 4 + (form is ConversationForm.LINKS)
        assert {one.columns.run for one in agents.see()} == {None}


def test_a_call_tells_the_parts_of_its_prompt(agents: Agents) -> None:
    """In its own metadata, where the rest of its place is; a lone call has none."""
    look(agents)
    agents.call(user("hi"), said=answer("Hello"))
    told = [one.metadata.get("conversation") for one in agents.see_kind("LLM")]
    assert [one and one["estimated_tokens_by_part"] for one in told] == [
        {"new": 3},
        {"history": 3, "new": 0},
        None,
    ]


def test_an_agent_has_the_name_that_its_client_gives_it(agents: Agents) -> None:
    """Codex names its sub-agents."""
    named = (("x-openai-subagent", "review"),)
    agents.call(user("Look"), said=TWO, headers=named)
    agents.call(user("Look"), TWO, *TWO_RESULTS, said=answer("Both"), headers=named)
    [agent] = agents.see_kind("AGENT")
    assert (agent.span.name, agent.span.attributes["agent.name"]) == ("agent review", "review")
    assert agent.span.attributes["gen_ai.agent.name"] == "review"


def test_content_that_is_off_is_in_no_span_of_the_run(agents: Agents) -> None:
    """Names, arguments, results, question and answer; the tree is there all the same."""
    off = (("x-spantap-content", "off"),)
    secret = calls("secret_id", name="secret_tool")
    agents.call(user("secret question"), said=secret, headers=off)
    agents.call(
        user("secret question"),
        secret,
        result("secret_id", "secret result"),
        said=answer("secret answer"),
        headers=off,
    )
    [agent], [tool] = agents.see_kind("AGENT"), agents.see_kind("TOOL")
    assert tool.span.parent_span_id == agent.span.span_id
    for one in agents.see():
        assert "secret" not in str(one.span.attributes)
        assert "secret" not in str(one.columns)
        assert "secret" not in one.span.name


def test_an_id_is_on_the_span_of_a_tool_as_on_that_of_its_call(tmp_path: Path) -> None:
    """Patterns hold in ids, too; the result is found by the id as it came."""
    redaction = Redaction({"word": "frida"})
    with Agents(tmp_path / "spans.db", SpanRules(redaction=redaction)) as agents:
        asked = calls("call_frida_1", "call_2")
        results = (result("call_2", "two"), result("call_frida_1", "one"))
        first = agents.call(user("Look"), said=asked)
        agents.call(user("Look"), asked, *results, said=answer("Both"))
        [call] = [one for one in agents.see() if one.span.span_id == first]
        tools = {one.span.attributes["tool_call.id"]: one for one in agents.see_kind("TOOL")}
    calls_of = "llm.output_messages.0.message.tool_calls"
    ids = [call.span.attributes[f"{calls_of}.{at}.tool_call.id"] for at in (0, 1)]
    assert {shown: one.span.attributes["output.value"] for shown, one in tools.items()} == {
        ids[0]: "one",
        "call_2": "two",
    }
    assert not [one for one in tools.values() if "frida" in str(one.span.attributes)]


def test_a_client_that_leaves_ends_no_run(agents: Agents) -> None:
    """It may come back; a run that it does not go on with ends by time."""
    agents.call(user("Look"), said=TWO)
    agents.call(user("Look"), TWO, *TWO_RESULTS, said=answer("Bo"), kind=EndKind.CLIENT_GONE)
    assert not agents.see_kind("AGENT")
    assert len(agents.service.conversations.runs) == 1


def test_a_defect_costs_no_call_its_span(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    """R2: what fails in the rows of runs leaves the calls."""

    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("telemetry.recording.run_rows.build_tool_span", fail)
    look(agents)
    assert [one.columns.kind for one in agents.see()] == ["LLM", "LLM"]
    monkeypatch.undo()
    agents.now_ns += 2 * RUN_IDLE_SECONDS * SECOND_NS
    agents.service.commit()
    [agent] = agents.see_kind("AGENT")
    assert agent.metadata["ended_by"] == "idle"


def test_the_names_follow_the_convention_that_was_chosen(tmp_path: Path) -> None:
    """That of the GenAI conventions has the operation first."""
    with Agents(tmp_path / "spans.db", SpanRules(naming=SpanNaming.GENAI)) as agents:
        look(agents)
        assert [one.span.name for one in agents.see_kind("TOOL")] == ["execute_tool read"] * 2
        assert [one.span.name for one in agents.see_kind("AGENT")] == ["invoke_agent"]
        assert by_kind(agents.see()) == {"LLM": 2, "TOOL": 2, "AGENT": 1}
        metadata = agents.see_kind("AGENT")[0].span.attributes["metadata"]
        assert decode_json_object(metadata)["inferred"] is True


def test_other_names_are_no_run(agents: Agents) -> None:
    """C12: two users ask the same at the same time; each has its own results and its own run."""
    one, two = (("x-session-id", "one"),), (("x-session-id", "two"),)
    weak = calls("call_0")
    first = agents.call(user("Look"), said=weak, headers=one)
    agents.call(user("Look"), weak, result("call_0", "two's"), said=answer("B"), headers=two)
    agents.call(user("Look"), weak, result("call_0", "one's"), said=answer("A"), headers=one)
    [tool] = agents.see_kind("TOOL")
    assert tool.span.attributes["output.value"] == "one's"
    [agent] = agents.see_kind("AGENT")
    assert (agent.span.span_id, agent.metadata["calls"]) == (derive_span_id(first, "run"), 2)


def test_what_has_another_name_is_not_gone_on_from_for_it_is_alike(agents: Agents) -> None:
    """C12: the same words after one's call that failed are one's own retry; the own is chosen."""
    one, two = (("x-session-id", "one"),), (("x-session-id", "two"),)
    agents.call(user("hi"), said=None, headers=one)
    agents.call(user("hi"), said=answer("Hello"), headers=two)
    agents.call(user("hi"), said=answer("Hello"), headers=one)
    for headers in (one, two):
        agents.call(user("hi"), answer("Hello"), user("q"), said=answer("a"), headers=headers)
    told = [(call.columns.session, call.columns.link_rule) for call in agents.see_kind("LLM")]
    assert told == [
        ("one", None),
        ("two", None),
        ("one", "retry"),
        ("one", "state"),
        ("two", "state"),
    ]
