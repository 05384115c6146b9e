"""Frameworks for agents, each in its own environment: runs are what their own records say.

AutoGen returns messages, CrewAI and LlamaIndex have events, DSPy a history, smolagents' agents
remember their steps, Haystack and LangChain for Node trace, LangGraph calls back, and Instructor
calls hooks.
"""

from __future__ import annotations

import shutil
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json
from tests.clients.own_words import run_agents, run_program, write_command
from tests.docs.blocks import ROOT
from tests.docs.reader import read_calls
from tests.lanes import find_node_packages, find_programs
from tests.run_trees import read_seen_spans, tell_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.reading.call import RecordedCall
    from tests.run_trees import Node

FRAMEWORKS = {
    "autogen": ("plain", "streamed"),
    "crewai": ("plain", "streamed"),
    "dspy": ("plain",),
    "haystack": ("plain", "streamed"),
    "langgraph": ("plain", "streamed"),
    "llamaindex": ("plain", "streamed"),
    "smolagents": ("plain", "streamed", "code"),
}
"""Each with the ways in which it calls; ``tests/clients/runs`` has its program."""

_LANGCHAIN_JS = Path(__file__).with_name("runs") / "langchain_js.mjs"

pytestmark = pytest.mark.timeout(180)  # some of them take ten seconds to be imported


@pytest.mark.parametrize(
    ("framework", "way"), [(name, way) for name, ways in FRAMEWORKS.items() for way in ways]
)
async def test_the_run_of_a_framework_is_what_it_says_itself(
    framework: str, way: str, tmp_path: Path
) -> None:
    """The same calls, the same tools with arguments and results, sub-agents below their tool."""
    python = find_programs(f"frameworks/{framework}") / "python"
    command = write_command(python, framework, way)
    did, seen = await run_agents(command, tmp_path, tell_call=tell_answer)
    check_what_was_done(did, seen)


@pytest.mark.parametrize("way", ["plain", "streamed"])
async def test_the_run_of_a_framework_for_node_is_what_it_says_itself(
    way: str, tmp_path: Path
) -> None:
    """Likewise, by LangChain's tracer."""
    packages = find_node_packages("frameworks/langchain-js")
    (tmp_path / "node_modules").symlink_to(packages)
    program = shutil.copy(_LANGCHAIN_JS, tmp_path)
    did, seen = await run_agents(f"node '{program}' {way}", tmp_path, tell_call=tell_answer)
    check_what_was_done(did, seen)


@pytest.mark.parametrize("way", ["plain", "streamed"])
async def test_a_framework_that_asks_for_data_has_its_tries_in_one_conversation(
    way: str, tmp_path: Path
) -> None:
    """Each try of Instructor's is one call with its data, and in no run: it calls no tools."""
    python = find_programs("frameworks/instructor") / "python"
    tries, store = await run_program(write_command(python, "instructor", way), tmp_path)
    calls = read_calls(store, sum(map(len, tries)))
    conversations = groupby(calls, lambda call: call.summary.columns.conversation)
    assert [[tell_data(call) for call in of_one] for _, of_one in conversations] == tries
    kinds = [span.kind for span in read_seen_spans(store)]
    assert kinds.count("LLM") == len(calls)
    assert {*kinds} <= {"LLM", "CHAIN"}


def tell_data(call: RecordedCall) -> list[Any]:
    """The tool that an answer calls, or none, and the data in it."""
    [answer] = call.output_messages
    if answer.tool_calls:
        [called] = answer.tool_calls
        return [called.name, decode_json(called.arguments)]
    return [None, decode_json("".join(part.text or "" for part in answer.parts))]


def test_every_locked_framework_is_run() -> None:
    """And none is forgotten that is added."""
    locked = {path.stem for path in (ROOT / "locks" / "frameworks").glob("*.txt")}
    assert locked == {*FRAMEWORKS, "instructor"}


def check_what_was_done(did: list[Node], seen: list[Node]) -> None:
    """Trees are the same, and of more than one call and tool."""
    assert seen == did
    kinds = [node.kind for tree in did for node in walk(tree)]
    assert kinds.count("LLM") >= 2
    assert kinds.count("TOOL") >= 2


def walk(tree: Node) -> Iterator[Node]:
    """A tree's nodes."""
    yield tree
    for node in tree.below:
        yield from walk(node)
