"""``/api/failures``, and failed tools in calls and transcripts: named, with their errors."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from proxy.reading import failures
from proxy.reading.tool_results import MAX_LINE_CHARS, summarize_error
from telemetry.store.store import Store
from tests.proxy.page.serving import serve_api
from tests.telemetry.conversations.agents import Agents
from tests.telemetry.run_rows import Run
from tests.telemetry.test_canary import rules_of

if TYPE_CHECKING:
    from pathlib import Path

REMINDER = "<system-reminder>Mind the gap.</system-reminder>"
ASKED = {
    "role": "user",
    "content": [{"type": "text", "text": REMINDER}, {"type": "text", "text": "Fix it"}],
}
IDS = tuple(f"toolu_01AbCdEfGhIjKlMn{number}" for number in range(4))
ERROR = "Exit code 1\nFAILED test_total\nE  assert 1 == 2"


def use(number: int, command: str) -> dict[str, Any]:
    """An answer that calls a shell."""
    call = {"type": "tool_use", "id": IDS[number], "name": "Bash", "input": {"command": command}}
    return {"role": "assistant", "content": [call]}


def give(number: int, text: str, *, failed: bool = False) -> dict[str, Any]:
    """Its result."""
    block = {"type": "tool_result", "tool_use_id": IDS[number], "content": text}
    return {"role": "user", "content": [block | ({"is_error": True} if failed else {})]}


STEPS = (
    (use(0, "pytest"), give(0, ERROR, failed=True)),
    (use(1, "cat none"), give(1, '{"error": "no such file\\nnone"}', failed=True)),
    (use(2, "pytest"), give(2, "2 passed")),
)


def repair(path: Path, *switches: str) -> list[str]:
    """A run whose first two tools fail; the first one is tried again. The ids of its calls."""
    messages: list[dict[str, Any]] = [ASKED]
    done = {"role": "assistant", "content": [{"type": "text", "text": "Done"}]}
    ids: list[str] = []
    with Agents(path, rules_of(*switches)) as agents:
        for said in (*(said for said, _ in STEPS), done):
            asked = {"model": "m", "max_tokens": 9, "messages": messages}
            told = {"type": "message", "id": f"msg_{len(ids)}", "model": "m", **said}
            told["stop_reason"] = "tool_use" if said is not done else "end_turn"
            ids.append(agents.exchange("messages", "/v1/messages", asked, told))
            messages = [*messages, said, *(given for use, given in STEPS if use is said)]
    return ids


@pytest.mark.parametrize("scope", [{"run": 1}, {"filter": "conversation:1"}, {}])
async def test_failed_steps_have_an_error_a_call_and_a_correction(
    tmp_path: Path, scope: dict[str, Any]
) -> None:
    """The newest comes first; a step is corrected if the same one succeeded later."""
    ids = repair(tmp_path / "t.db")
    async with serve_api(tmp_path / "t.db") as api:
        told = await api.get("failures", **scope)
    assert told["next"] is None
    other, tests = told["failures"]
    assert (tests["what"], tests["call"]) == ("Bash pytest", ids[0])
    assert tests["error"] == "FAILED test_total"
    assert tests["corrected_by"] == {
        "span_id": tests["corrected_by"]["span_id"],
        "kind": "TOOL",
        "what": "Bash pytest",
        "is_same": True,
    }
    assert (other["what"], other["call"]) == ("Bash cat none", ids[1])
    assert other["error"] == "no such file"
    assert other["corrected_by"]["is_same"] is False


async def test_a_failed_call_is_corrected_by_the_next_one(tmp_path: Path) -> None:
    """The error is the provider's; a call in no conversation is corrected by none."""
    with Agents(tmp_path / "t.db") as agents:
        failed = agents.call({"role": "user", "content": "Hi"}, said=None)
        agents.call(
            {"role": "user", "content": "Hi"}, said={"role": "assistant", "content": "Hello"}
        )
    async with serve_api(tmp_path / "t.db") as api:
        (told,) = (await api.get("failures"))["failures"]
    assert (told["span_id"], told["call"], told["kind"]) == (failed, failed, "LLM")
    assert "down" in told["error"]


async def test_a_step_is_corrected_far_behind_the_first_failure(tmp_path: Path) -> None:
    """In a long conversation each failed step is looked at with the rows behind it."""
    run = Run(1, conversation=7)
    for at in range(2_000):
        if at % 900 == 0:
            run.call(10 * at, 5, "bash")
            run.tool("bash", 10 * at + 5, 2, failed=True)
        else:
            run.tool("bash" if at % 900 == 1 else "read", 10 * at, 2)
    with Store.open(tmp_path / "t.db", delivers=False) as store:
        store.add([replace(row, recorded_ns=row.end_ns) for row in run.rows])
    async with serve_api(tmp_path / "t.db") as api:
        told = (await api.get("failures"))["failures"]
    assert len(told) == 3
    assert all(one["call"] and one["corrected_by"]["is_same"] for one in told)


async def test_the_steps_of_a_sub_agent_are_not_those_of_its_agent(tmp_path: Path) -> None:
    """They share a trace; the list of the agent's run has both."""
    agent = Run(1, conversation=7)
    agent.call(0, 5, "read", "task")
    agent.tool("read", 5, 90, failed=True)
    task = agent.tool("task", 5, 90)
    sub_agent = Run(2, trace_id=agent.trace_id, conversation=8, begin_ms=10)
    sub_agent.call(0, 5, "bash")
    sub_agent.tool("bash", 5, 10, failed=True)
    sub_agent.agent(30, parent_span_id=task.span_id)
    call, *tools = agent.rows
    rows = [call, *sub_agent.rows, *tools]
    with Store.open(tmp_path / "t.db", delivers=False) as store:
        store.add([replace(row, recorded_ns=row.end_ns) for row in rows])
    async with serve_api(tmp_path / "t.db") as api:
        own = (await api.get("failures", run=2))["failures"]
        both = (await api.get("failures", run=1))["failures"]
    assert [one["run"] for one in own] == [2]
    assert [one["run"] for one in both] == [1, 2]


async def test_results_are_named_and_say_whether_their_tool_failed(tmp_path: Path) -> None:
    """In a call as in the transcript; errors have real line breaks, and unfailed ones none."""
    ids = repair(tmp_path / "t.db")
    async with serve_api(tmp_path / "t.db") as api:
        call = await api.get(f"calls/{ids[-1]}")
        script = await api.get("conversations/1/transcript")
    results = [one for one in call["messages"] if one["role"] == "tool"]
    told = [(one["step"], one["failed"], one["error"]) for one in results]
    assert told == [
        ("Bash pytest", True, ERROR),
        ("Bash cat none", True, "no such file\nnone"),
        ("Bash pytest", False, None),
    ]
    new = [head for turn in script["turns"] for head in turn["new"] if head["role"] == "tool"]
    assert [(one["step"], one["failed"], one["error"]) for one in new] == told
    (asked,) = (one for one in call["messages"] if one["role"] == "user")
    assert [part["own"] for part in asked["parts"]] == ["", None]


@pytest.mark.parametrize(
    "text", ["<" + "error" * 100_000, "<error>" + "</error>" * 50_000 + "x", "error\n" * 100_000]
)
def test_a_long_error_is_one_short_line_at_once(text: str) -> None:
    """Whatever a tool said, the time grows with its length, and the line does not."""
    begin = time.process_time()
    line = summarize_error(text)
    assert time.process_time() - begin < 2
    assert line is not None
    assert len(line) <= MAX_LINE_CHARS


async def test_a_failed_tool_has_its_words_as_its_error(tmp_path: Path) -> None:
    """It is not said to be completed."""
    repair(tmp_path / "t.db")
    async with serve_api(tmp_path / "t.db") as api:
        newest, _ = (await api.get("failures"))["failures"]
        tool = await api.get(f"calls/{newest['span_id']}")
    assert tool["error"] == {"type": None, "message": "no such file\nnone"}
    assert tool["conversation"]["run_place"] == tool["conversation"]["runs"] == 1


async def test_hidden_results_have_no_error(tmp_path: Path) -> None:
    """What is hidden is in no list."""
    ids = repair(tmp_path / "t.db", "HIDE_INPUTS")
    async with serve_api(tmp_path / "t.db") as api:
        found = await api.ask("failures")
        call = await api.ask(f"calls/{ids[-1]}")
    assert len(found.json["failures"]) == 2
    for answer in (found, call):
        assert b"FAILED" not in answer.body
        assert b"Fix it" not in answer.body


async def test_a_call_that_failed_is_corrected_by_its_own_run_alone(tmp_path: Path) -> None:
    """Another run of the conversation goes on although a sub-agent's call failed for good."""
    agent, helper, other = Run(1), Run(2, begin_ms=10), Run(3, begin_ms=20)
    agent.call(0, 5, "task")
    for run in (helper, other):
        run.call(0, 5, status="ERROR")
    other.call(6, 5)
    agent.call(100, 5)
    rows = sorted((*agent.rows, *helper.rows, *other.rows), key=lambda row: row.end_ns)
    with Store.open(tmp_path / "t.db", delivers=False) as store:
        store.add([replace(row, recorded_ns=row.end_ns) for row in rows])
    async with serve_api(tmp_path / "t.db") as api:
        told = (await api.get("failures"))["failures"]
    assert [(one["run"], one["corrected_by"] is not None) for one in told] == [
        *((3, True), (2, False))
    ]


async def test_much_beside_failed_steps_comes_in_several_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer reads beyond a bound; the next one continues."""
    monkeypatch.setattr(failures, "MOST_ROWS", 3)
    rows = []
    for number in range(1, 6):
        run = Run(number, conversation=number, begin_ms=100 * number)
        run.call(0, 5, "bash")
        run.tool("bash", 5, 2, failed=True)
        rows += run.rows
    with Store.open(tmp_path / "t.db", delivers=False) as store:
        store.add([replace(row, recorded_ns=row.end_ns) for row in rows])
    seen: list[int] = []
    answers, before = 0, {"before": 1_000_000}
    async with serve_api(tmp_path / "t.db") as api:
        while before["before"]:
            told = await api.get("failures", **before)
            seen += [one["run"] for one in told["failures"]]
            before, answers = {"before": told["next"] or 0}, answers + 1
    assert seen == [5, 4, 3, 2, 1]
    assert answers > 2
