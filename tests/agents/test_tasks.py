"""Coding agents do a task with the demo upstream by ``spantap run``: each of their calls is a span.

Each does it twice: by a base URL, and by interception, where it calls its provider by name.
``make agents`` installs them by ``locks/agents.txt`` and ``tests/agents/node/package-lock.json``.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from codec.apis.table import find_api
from codec.compared_text import BILLING_MARK
from proxy.demo.script import MAX_QUOTED_CHARACTERS, write_script
from telemetry.reading.stored_calls import open_calls
from telemetry.spans.otlp.decoding import decode_spans
from tests.agents.histories import read_codex_session
from tests.agents.quiet import end_left, keep_quiet
from tests.agents.tasks import (
    AFTER,
    BEFORE,
    CODEX_BY_SOCKET,
    CODEX_OWN,
    CODEX_OWN_BY_SOCKET,
    GROK,
    NOTES,
    TASKS,
    Task,
)
from tests.docs.provider import running_provider
from tests.docs.reader import read_calls, run
from tests.e2e.processes import clean_environment
from tests.e2e.spantap import PROGRAM
from tests.lanes import find_agents
from tests.proxy.outside import outside
from tests.run_trees import read_arguments, read_trees

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from proxy.reading.call import RecordedCall
    from proxy.reading.flat_messages import RecordedMessage
    from tests.agents.histories import History
    from tests.docs.provider import Arrival, Provider
    from tests.run_trees import Node

BASE_URL, INTERCEPT = "base URL", "intercept"
WAYS = pytest.mark.parametrize("way", [BASE_URL, INTERCEPT])
"""The ways by which an agent's calls come to spantap."""

_MAX_SPANS = 1_000
_NEAR_NS = 20_000_000

pytestmark = pytest.mark.timeout(180)


@contextlib.contextmanager
def lead(way: str, provider: Provider, folder: Path, name: str) -> Iterator[dict[str, str]]:
    """Yield variables, of which ``RUN`` has the words that send an agent through spantap.

    Spans go to ``traces.db`` in the folder.
    """
    run = f"{PROGRAM} run --store {folder}/traces.db --name {name}"
    if way == BASE_URL:
        yield {"RUN": f"{run} --upstream {provider.url} --"}
    else:
        with outside(int(provider.url.rpartition(":")[2]), folder) as (_, variables):
            yield variables | {"RUN": f"{run} --intercept --"}


def skip_if_unordered(store: Path) -> None:
    """Skip unless calls were recorded in the order in which they ended, as clocks can tell."""
    with open_calls(store).all_rows() as reader:
        spans = [decode_spans(one.span)[0] for one in reader.newest(_MAX_SPANS)]
    ends = [span.end_ns for span in spans if span.attributes["openinference.span.kind"] == "LLM"]
    if any(one > other + _NEAR_NS for one, other in itertools.pairwise(ends)):
        pytest.skip("this machine is busy: a call was recorded after one that continues it")


def find_lasting(call: RecordedCall) -> list[RecordedMessage]:
    """The messages that a call asks, without what Claude Code writes anew into each request."""
    return [
        replace(one, parts=tuple(part for part in one.parts if BILLING_MARK not in part.text))
        for one in call.input_messages
    ]


def find_arrived(provider: Provider) -> list[Arrival]:
    """The calls that came to a provider by HTTP: an agent sends its own host more than those."""
    return [
        one
        for one in provider.arrivals
        if not one.is_socket and find_api("POST", one.target) is not None
    ]


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


@WAYS
@pytest.mark.parametrize(
    "task",
    [*TASKS, CODEX_OWN, CODEX_BY_SOCKET, CODEX_OWN_BY_SOCKET],
    ids=[
        *(task.agent for task in TASKS),
        "codex with its own model",
        "codex by a WebSocket",
        "codex with its own model by a WebSocket",
    ],
)
async def test_an_agent_does_a_task(task: Task, way: str, tmp_path: Path) -> None:
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
        with lead(way, provider, tmp_path, task.agent) as variables:
            script = f"{task.command} 2> '{told}' || {{ cat '{told}' >&2; false; }}"
            printed = await run(script, folder, environment | variables)
            end_left(home)
    arrived = find_arrived(provider)
    calls = await asyncio.to_thread(read_calls, store, task.turns + task.asides)
    assert (folder / NOTES).read_text(encoding="utf-8") == AFTER
    logs = (told, store.with_name("traces.db.log"))
    said = "".join([log.read_text(encoding="utf-8") for log in logs])
    for words in (
        f"spantap: {len(calls)} calls;",
        *(task.said if way == BASE_URL else ("spantap: opened: ", f"{task.host} (")),
    ):
        assert words in said
    for call in calls:
        assert (call.span.name, call.summary.outcome) == (task.span_name, "completed")
        assert call.tags == (task.agent,)
        assert call.metadata.get("anomalies") is None
    if task.by_socket:
        assert not arrived
        assert "econnecting" not in printed + said
    else:
        assert sorted(map(tokens_of, calls)) == sorted(map(count_tokens, arrived))
    mains = [call for call in calls if call.summary.columns.purpose != "prewarm"]
    turns = [call for call in mains if call.tools or not task.steps]
    await asyncio.to_thread(skip_if_unordered, store)
    check_turns(task, turns, folder)
    if task.steps:
        named = {arrival.headers.get(task.session or "") for arrival in arrived}
        if task.by_socket:
            named = {read_codex_session(home).id}
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


@WAYS
async def test_xai_s_grok_does_a_task(way: str, tmp_path: Path) -> None:
    """Grok's calls are seen with a key alone; the call that it leaves at its end is no failure.

    It is not in the lock, because ``npm ci`` wants its packages for other systems, which some
    registries lack: ``npm install @xai-official/grok@1.0.41`` in ``.agents/node`` adds it.
    """
    home, folder, store = tmp_path / "home", tmp_path / "task", tmp_path / "traces.db"
    folder.mkdir()
    (folder / NOTES).write_text(BEFORE, encoding="utf-8")
    environment = clean_environment() | keep_quiet(home) | GROK.variables
    environment |= {
        "PATH": os.pathsep.join([*map(str, find_agents("grok")), environment["PATH"]]),
        "QUESTION": GROK.question(folder),
    }
    async with running_provider("openai") as provider:
        with lead(way, provider, tmp_path, "grok") as variables:
            await run(GROK.command, folder, environment | variables)
    assert (folder / NOTES).read_text(encoding="utf-8") == AFTER
    calls = await asyncio.to_thread(read_calls, store, len(find_arrived(provider)))
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
        assert task.model in {None, turn.summary.model}
        assert {tool for tool, _ in steps} <= {tool.name for tool in turn.tools}
        if before is not None:
            asked = find_lasting(before) if task.steps else []  # aider puts its own elsewhere
            assert find_lasting(turn)[: len(asked)] == asked
            said = {text_of(message).strip() for message in before.output_messages}
            assert said <= {text_of(message).strip() for message in turn.input_messages}
    for turn, (tool, _) in zip(turns[1:], steps, strict=bool(steps)):
        assert (turn.summary.columns.step or "").startswith(f"{tool} ✓")
        assert (turn.summary.columns.preview or "").startswith("Rename the boat.")
    outputs = [message for turn in turns for message in turn.output_messages]
    called = [call for message in outputs for call in message.tool_calls]
    for call, (tool, arguments) in zip(called, steps, strict=True):
        assert call.name == tool
        free_text = {"input": arguments}  # how spans of Responses have it
        assert read_arguments(call.arguments) in (arguments, free_text)
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
