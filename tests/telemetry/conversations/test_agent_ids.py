"""Runs by the ids that programs send: sessions, agents, parents and purposes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from telemetry.conversations import launches
from telemetry.conversations.run import RUN_IDLE_SECONDS, derive_span_id
from tests.telemetry.conversations.agents import SECOND_NS, Agents, Seen
from tests.telemetry.conversations.talks import answer, calls, result, user

if TYPE_CHECKING:
    from collections.abc import Sequence

    from telemetry.span_identity import SpanIdentity

PROMPT = "Find every place where the port is opened, and say which."
LAUNCHED = "Async agent launched successfully.\nagentId: {} (internal ID)"
NOTICE = "<task-notification>\n<task-id>{}</task-id>\n<status>completed</status>"

Heads = tuple[tuple[str, str], ...]


def claude(agent: str = "", parent: str = "", session: str = "s-1", **more: str) -> Heads:
    """The heads of Claude Code: those of the main agent, or of one below it."""
    said = {"session-id": session, "agent-id": agent, "parent-agent-id": parent}
    said |= {name.replace("_", "-"): value for name, value in more.items()}
    return tuple((f"x-claude-code-{name}", value) for name, value in said.items() if value)


def launch(*ids: str, prompt: str = PROMPT, name: str = "Agent", **more: str) -> dict[str, Any]:
    """Calls of the tool that starts sub-agents, all with one prompt."""
    made = calls(*ids, name=name)
    for call in made["tool_calls"]:
        call["function"]["arguments"] = json.dumps({"prompt": prompt} | more)
    return made


def parents_of(agents: Agents) -> dict[str, str | None]:
    """The parent of each span, by its id."""
    return {one.span.span_id: one.span.parent_span_id for one in agents.see()}


def runs_of(agents: Agents) -> dict[str, Seen]:
    """The AGENT spans, by their ids."""
    return {one.span.span_id: one for one in agents.see_kind("AGENT")}


def work(agents: Agents, heads: Heads, asked: str, said: str = "In main", **call: Any) -> str:
    """Two calls of a sub-agent, with a tool between them; the id of its run's span."""
    inner = calls(f"call_{heads[-1][1]}_x")
    first = agents.call(user(asked), said=inner, headers=heads, **call)
    done = result(inner["tool_calls"][0]["id"])
    agents.call(user(asked), inner, done, said=answer(said), headers=heads, **call)
    return derive_span_id(first, "run")


def test_sub_agents_with_one_prompt_are_told_apart(agents: Agents) -> None:
    """Each is below the tool call whose result names it, in whatever order they came."""
    told = launch("call_a", "call_b")
    first = agents.call(user("Where?"), said=told, headers=claude())
    later = work(agents, claude("bbb"), PROMPT)
    earlier = work(agents, claude("aaa"), PROMPT)
    assert agents.see_kind("AGENT") == []
    agents.call(
        user("Where?"),
        told,
        result("call_a", "In main\nagentId: aaa (use SendMessage)"),
        result("call_b", "In main\nagentId: bbb (use SendMessage)"),
        said=answer("There"),
        headers=claude(),
    )
    parents = parents_of(agents)
    assert parents[earlier] == derive_span_id(first, "tool 0")
    assert parents[later] == derive_span_id(first, "tool 1")
    assert [one.metadata["ended_by"] for one in agents.see_kind("AGENT")] == ["answer"] * 3
    assert len({one.span.trace_id for one in agents.see()}) == 1
    assert not agents.service.conversations.runs._open


def test_a_sub_agent_that_no_result_names_is_below_its_parent(agents: Agents) -> None:
    """Which tool call started it is not known; that agent is."""
    told = launch("call_a", "call_b")
    first = agents.call(user("Where?"), said=told, headers=claude())
    child = agents.call(user(PROMPT), said=answer("In main"), headers=claude("aaa"))
    results = (result("call_a", "In main"), result("call_b", "failed"))
    agents.call(user("Where?"), told, *results, said=answer("There"), headers=claude())
    parents = parents_of(agents)
    run = derive_span_id(child, "run")
    assert (parents[child], parents[run]) == (run, derive_span_id(first, "run"))


def test_a_sub_agent_alone_with_its_text_is_below_its_tool(agents: Agents) -> None:
    """It needs no result, and no run of its own for one call."""
    first = agents.call(user("Where?"), said=launch("call_a"), headers=claude())
    child = agents.call(user(PROMPT), said=answer("In main"), headers=claude("aaa"))
    assert parents_of(agents)[child] == derive_span_id(first, "tool 0")


def test_an_agent_goes_on_in_its_run_when_a_background_agent_is_done(agents: Agents) -> None:
    """The run stays open over an answer; what the program tells is no new message."""
    told = launch("call_a")
    launched = result("call_a", LAUNCHED.format("aaa"))
    first = agents.call(user("Where?"), said=told, headers=claude(prompt_id="p-1"))
    begun = (user("Where?"), told, launched)
    agents.call(*begun, said=answer("I wait"), headers=claude(prompt_id="p-1"))
    assert agents.see_kind("AGENT") == []
    child = work(agents, claude("aaa", prompt_id="p-1"), PROMPT)
    ended = (*begun, answer("I wait"), user(NOTICE.format("aaa")))
    agents.call(*ended, said=answer("There"), headers=claude(prompt_id="p-2"))
    assert parents_of(agents)[child] == derive_span_id(first, "tool 0")
    main = runs_of(agents)[derive_span_id(first, "run")]
    assert (main.metadata["calls"], main.metadata["ended_by"]) == (3, "answer")
    assert {one.columns.turn for one in agents.see_kind("LLM")} == {1}
    agents.call(*ended, answer("There"), user("Thanks"), said=answer("Yes"), headers=claude())
    assert agents.see()[-1].columns.turn == 2


def test_a_notice_may_be_in_a_reminder(agents: Agents) -> None:
    """Of several background agents, each keeps the run open until it is done."""
    told = launch("call_a", "call_b")
    begun = [user("Where?"), told, result("call_a", LAUNCHED.format("aaa"))]
    begun.append(result("call_b", LAUNCHED.format("bbb")))
    first = agents.call(user("Where?"), said=told, headers=claude())
    for name in ("aaa", "bbb"):
        agents.call(*begun, said=answer(f"I wait for {name}"), headers=claude())
        assert agents.see_kind("AGENT") == []
        notice = f"<system-reminder>{NOTICE.format(name)}</system-reminder>"
        begun += [answer(f"I wait for {name}"), user(notice)]
    agents.call(*begun, said=answer("There"), headers=claude())
    assert [*runs_of(agents)] == [derive_span_id(first, "run")]


def test_a_background_agent_may_begin_long_after_its_launch(agents: Agents) -> None:
    """The result of its tool named it."""
    told = launch("call_a", "call_b")
    first = agents.call(user("Where?"), said=told, headers=claude())
    named = [result(f"call_{name[0]}", LAUNCHED.format(name)) for name in ("aaa", "bbb")]
    agents.call(user("Where?"), told, *named, said=answer("I wait"), headers=claude())
    child = work(agents, claude("bbb"), PROMPT, at=60)
    assert parents_of(agents)[child] == derive_span_id(first, "tool 1")


def test_a_sub_agent_may_begin_with_the_history_of_its_parent(agents: Agents) -> None:
    """It continues no call of the parent's, and the parent goes on where it was."""
    history = [user("Where is the port?"), calls("call_r"), result("call_r", "a file")]
    agents.call(history[0], said=history[1], headers=claude())
    told = launch("call_a")
    agents.call(*history, said=told, headers=claude())
    fork = [*history, told, result("call_a", "<fork-boilerplate>"), user("Your directive: look")]
    child = agents.call(*fork, said=answer("In main"), headers=claude("aaa"))
    named = result("call_a", "In main\nagentId: aaa")
    agents.call(*history, told, named, said=answer("There"), headers=claude())
    seen = {one.span.span_id: one for one in agents.see()}
    run = seen[derive_span_id(child, "run")]
    tool = [one for one in agents.see_kind("TOOL") if one.columns.tools == "Agent"]
    assert [run.span.parent_span_id] == [one.span.span_id for one in tool]
    assert seen[child].metadata["conversation"].get("rule") in {None, "header"}
    assert len({one.columns.conversation for one in agents.see_kind("LLM")}) == 2
    assert len({one.columns.run for one in agents.see_kind("LLM")}) == 2


def test_sub_agents_may_be_nested(agents: Agents) -> None:
    """The parent that a call names is not always the main agent."""
    agents.call(user("Where?"), said=launch("call_a"), headers=claude())
    middle = agents.call(
        user(PROMPT), said=launch("call_b", prompt=f"{PROMPT} Deeper"), headers=claude("aaa")
    )
    inner = work(agents, claude("bbb", "aaa"), f"{PROMPT} Deeper")
    assert parents_of(agents)[inner] == derive_span_id(middle, "tool 0")


@pytest.mark.parametrize("heads", [claude("aaa"), claude("ccc"), claude()], ids=len)
def test_ids_of_another_caller_change_nothing(agents: Agents, heads: Heads) -> None:
    """Who sends a session or an agent of somebody else's with another key is in no tree of his."""
    told = launch("call_a")
    history = (user("Where?"), told)
    ann, bob = "sk-ann-000000000001", "sk-bob-000000000002"
    first = agents.call(user("Where?"), said=told, headers=claude(), key=ann)
    other = work(agents, heads, PROMPT, key=bob)
    child = work(agents, claude("aaa"), PROMPT, said="In the other", key=ann)
    named = {"previous_message_id": "a-1"}
    alien = agents.call(user("What?"), said=answer("No"), headers=heads, key=bob, diagnostics=named)
    done = result("call_a", "agentId: aaa")
    last = agents.call(*history, done, said=answer("There"), headers=claude(), key=ann)
    seen = {one.span.span_id: one for one in agents.see()}
    assert seen[child].span.parent_span_id == derive_span_id(first, "tool 0")
    assert seen[other].span.parent_span_id is None
    assert seen[last].span.parent_span_id == derive_span_id(first, "run")
    ours = {seen[one].columns.conversation for one in (first, child, last)}
    assert not ours & {seen[one].columns.conversation for one in (other, alien)}
    assert len({seen[one].span.trace_id for one in (first, other)}) == 2


def test_a_helper_call_opens_and_ends_no_run(agents: Agents) -> None:
    """The agent goes on from where it was, in its run; the helper has session and purpose."""
    told = calls("call_a")
    done = (user("Where?"), told, result("call_a"))
    agents.call(user("Where?"), said=told, headers=claude())
    beside = (*done, answer("Hm"), user("[SUGGESTION MODE: what next?]"))
    helpers = [
        agents.call(
            user("Where?"), said=calls("call_t"), headers=claude(request_class="auxiliary")
        ),
        agents.call(*done, said=calls("call_b"), headers=claude()) and "",
        agents.call(*beside, said=answer("run it"), headers=claude()),
    ]
    agents.call(*done, calls("call_b"), result("call_b"), said=answer("There"), headers=claude())
    seen = {one.span.span_id: one for one in agents.see()}
    rows = [seen[one].columns for one in helpers if one]
    assert [(one.purpose, one.run, one.session) for one in rows] == [
        ("other", None, "s-1"),
        ("suggestion", None, "s-1"),
    ]
    [run] = agents.see_kind("AGENT")
    assert (run.metadata["calls"], run.metadata["ended_by"]) == (3, "answer")


def test_an_agent_goes_on_in_its_run_after_a_compaction(agents: Agents) -> None:
    """By the id of the answer before it, and as the same message of the user's is answered."""
    told = calls("call_a")
    heads = claude(prompt_id="p-1")
    nothing, before = {"previous_message_id": None}, {"previous_message_id": "a-1"}
    first = agents.call(user("Where?"), said=told, headers=heads, diagnostics=nothing)
    agents.call(
        *(user("Where?"), told, result("call_a"), user("CRITICAL: Respond with TEXT ONLY")),
        said=answer("<summary>He asks where.</summary>"),
        headers=claude(request_class="compaction"),
        diagnostics=before,
    )
    summary = user("This session is being continued from a previous conversation.")
    last = agents.call(summary, said=answer("There"), headers=heads, diagnostics=before)
    seen = {one.span.span_id: one for one in agents.see()}
    run = seen[derive_span_id(first, "run")]
    assert seen[last].span.parent_span_id == run.span.span_id
    assert (run.metadata["calls"], run.metadata["tools"]) == (2, 1)
    assert seen[last].metadata["conversation"]["rule"] == "response_id"
    assert seen[last].columns.turn == 1


def test_a_call_that_was_recorded_late_is_in_its_run(agents: Agents) -> None:
    """It ended after the call that continues it; both answer the same message."""
    told = [calls(f"call_{n}") for n in range(3)]
    history = [user("Where?")]
    for one in told:
        history += [one, result(one["tool_calls"][0]["id"])]
    heads = claude(prompt_id="p-1")
    agents.call(history[0], said=told[0], headers=heads)
    agents.call(*history[:5], said=told[2], headers=heads, at=9)
    late = agents.call(*history[:3], said=told[1], headers=heads, at=5)
    agents.call(*history, said=answer("There"), headers=heads, at=12)
    [run] = agents.see_kind("AGENT")
    assert (parents_of(agents)[late], run.metadata["calls"]) == (run.span.span_id, 4)


def test_a_sub_agent_that_tries_again_has_one_run(agents: Agents) -> None:
    """Its first call failed, and nothing named it yet."""
    told = launch("call_a", "call_b")
    agents.call(user("Where?"), said=told, headers=claude())
    failed = agents.call(user(PROMPT), said=None, headers=claude("aaa"))
    again = agents.call(user(f"{PROMPT}!"), said=answer("In main"), headers=claude("aaa"))
    seen = {one.span.span_id: one for one in agents.see()}
    run = derive_span_id(failed, "run")
    assert seen[failed].span.parent_span_id == seen[again].span.parent_span_id == run


def test_a_message_to_a_sub_agent_begins_another_run_of_it(agents: Agents) -> None:
    """Below the tool that sent the message."""
    told, text = launch("call_a"), "Look into the tests, too, and say what you find there."
    begun = [user("Where?"), told, result("call_a", "In main\nagentId: aaa")]
    agents.call(user("Where?"), said=told, headers=claude())
    agents.call(user(PROMPT), said=answer("In main"), headers=claude("aaa"))
    sent = launch("call_b", prompt=text, name="SendMessage")
    second = agents.call(*begun, said=sent, headers=claude())
    more = agents.call(
        *(user(PROMPT), answer("In main"), user(text)),
        said=calls("call_x"),
        headers=claude("aaa"),
    )
    agents.call(*begun, sent, result("call_b", "Yes"), said=answer("There"), headers=claude())
    agents.now_ns += 2 * RUN_IDLE_SECONDS * SECOND_NS
    agents.service.commit()
    run = derive_span_id(more, "run")
    assert parents_of(agents)[run] == derive_span_id(second, "tool 0")


def test_a_sub_agent_continues_its_conversation_after_a_restart(agents: Agents) -> None:
    """And its parent that of the parent, though it began with that."""
    told = calls("call_9aX2pQr7Lm4Tz8Wb")
    history = (user("Where?"), told, result("call_9aX2pQr7Lm4Tz8Wb"))
    agents.call(user("Where?"), said=told, headers=claude())
    agents.call(user("Where?"), said=told, headers=claude("aaa"))
    agents.start()
    agents.call(*history, said=answer("There"), headers=claude("aaa"))
    agents.call(*history, said=answer("Here"), headers=claude())
    numbers = [one.columns.conversation for one in agents.see_kind("LLM")]
    assert numbers[0] == numbers[3] != numbers[1] == numbers[2]


def test_a_held_sub_agent_is_there_after_a_restart(agents: Agents) -> None:
    """It was over, and its tool call was not known; nothing names it any more."""
    first = agents.call(user("Where?"), said=launch("call_a", "call_b"), headers=claude())
    child = work(agents, claude("aaa"), PROMPT)
    agents.start()
    agents.now_ns += 2 * RUN_IDLE_SECONDS * SECOND_NS
    agents.service.commit()
    runs = runs_of(agents)
    assert runs[child].span.parent_span_id == derive_span_id(first, "run")
    assert runs[child].metadata["ended_by"] == "answer"


def codex(thread: str = "root", parent: str = "", name: str = "/root", turn: str = "t-1") -> Heads:
    """The heads of Codex."""
    told = json.dumps({"agent_name": name, "turn_id": turn})
    heads = [("session-id", "root"), ("thread-id", thread), ("x-codex-turn-metadata", told)]
    return (*heads, *([("x-codex-parent-thread-id", parent)] if parent else []))


def test_a_thread_of_codex_is_found_by_its_name(agents: Agents) -> None:
    """Its task is ciphertext, and it begins with the parent's history."""
    told = launch("call_a", "call_b", name="spawn_agent", prompt="gAAAA")
    named = [result(f"call_{n}", f'{{"task_name":"/root/{n}"}}') for n in "ab"]
    first = agents.call(user("Where?"), said=told, headers=codex())
    early = work(agents, codex("t-b", "root", "/root/b"), "Where?")
    agents.call(user("Where?"), told, *named, said=calls("call_w"), headers=codex())
    late = work(agents, codex("t-a", "root", "/root/a"), "Where?")
    parents = parents_of(agents)
    assert parents[late] == derive_span_id(first, "tool 0")
    assert parents[early] == derive_span_id(first, "tool 1")


def test_a_session_of_opencode_is_below_the_one_that_it_names(agents: Agents) -> None:
    """Each has a session of its own, and the result names it."""
    told = launch("call_a", "call_b", name="task")
    first = agents.call(user("Where?"), said=told, headers=(("x-session-affinity", "ses_1"),))
    heads = (("x-session-affinity", "ses_2"), ("x-parent-session-id", "ses_1"))
    child = work(agents, heads, PROMPT)
    named = (result("call_a", "failed"), result("call_b", '<task id="ses_2" state="completed">'))
    agents.call(
        *(user("Where?"), told, *named),
        said=answer("There"),
        headers=(("x-session-affinity", "ses_1"),),
    )
    assert parents_of(agents)[child] == derive_span_id(first, "tool 1")


def test_a_sub_agent_of_copilot_names_the_newest_id_of_its_parent(agents: Agents) -> None:
    """The id of the main agent changes."""
    head = ("x-client-session-id", "c-1")
    told = launch("call_a", "call_b", name="task")
    done = (user("Where?"), calls("call_r"), result("call_r"))
    agents.call(user("Where?"), said=done[1], headers=(head, ("x-agent-task-id", "m-1")))
    second = agents.call(*done, said=told, headers=(head, ("x-agent-task-id", "m-2")))
    heads = (head, ("x-parent-agent-id", "m-2"), ("x-agent-task-id", "aaa"))
    child = work(agents, heads, PROMPT)
    named = result("call_b", "Agent started in background with agent_id: aaa")
    agents.call(
        *(*done, told, result("call_a", "no"), named),
        said=answer("I wait"),
        headers=(head, ("x-agent-task-id", "m-2")),
    )
    assert parents_of(agents)[child] == derive_span_id(second, "tool 1")


def test_a_sub_agent_of_qwen_names_its_tool_call(agents: Agents) -> None:
    """In the id of the prompt."""
    told = launch("call_a", "call_b", name="agent")

    def said(prompt: str) -> dict[str, Any]:
        return {"metadata": {"sessionId": "q-1", "promptId": prompt}}

    first = agents.call(user("Where?"), said=told, **said("q-1########1"))
    child = agents.call(user(PROMPT), said=answer("In"), **said("q-1#explore-call_b#0"))
    memory = agents.call(
        user("Remember"), said=calls("call_m"), **said("q-1#managed-auto-memory-extractor-7#0")
    )
    seen = {one.span.span_id: one for one in agents.see()}
    assert seen[child].span.parent_span_id == derive_span_id(first, "tool 1")
    assert (seen[memory].columns.run, seen[memory].columns.purpose) == (None, "memory")


def identity(number: int, trace: str) -> SpanIdentity:
    """The identity of a call whose caller says that it is in a trace."""
    from tests.telemetry.tap_frames import identity as make  # noqa: PLC0415 - a test's own number

    return make(number).__class__(trace_id=trace, span_id=f"{number:016x}", parent_span_id="c" * 16)


@pytest.mark.parametrize(("heads", "is_run"), [((("x-grok-session-id", "g"),), True), ((), False)])
def test_a_trace_of_grok_is_a_link(agents: Agents, heads: Heads, *, is_run: bool) -> None:
    """It begins a trace with each call; the trace of anybody else wins, as ever."""
    told = calls("call_a")
    asked: Sequence[dict[str, Any]] = [user("Where?"), told, result("call_a")]
    for number, (messages, said) in enumerate([(asked[:1], told), (asked, answer("There"))], 1):
        agents.exchange(
            "chat.completions",
            "/v1/chat/completions",
            {"model": "m-1", "messages": messages},
            {"id": f"a-{number}", "choices": [{"index": 0, "message": said}]},
            headers=heads,
            identity=identity(number, f"{number:032x}"),
        )
    asks = agents.see_kind("LLM")
    assert [len(runs_of(agents)), len({one.span.trace_id for one in asks})] == (
        [1, 1] if is_run else [0, 2]
    )
    for number, one in enumerate(asks, 1):
        linked = (f"{number:032x}", "c" * 16) in [*map(tuple, one.span.links)]
        assert linked is is_run
        assert (one.span.parent_span_id == "c" * 16) is not is_run


def test_sub_agents_that_never_come_take_no_room(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5: results name them, and the newest are remembered; nothing of a run that is over is."""
    monkeypatch.setattr(launches, "MAX_CHILDREN", 3)
    monkeypatch.setattr(launches, "MAX_UNFINISHED", 2)
    told = launch(*(f"call_{n}" for n in range(5)))
    agents.call(user("Where?"), said=told, headers=claude())
    named = [result(f"call_{n}", LAUNCHED.format(f"a{n}")) for n in range(5)]
    agents.call(user("Where?"), told, *named, said=answer("I wait"), headers=claude())
    kept = agents.service.conversations.runs.launches
    assert (len(kept._children), [*map(len, kept._unfinished.values())]) == (3, [2])
    agents.now_ns += 2 * RUN_IDLE_SECONDS * SECOND_NS
    agents.service.commit()
    tables = (kept._runs, kept._agents, kept._prompts, kept._held, kept._unfinished)
    assert not any(tables)
