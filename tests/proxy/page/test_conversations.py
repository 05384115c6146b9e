"""``/api/conversations``: the list, bars with sub-agents, transcript and context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from proxy.page.api import conversation as bars_module
from telemetry.conversations.run import derive_span_id
from telemetry.reading.stored_calls import open_calls
from tests.proxy.page.serving import serve_api
from tests.telemetry.conversations.agents import TWO, TWO_RESULTS, Agents
from tests.telemetry.conversations.talks import answer, calls, result, user
from tests.telemetry.reading.asking import connection_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROMPT = "Find every place where the port is opened, and say which."
TASK = calls("call_a", name="task")
TASK["tool_calls"][0]["function"]["arguments"] = f'{{"prompt": "{PROMPT}"}}'
INNER = calls("call_x")


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    """A service whose calls are recorded."""
    with Agents(tmp_path / "t.db") as agents:
        yield agents


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where they are recorded."""
    return tmp_path / "t.db"


def talk(agents: Agents, word: str, turns: int) -> list[str]:
    """A conversation of so many turns; the ids of its calls."""
    messages: list[dict[str, Any]] = []
    ids = []
    for number in range(turns):
        messages.append(user(f"{word} asks for the {number}. time"))
        ids.append(agents.call(*messages, said=answer(f"{word} is told {number}")))
        messages.append(answer(f"{word} is told {number}"))
    return ids


def delegate(agents: Agents) -> list[str]:
    """An agent, its sub-agent of two calls, and its end; the ids of the calls."""
    first = agents.call(user("Where is it?"), said=TASK)
    inner = agents.call(user(PROMPT), said=INNER)
    last = agents.call(user(PROMPT), INNER, result("call_x"), said=answer("In main"))
    end = agents.call(user("Where is it?"), TASK, result("call_a", "In main"), said=answer("There"))
    return [first, inner, last, end]


async def test_the_one_with_the_newest_call_comes_first(agents: Agents, store: Path) -> None:
    """Sums are of all its calls, and a call alone is no run. Lone calls are listed if asked for."""
    talk(agents, "ann", 1)
    talk(agents, "bob", 3)
    talk(agents, "cid", 2)
    async with serve_api(store) as api:
        told = await api.get("conversations")
        assert [one["calls"] for one in told["conversations"]] == [2, 3]
        assert (told["next"], told["complete"]) == (None, True)
        bob = told["conversations"][1]
        assert (bob["runs"], bob["errors"], bob["prompt_tokens"]) == (0, 0, 9)
        assert (bob["preview"], bob["models"]) == ("bob asks for the 0. time", ["m-1"])
        assert bob["session"] is not None
        everything = await api.get("conversations", lone="true")
        assert [one["calls"] for one in everything["conversations"]] == [2, 3, 1]


async def test_pages_list_each_conversation_once(agents: Agents, store: Path) -> None:
    """One whose calls stand on both sides of a page's end is on the first page alone."""
    first = user("ann asks"), answer("ann is told")
    agents.call(first[0], said=first[1])
    talk(agents, "bob", 2)
    agents.call(*first, user("ann again"), said=answer("ok"))
    talk(agents, "cid", 2)
    async with serve_api(store) as api:
        found: list[str] = []
        before: int | None = None
        for _ in range(4):
            page = await api.get("conversations", limit=1, **({"before": before} if before else {}))
            found += [one["preview"].split()[0] for one in page["conversations"]]
            before = page["next"]
            if before is None:
                break
        assert (found, before) == (["cid", "ann", "bob"], None)


async def test_a_text_on_a_later_page_is_found_although_a_newer_call_lacks_it(
    agents: Agents, store: Path
) -> None:
    """A newer call that fits the conditions alone was not on an earlier page."""
    first = user("ann asks"), answer("ann is told")
    agents.call(first[0], said=first[1])
    agents.call(*first, user("a needle"), said=answer("ok"))
    talk(agents, "needle", 2)
    agents.call(*first, user("something else"), said=answer("ok"))
    async with serve_api(store) as api:
        page = await api.get("conversations", filter="needle", limit=1)
        assert [one["preview"].split()[0] for one in page["conversations"]] == ["needle"]
        rest = await api.get("conversations", filter="needle", limit=9, before=page["next"])
        assert "ann" in [one["preview"].split()[0] for one in rest["conversations"]]


async def test_a_filter_finds_conversations_by_one_of_their_calls(
    agents: Agents, store: Path
) -> None:
    """By columns, and by what was said; the sums are those of the whole."""
    agents.call(user("ann asks"), said=None)
    agents.call(user("ann asks"), said=answer("ann is told"))
    talk(agents, "bob", 3)
    async with serve_api(store) as api:
        failed = await api.get("conversations", filter="status:error")
        assert [(one["calls"], one["errors"]) for one in failed["conversations"]] == [(2, 1)]
        said = await api.get("conversations", filter='"bob is told 1"')
        assert [one["calls"] for one in said["conversations"]] == [3]


async def test_bars_have_calls_tools_and_sub_agents_in_their_places(
    agents: Agents, store: Path
) -> None:
    """L3: a sub-agent stands below the tool that called it, with its own run."""
    ids = delegate(agents)
    async with serve_api(store) as api:
        number = (await api.get(f"calls/{ids[0]}"))["conversation"]["number"]
        told = await api.get(f"conversations/{number}")
        inner = (await api.get(f"calls/{ids[1]}"))["conversation"]["number"]
        below = await api.get(f"conversations/{inner}")
        listed = (await api.get("calls", filter="kind:*"))["calls"]
    kinds = [(bar["kind"], bar["depth"]) for bar in told["bars"]]
    assert sorted(kinds) == sorted(
        [
            *[("AGENT", 0), ("LLM", 1), ("TOOL", 1), ("LLM", 1)],
            *[("AGENT", 2), ("LLM", 3), ("TOOL", 3), ("LLM", 3)],
        ]
    )
    assert told["left_out"] == 0
    assert told["next"] is None
    assert [run["calls"] for run in told["runs"]] == [2]
    assert [run["calls"] for run in told["sub_agents"]] == [2]
    rows = {one["span_id"]: one["what"] for one in listed}
    assert {bar["span_id"]: bar["what"] for bar in told["bars"]}.items() <= rows.items()
    assert all(rows.values())
    assert told["bars"][0]["start_ms"] == 0.0
    starts = [bar["start_ms"] for bar in told["bars"]]
    assert starts == sorted(starts)
    # The sub-agent's own conversation has none of the caller's rows.
    assert len(below["bars"]) == 4
    assert {bar["run"] for bar in below["bars"]} == {below["runs"][0]["run"]}


async def test_a_sub_agent_is_there_before_its_tool_has_a_row(agents: Agents, store: Path) -> None:
    """Of a run that goes on: its sub-agent of one call stands below it, and it has no agent yet."""
    first = agents.call(user("Where is it?"), said=TASK)
    child = agents.call(user(PROMPT), said=answer("In main"))
    async with serve_api(store) as api:
        number = (await api.get(f"calls/{first}"))["conversation"]["number"]
        told = await api.get(f"conversations/{number}")
        assert [(bar["span_id"], bar["depth"]) for bar in told["bars"]] == [(first, 1), (child, 2)]
        assert told["bars"][1]["parent_span_id"] == derive_span_id(first, "tool 0")
        assert [run["open"] for run in told["runs"]] == [True]
        newer = await api.get(f"conversations/{number}", after=told["bars"][0]["seq"])
        assert [bar["span_id"] for bar in newer["bars"]] == [child]


async def test_bars_are_capped_and_what_is_left_out_is_told(
    agents: Agents, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L3: the rest comes with ``after``."""
    monkeypatch.setattr(bars_module, "MAX_BARS", 3)
    delegate(agents)
    async with serve_api(store) as api:
        told = await api.get("conversations/1")
        assert (len(told["bars"]), told["left_out"]) == (3, 5)
        more = await api.get("conversations/1", after=told["next"])
        assert (len(more["bars"]), more["left_out"]) == (3, 2)
        last = await api.get("conversations/1", after=more["next"])
        assert (len(last["bars"]), last["left_out"], last["next"]) == (2, 0, None)
        assert (await api.ask("conversations/99")).status == 404
        assert (await api.ask("conversations/x")).status == 404


async def test_a_transcript_tells_each_word_once(agents: Agents, store: Path) -> None:
    """What a call added, without the answer of the one before, which was told as that."""
    system = {"role": "system", "content": "Be brief."}
    agents.call(system, user("Fix it"), said=TWO)
    agents.call(system, user("Fix it"), TWO, *TWO_RESULTS, said=answer("Done"))
    agents.call(
        system, user("Fix it"), TWO, *TWO_RESULTS, answer("Done"), user("Why?"), said=answer("So")
    )
    async with serve_api(store) as api:
        told = await api.get("conversations/1/transcript")
        assert [[head["role"] for head in turn["new"]] for turn in told["turns"]] == [
            ["system", "user"],
            ["tool", "tool"],
            ["user"],
        ]
        assert [[head["index"] for head in turn["new"]] for turn in told["turns"]] == [
            [0, 1],
            [3, 4],
            [6],
        ]
        answers = [turn["answer"][0]["parts"] for turn in told["turns"]]
        assert [parts[0]["preview"] if parts else "" for parts in answers] == ["", "Done", "So"]
        assert [turn["turn"] for turn in told["turns"]] == [1, 1, 2]
        assert told["next"] is None
        first = await api.get("conversations/1/transcript", limit=1)
        rest = await api.get("conversations/1/transcript", after=first["next"])
        assert first["turns"] + rest["turns"] == told["turns"]


async def test_the_context_is_told_by_parts(agents: Agents, store: Path) -> None:
    """Tokens of the prompt as counted, and an estimate of how they divide, where a run has one."""
    agents.call(user("Fix it"), said=TWO)
    agents.call(user("Fix it"), TWO, *TWO_RESULTS, said=answer("Done"))
    talk(agents, "ann", 2)
    async with serve_api(store) as api:
        told = await api.get("conversations/1/context")
        plain = await api.get("conversations/3/context")
    assert [one["prompt_tokens"] for one in told["points"]] == [3, 3]
    for point in told["points"]:
        assert {*point["parts"]} == {"system", "tools", "history", "new"}
        assert sum(point["parts"].values()) == 3
    assert {one["compacted"] for one in told["points"]} == {False}
    assert told["next"] is None
    assert [one["parts"] for one in plain["points"]] == [None, None]


async def test_the_rows_of_a_conversation_are_found_by_their_index(
    agents: Agents, store: Path
) -> None:
    """No read goes through all rows, however many there are."""
    talk(agents, "ann", 2)
    with open_calls(store) as reader:
        for where in (
            "conversation = ? AND seq > 5 ORDER BY seq LIMIT 7",
            "conversation = ? AND seq < 5 AND kind = 'LLM' ORDER BY seq DESC LIMIT 1",
        ):
            plan = (
                connection_of(reader)
                .execute(f"EXPLAIN QUERY PLAN SELECT * FROM spans WHERE {where}", (1,))
                .fetchall()
            )
            assert "spans_by_conversation" in str(plan)
            assert "TEMP B-TREE" not in str(plan)
