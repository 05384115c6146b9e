"""Claude Code starts sub-agents by the demo upstream's directions: the tree is that of its own log.

Two have one task, one starts another one, and all but that work in the background.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json_object
from tests.agents.quiet import keep_quiet
from tests.agents.tasks import BEFORE, NOTES
from tests.agents.test_tasks import WAYS, lead, skip_if_unordered
from tests.docs.provider import running_provider
from tests.docs.reader import run
from tests.e2e.processes import clean_environment, wait_until
from tests.lanes import find_agents
from tests.run_trees import SeenSpan, read_seen_spans

if TYPE_CHECKING:
    from pathlib import Path

    from codec.text.jsontext import JsonObject

pytestmark = pytest.mark.timeout(180)

Started = dict[str, tuple[str, str] | None]
"""What started each agent, which the id of its first answer stands for: the id of a tool call, and
the agent that made it; ``None`` for the main agent."""

_SECONDS = 20.0


def launch(prompt: str, **more: Any) -> str:
    """The direction that starts a sub-agent."""
    arguments = {"description": "look", "prompt": prompt, "subagent_type": "general-purpose"}
    return f"call Agent {json.dumps(arguments | more)}"


def read_log(home: Path) -> Started:
    """What Claude Code keeps: a file for each agent, and one that says how it was started."""
    [main] = home.glob(".claude/projects/*/*.jsonl")
    firsts = {"": read_first_answer(main)}
    tools: dict[str, tuple[str, str]] = {}
    for path in home.glob(".claude/projects/*/*/subagents/agent-*.jsonl"):
        agent = path.stem.removeprefix("agent-")
        told = decode_json_object(path.with_suffix(".meta.json").read_bytes())
        firsts[agent] = read_first_answer(path)
        tools[agent] = (told["toolUseId"], told.get("parentAgentId", ""))
    started: Started = {firsts[""]: None}
    for agent, (tool, parent) in tools.items():
        started[firsts[agent]] = (tool, firsts[parent])
    return started


def read_first_answer(path: Path) -> str:
    """The id of an agent's first answer."""
    lines: list[JsonObject] = [*map(decode_json_object, path.read_bytes().splitlines())]
    return str(next(line["message"]["id"] for line in lines if line["type"] == "assistant"))


def read_spans(store: Path) -> Started:
    """What the spans tell."""
    spans = {span.span_id: span for span in read_seen_spans(store)}
    firsts: dict[str | None, str] = {}
    for span in sorted(spans.values(), key=lambda one: one.start_ns):
        if span.kind == "LLM":
            firsts.setdefault(span.parent_id, span.attributes["gen_ai.response.id"])

    def find(agent: SeenSpan) -> tuple[str, str] | None:
        if agent.parent_id is None:
            return None
        tool = spans[agent.parent_id]
        assert tool.kind == "TOOL"
        return tool.attributes["tool_call.id"], firsts[tool.parent_id]

    agents = [span for span in spans.values() if span.kind == "AGENT"]
    return {firsts[agent.span_id]: find(agent) for agent in agents}


def count_runs(store: Path) -> int:
    """The AGENT spans."""
    return [span.kind for span in read_seen_spans(store)].count("AGENT")


@WAYS
async def test_the_tree_of_sub_agents_is_that_of_the_log(way: str, tmp_path: Path) -> None:
    """Each is below the tool call that started it, and the main agent has one run for all."""
    home, folder, store = tmp_path / "home", tmp_path / "task", tmp_path / "traces.db"
    folder.mkdir()
    (folder / NOTES).write_text(BEFORE, encoding="utf-8")
    path = json.dumps({"file_path": f"{folder}/{NOTES}"})
    look = f"Read the notes of the boat, and say what is in them.\ncall Read {path}"
    inner = f"Let another agent read the notes of the boat.\n{launch(look)}"
    question = ["Look around.", f"{launch(look)} &", launch(look), launch(inner)]
    environment = clean_environment() | keep_quiet(home)
    environment |= {
        "ANTHROPIC_API_KEY": "k",
        "PATH": os.pathsep.join([*map(str, find_agents("claude")), environment["PATH"]]),
        "QUESTION": "\n".join([*question, "And then tell me."]),
    }
    async with running_provider("openai") as provider:
        options = "--model claude-sonnet-4-5 --permission-mode acceptEdits"
        with lead(way, provider, tmp_path, "claude") as variables:
            command = f'$RUN claude -p "$QUESTION" {options}'
            await run(command, folder, environment | variables)
    log = read_log(home)
    assert len(log) == 5
    await asyncio.to_thread(
        wait_until, lambda: count_runs(store) == len(log), _SECONDS, "all runs are stored"
    )
    skip_if_unordered(store)
    assert read_spans(store) == log
