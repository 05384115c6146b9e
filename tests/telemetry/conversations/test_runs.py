"""Runs: the tree of AGENT, LLM and TOOL spans that a service records of an agent's calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json_object
from telemetry.call_place import ConversationForm
from telemetry.conversations import runs as runs_module
from telemetry.conversations.run import RUN_IDLE_SECONDS, derive_span_id
from telemetry.frames.ending import EndKind
from telemetry.privacy.redaction import Redaction
from telemetry.spans.rules import SpanNaming, SpanRules
from tests.telemetry.conversations.agents import SECOND_NS, Agents
from tests.telemetry.conversations.talks import answer, calls, result, user
from tests.telemetry.tap_frames import START_NS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.telemetry.conversations.agents import Seen

PROMPT = "Find every place where the port is opened, and say which."
TWO = calls("call_a", "call_b")
TWO_RESULTS = (result("call_a", "one"), result("call_b", "two"))


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with Agents(tmp_path / "spans.db") as opened:
        yield opened


def look(agents: Agents, said: dict[str, Any] | None = None) -> tuple[str, str]:
    """A run of two calls, with two tools at once; the ids of the calls."""
    first = agents.call(user("Look"), said=TWO)
    second = agents.call(user("Look"), TWO, *TWO_RESULTS, said=said or answer("Both are there"))
    return first, second


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
    """Rule 2: it is tried again, in the same run, and its results are one span each."""
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
    """Rule 2: somebody went on from there before; the results are not told twice."""
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
    """Rule 1: so agents ask whose answer is a call, too."""
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
    """Rule 3: the call stays where the caller put it."""
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
    """Rule 4 and R5: by number, and by what their texts take."""
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
    monkeypatch.setattr(runs_module, "MAX_HELD_CHARS", 4)
    agents.service.commit()
    assert len(agents.see_kind("AGENT")) == 3
    assert len(agents.service.conversations.runs) == 0
    assert agents.service.conversations.runs._held_chars == 0


def test_a_moved_span_links_to_what_the_upstream_was_told(agents: Agents) -> None:
    """C13: its own trace id was sent on before the run was known."""
    _, second = look(agents)
    [one] = [one for one in agents.see() if one.span.span_id == second]
    assert (f"{2:032x}", second) in one.span.links
    assert one.span.trace_id == f"{1:032x}"


def delegate(*ids: str, prompt: str = PROMPT) -> dict[str, Any]:
    """Calls of a tool that begins sub-agents, all with one prompt."""
    made = calls(*ids, name="task")
    for call in made["tool_calls"]:
        call["function"]["arguments"] = f'{{"prompt": "{prompt}", "kind": "explore"}}'
    return made


def test_a_sub_agent_is_below_its_tool(agents: Agents) -> None:
    """Rule 5: in the trace and the session of the run that called it."""
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
    monkeypatch.setattr(runs_module, "MAX_CALLS_OF_PROMPT", 3)
    firsts = [agents.call(user(f"Nr. {n}"), said=delegate("call_a")) for n in range(5)]
    [waiting] = agents.service.conversations.runs._prompts.values()
    assert len(waiting) == 3
    child = agents.call(user(PROMPT), said=answer("In main"))
    [one] = [one for one in agents.see() if one.span.span_id == child]
    assert one.span.parent_span_id == derive_span_id(firsts[2], "tool 0")


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
    """Rule 5: whoever says the same with another key is somebody else."""
    agents.call(
        user("Where?"),
        said=delegate("call_a"),
        key="sk-ann-000000000001",
    )
    other = agents.call(user(PROMPT), said=answer("?"), key="sk-bob-000000000002")
    [one] = [one for one in agents.see() if one.span.span_id == other]
    assert one.span.parent_span_id is None


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


def test_a_result_that_says_so_is_an_error(tmp_path: Path) -> None:
    """Anthropic's ``is_error``; the text alone never."""
    with Agents(tmp_path / "spans.db") as agents:
        agents.call(user("Look"), said=TWO)
        agents.call(
            user("Look"),
            TWO,
            *(result(i, "Error!") for i in ("call_a", "call_b")),
            said=answer("x"),
        )
        assert [one.span.status for one in agents.see_kind("TOOL")] == ["OK", "OK"]


def test_renamed_ids_are_matched_by_position(agents: Agents) -> None:
    """1.4: the TOOL span has the id of the answer."""
    first = agents.call(user("Look"), said=TWO)
    renamed = calls("x1", "x2")
    agents.call(
        user("Look"), renamed, result("x1", "one"), result("x2", "two"), said=answer("Both")
    )
    tools = agents.see_kind("TOOL")
    assert [one.span.attributes["output.value"] for one in tools] == ["one", "two"]
    assert [one.span.attributes["tool_call.id"] for one in tools] == ["call_a", "call_b"]
    assert tools[0].span.span_id == derive_span_id(first, "tool 0")


def test_results_come_in_any_number_of_requests(agents: Agents) -> None:
    """A tool that takes long is answered later; each result is one span."""
    agents.call(user("Look"), said=TWO)
    more = calls("call_c")
    agents.call(user("Look"), TWO, result("call_a", "one"), said=more)
    agents.call(
        user("Look"),
        TWO,
        result("call_a", "one"),
        more,
        result("call_c", "three"),
        result("call_b", "two"),
        said=answer("All"),
    )
    told = {
        one.span.attributes["tool_call.id"]: one.span.attributes["output.value"]
        for one in agents.see_kind("TOOL")
    }
    assert told == {"call_a": "one", "call_c": "three", "call_b": "two"}
    [agent] = agents.see_kind("AGENT")
    assert agent.metadata["tools"] == 3


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

    monkeypatch.setattr("telemetry.run_rows.build_tool_span", fail)
    look(agents)
    assert [one.columns.kind for one in agents.see()] == ["LLM", "LLM"]
    monkeypatch.undo()
    agents.now_ns += 2 * RUN_IDLE_SECONDS * SECOND_NS
    agents.service.commit()
    [agent] = agents.see_kind("AGENT")
    assert agent.metadata["ended_by"] == "idle"


STRONG = ("call_Xk29vQm4Tz81bLwP", "call_Rw77dNc3Ys05hJfE")


def test_what_a_call_brings_stays_together_beside_one_that_cannot_be_stored(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R8: a call that the store chokes on parts no other call from its tools and its run."""
    together: list[tuple[int, int]] = []
    add = agents.service._store.add

    def choke(rows: Any, runs: Any) -> int:
        if any(row.columns.user == "poison" for row in rows):
            raise ZeroDivisionError
        together.append((len(rows), len(runs)))
        return add(rows, runs)

    monkeypatch.setattr(agents.service._store, "add", choke)
    with monkeypatch.context() as patched:
        patched.setattr(agents.service, "commit", lambda: None)
        look(agents)
        agents.call(user("Hello"), said=answer("Hi"), headers=(("x-spantap-user-id", "poison"),))
    agents.service.commit()
    assert together == [(1, 1), (4, 1)]
    assert by_kind(agents.see()) == {"LLM": 2, "TOOL": 2, "AGENT": 1}
    assert agents.service.counts.lost == 1


def test_a_restart_goes_on_with_a_run(agents: Agents) -> None:
    """Rule 4: its tools get their results, its AGENT span is whole, and it is one."""
    told = calls(*STRONG)
    first = agents.call(user("Look"), said=told)
    agents.start()
    results = [result(one, text) for one, text in zip(STRONG, ("one", "two"), strict=True)]
    agents.call(user("Look"), told, *results, said=answer("Both are there"))
    [agent] = agents.see_kind("AGENT")
    assert agent.span.span_id == derive_span_id(first, "run")
    assert (agent.metadata["calls"], agent.metadata["tools"]) == (2, 2)
    assert agent.metadata["usage"]["prompt_tokens"] == 6
    assert agent.span.attributes["input.value"] == "Look"
    tools = [one.span.attributes["output.value"] for one in agents.see_kind("TOOL")]
    assert tools == ["one", "two"]
    agents.start()
    agents.service.commit()
    assert by_kind(agents.see()) == {"LLM": 2, "TOOL": 2, "AGENT": 1}


def test_a_run_that_nobody_goes_on_with_ends_after_a_restart(agents: Agents) -> None:
    """By time, as any other, and once; its parts are not told twice."""
    agents.call(user("Look"), said=TWO)
    agents.start()
    agents.now_ns += (RUN_IDLE_SECONDS + 1) * SECOND_NS
    for _ in range(2):
        agents.service.commit()
        agents.start()
    [agent] = agents.see_kind("AGENT")
    assert (agent.metadata["ended_by"], agent.metadata["calls"]) == ("idle", 1)


def test_a_run_of_which_a_span_was_deleted_is_forgotten(agents: Agents) -> None:
    """What somebody said is in no span that comes later."""
    agents.call(user("Look for my password"), said=TWO)
    agents.delete_all()
    agents.call(user("Look for my password"), TWO, *TWO_RESULTS, said=answer("Both"))
    agents.now_ns += (RUN_IDLE_SECONDS + 1) * SECOND_NS
    agents.service.commit()
    agents.start()
    agents.service.commit()
    [one] = agents.see()
    assert (one.columns.kind, one.columns.run) == ("LLM", None)


def test_a_run_that_waits_for_its_commit_is_forgotten_too(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that ended before the deletion brings nothing of what was said before it."""
    agents.call(user("Look for my password"), said=TWO)
    with monkeypatch.context() as patched:
        patched.setattr(agents.service, "commit", lambda: None)
        agents.call(user("Look for my password"), TWO, *TWO_RESULTS, said=calls("call_c"))
    agents.delete_all()
    agents.start()
    agents.service.commit()
    assert len(agents.service.conversations.runs) == 0


def test_what_is_kept_of_a_secret_run_is_not_its_content(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1.5: neither texts nor ids nor digests, where one call of it had content off."""
    kept: dict[int, bytes | None] = {}
    add = agents.service._store.add

    def note(rows: Any, runs: Any = None) -> int:
        kept.update(runs or {})
        return add(rows, runs or {})

    monkeypatch.setattr(agents.service._store, "add", note)
    agents.call(user("Look"), said=TWO)
    [data] = kept.values()
    assert data is not None
    assert b"call_a" in data
    off = (("x-spantap-content", "off"),)
    more = calls("call_c", name="secret_tool")
    agents.call(user("Look"), TWO, *TWO_RESULTS, said=more, headers=off)
    [data] = kept.values()
    assert data is not None
    assert b"call_c" not in data
    assert b"secret_tool" not in data


def by_kind(seen: list[Seen]) -> dict[str, int]:
    """How many there are of each kind."""
    kinds = [str(one.columns.kind) for one in seen]
    return {kind: kinds.count(kind) for kind in kinds}


def test_the_names_follow_the_convention_that_was_chosen(tmp_path: Path) -> None:
    """That of the GenAI conventions has the operation first."""
    with Agents(tmp_path / "spans.db", SpanRules(naming=SpanNaming.GENAI)) as agents:
        look(agents)
        assert [one.span.name for one in agents.see_kind("TOOL")] == ["execute_tool read"] * 2
        assert [one.span.name for one in agents.see_kind("AGENT")] == ["invoke_agent"]
        assert by_kind(agents.see()) == {"LLM": 2, "TOOL": 2, "AGENT": 1}
        metadata = agents.see_kind("AGENT")[0].span.attributes["metadata"]
        assert decode_json_object(metadata)["inferred"] is True


def tell_results(agents: Agents) -> list[tuple[str, str]]:
    """The arguments of each tool that has its result, and that."""
    told = [one.span.attributes for one in agents.see_kind("TOOL")]
    return [(str(one["input.value"]), str(one["output.value"])) for one in told]


def test_an_older_result_of_the_same_id_is_not_the_newer_calls(agents: Agents) -> None:
    """1.4: ``call_0`` comes again, and somebody left the second one without a result."""
    again = calls("call_0", name="write")
    asked = (user("Look"), calls("call_0"), result("call_0", "one"))
    agents.call(user("Look"), said=calls("call_0"))
    agents.call(*asked, said=again)
    agents.call(*asked, again, user("Stop"), said=answer("Stopped"))
    assert tell_results(agents) == [('{"n":0}', "one")]
    [agent] = [one for one in agents.see_kind("AGENT") if one.metadata["calls"] == 2]
    assert agent.metadata["tool_calls_unanswered"] == 1


def test_calls_of_one_id_in_one_answer_are_matched_by_position(agents: Agents) -> None:
    """Some servers give all parallel calls the same id."""
    told = calls("call_0", "call_0")
    agents.call(user("Look"), said=told)
    results = (result("call_0", "one"), result("call_0", "two"))
    agents.call(user("Look"), told, *results, said=answer("Both"))
    assert tell_results(agents) == [('{"n":0}', "one"), ('{"n":1}', "two")]


def test_a_missing_result_is_nobody_elses(agents: Agents) -> None:
    """Where ids hold, a result that nobody waits for is of a call that is not ours."""
    told = calls("call_a", "call_b")
    agents.call(user("Look"), said=told)
    results = (result("call_b", "two"), result("call_x", "three"))
    agents.call(user("Look"), told, *results, said=answer("One"))
    assert tell_results(agents) == [('{"n":1}', "two")]


def test_renamed_results_are_not_those_of_an_older_answers_call(agents: Agents) -> None:
    """A call that stayed without a result is not the one that is meant."""
    agents.call(user("Look"), said=calls("call_a", "call_b"))
    asked = (user("Look"), calls("x1", "x2"), result("x1", "one"))
    more = calls("call_c", name="write")
    agents.call(*asked, said=more)
    agents.call(*asked, calls("x3", name="write"), result("x3", "three"), said=answer("All"))
    assert [one[1] for one in tell_results(agents)] == ["one", "three"]
    names = [one.span.attributes["tool.name"] for one in agents.see_kind("TOOL")]
    assert names == ["read", "write"]
