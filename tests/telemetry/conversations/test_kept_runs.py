"""Open runs over a restart, a deletion, and a row that the store refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from telemetry.conversation_position import ConversationForm
from telemetry.conversations.run import RUN_IDLE_SECONDS, derive_span_id
from telemetry.spans.rules import SpanRules
from tests.telemetry.conversations.agents import SECOND_NS, TWO, TWO_RESULTS, Agents, by_kind, look
from tests.telemetry.conversations.talks import answer, calls, result, user

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


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
    """Its tools get their results, its AGENT span is whole, and it is one."""
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


def test_runs_that_were_deleted_are_not_gathered(tmp_path: Path) -> None:
    """R5: nobody looks for runs any more, and their numbers are let go all the same."""
    path = tmp_path / "spans.db"
    with Agents(path) as agents:
        agents.call(user("Look"), said=TWO)
    with Agents(path, SpanRules(conversations=ConversationForm.OFF)) as agents:
        agents.delete_all()
        assert not agents.service._store.pop_deleted_runs()
