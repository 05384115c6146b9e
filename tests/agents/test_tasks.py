"""Coding agents do a task with the demo upstream by ``spantap run``: each of their calls is a span.

``make agents`` installs them by ``locks/agents.txt`` and ``tests/agents/node/package-lock.json``.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from codec.apis.table import find_api
from proxy.demo.script import MAX_QUOTED_CHARACTERS, write_script
from tests.agents.quiet import keep_quiet
from tests.agents.tasks import AFTER, BEFORE, GROK, NOTES, TASKS, Task
from tests.docs.provider import running_provider
from tests.docs.reader import read_calls, run
from tests.e2e.processes import clean_environment
from tests.e2e.spantap import PROGRAM
from tests.lanes import find_agents
from tests.run_trees import read_arguments, read_trees

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.reading.call import RecordedCall
    from proxy.reading.flat_messages import RecordedMessage
    from tests.agents.histories import History
    from tests.docs.provider import Arrival
    from tests.run_trees import Node

RUN = f"{PROGRAM} run --upstream {{upstream}} --store {{store}} --name {{name}} --"
"""The words that send an agent through spantap."""

pytestmark = pytest.mark.timeout(180)


def count_tokens(arrival: Arrival) -> tuple[int, int]:
    """The tokens that the demo upstream tells of a call: it counts every time the same."""
    api = find_api("POST", arrival.target)
    assert api is not None
    asked = api.decode_asked(arrival.body, arrival.target.partition("?")[0])
    script = write_script(asked, answer_id="", created=0)
    return script.prompt_tokens, sum(delta.tokens for delta in script.answers[0].deltas)


def tokens_of(call: RecordedCall) -> tuple[int | None, int | None]:
    """The tokens on a span."""
    return call.summary.prompt_tokens, call.summary.completion_tokens


def text_of(message: RecordedMessage) -> str:
    """The words of a message, as they follow one another."""
    return " ".join(part.text for part in message.parts if part.kind == "text")


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.agent)
async def test_an_agent_does_a_task(task: Task, tmp_path: Path) -> None:
    """The file is changed; API, model, tools, calls, results and counts are on the spans."""
    home, folder = tmp_path / "home", tmp_path / "task"
    store, told = tmp_path / "traces.db", tmp_path / "told"
    files = {folder / NOTES: BEFORE} | {home / name: text for name, text in task.files.items()}
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    environment = clean_environment() | keep_quiet(home) | task.variables
    environment |= {
        "PATH": os.pathsep.join([*map(str, find_agents(task.agent)), environment["PATH"]]),
        "QUESTION": task.question(folder),
    }
    async with running_provider("openai") as provider:
        environment["RUN"] = RUN.format(upstream=provider.url, store=store, name=task.agent)
        script = f"{task.command} 2> '{told}' || {{ cat '{told}' >&2; false; }}"
        printed = await run(script, folder, environment)
    calls = await asyncio.to_thread(read_calls, store, task.turns + task.asides)
    assert (folder / NOTES).read_text(encoding="utf-8") == AFTER
    logs = (told, store.with_name("traces.db.log"))
    said = "".join([log.read_text(encoding="utf-8") for log in logs])
    for words in (*task.said, f"spantap: {len(calls)} calls;"):
        assert words in said
    for call in calls:
        assert (call.span.name, call.summary.outcome) == (task.span_name, "completed")
        assert call.tags == (task.agent,)
        assert call.metadata.get("anomalies") is None
    assert sorted(map(tokens_of, calls)) == sorted(map(count_tokens, provider.arrivals))
    turns = [call for call in calls if call.tools or not task.steps]
    check_turns(task, turns, folder)
    if task.steps:
        named = {arrival.headers.get(task.session or "") for arrival in provider.arrivals}
        check_conversation(turns, None if task.session is None else named)
    trees = await asyncio.to_thread(read_trees, store, count_spans(task))
    runs = [tree for tree in trees if tree.kind == "AGENT"]
    # What it asks beside is a trace of its own, and so is each call of one without tools.
    assert len(trees) - len(runs) == (task.asides if task.steps else task.turns)
    assert len(runs) == (task.remember is not None)
    if task.remember is not None:
        assert task.question(folder) in runs[0].told[0]
        assert runs[0].told[1] == text_of(turns[-1].output_messages[-1])
        check_run(runs[0], task.remember(home, printed), task.turns)
    report = task.read(printed)
    assert text_of(turns[-1].output_messages[-1]).strip() in report.answer
    if report.tokens is not None:
        prompts, answers = zip(*map(tokens_of, turns), strict=True)
        assert report.tokens == (sum(prompts), sum(answers))


async def test_xai_s_grok_does_a_task(tmp_path: Path) -> None:
    """Grok's calls are seen with a key alone; the call that it leaves at its end is no failure.

    It is not in the lock, because ``npm ci`` wants its packages for other systems, which some
    registries lack: ``npm install @xai-official/grok@1.0.41`` in ``.agents/node`` adds it.
    """
    home, folder, store = tmp_path / "home", tmp_path / "task", tmp_path / "traces.db"
    folder.mkdir()
    (folder / NOTES).write_text(BEFORE, encoding="utf-8")
    environment = clean_environment() | keep_quiet(home) | GROK.variables
    async with running_provider("openai") as provider:
        environment |= {
            "PATH": os.pathsep.join([*map(str, find_agents("grok")), environment["PATH"]]),
            "QUESTION": GROK.question(folder),
            "RUN": RUN.format(upstream=provider.url, store=store, name="grok"),
        }
        await run(GROK.command, folder, environment)
    assert (folder / NOTES).read_text(encoding="utf-8") == AFTER
    calls = await asyncio.to_thread(read_calls, store, len(provider.arrivals))
    turns = [
        call
        for call in calls
        if (call.span.name, call.summary.outcome) == (GROK.span_name, "completed")
    ]
    assert len(turns) == GROK.turns
    called = [
        one for call in turns for message in call.output_messages for one in message.tool_calls
    ]
    assert [(one.name, read_arguments(one.arguments)) for one in called] == GROK.calls(folder)


def count_spans(task: Task) -> int:
    """The spans of all calls and tools, and that of the run."""
    return task.turns + task.asides + (len(task.steps) + 1 if task.steps else 0)


def check_run(agent: Node, history: History, turns: int) -> None:
    """Below it are its calls, and the tools that it remembers, with what they told."""
    ids = [node.told[0] for node in agent.below if node.kind == "LLM"]
    assert len(ids) == turns
    assert history.answers in ([], ids)
    assert agent.below[turns:] == tuple(sorted(history.tools, key=repr))


def check_turns(task: Task, turns: list[RecordedCall], folder: Path) -> None:
    """Each has the model, the tools, and all that was asked, said and told before it.

    Lists name it by the user's own words, and by what is new in it.
    """
    steps = task.calls(folder)
    for turn, before in zip(turns, [None, *turns[:-1]], strict=True):
        assert turn.summary.model == task.model
        assert {tool for tool, _ in steps} <= {tool.name for tool in turn.tools}
        if before is not None:
            asked = before.input_messages if task.steps else ()  # aider puts its own elsewhere
            assert turn.input_messages[: len(asked)] == asked
            said = {text_of(message).strip() for message in before.output_messages}
            assert said <= {text_of(message).strip() for message in turn.input_messages}
    for turn, (tool, _) in zip(turns[1:], steps, strict=bool(steps)):
        assert (turn.summary.columns.step or "").startswith(f"{tool} ✓")
        assert (turn.summary.columns.preview or "").startswith("Rename the boat.")
    outputs = [message for turn in turns for message in turn.output_messages]
    called = [call for message in outputs for call in message.tool_calls]
    assert [(call.name, read_arguments(call.arguments)) for call in called] == steps
    history = turns[-1].input_messages
    assert any(task.question(folder) in text_of(message) for message in history)
    results = [message for message in history if message.tool_call_id]
    assert [message.tool_call_id for message in results] == [call.id for call in called]
    answer = text_of(outputs[-1])
    assert all(text_of(message)[:MAX_QUOTED_CHARACTERS] in answer for message in results)


def check_conversation(turns: list[RecordedCall], named: set[str | None] | None) -> None:
    """All answer one word of the user's; the session is what the agent named, if it named one.

    Args:
        turns: the calls, oldest first.
        named: the sessions in the heads of all calls; ``None`` for an agent that names none.
    """
    places = {(call.summary.columns.conversation, call.summary.columns.turn) for call in turns}
    [(number, turn)] = places
    assert (number is not None, turn) == (True, 1)
    ids = [(call.span.trace_id, call.span.span_id) for call in turns]
    assert [call.span.links[:1] for call in turns] == [(), *((before,) for before in ids[:-1])]
    assert [call.metadata["conversation"]["call"] for call in turns] == [1, 2, 3]
    [session] = {call.summary.columns.session for call in turns}
    assert {session} == (named or {f"conv-{ids[0][1]}"})
