"""Frameworks for agents, each in its own environment: runs are what their own records say.

Haystack traces its agents, calls and tools; smolagents' agents remember their steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients.own_words import run_agents
from tests.docs.blocks import ROOT
from tests.lanes import find_programs
from tests.run_trees import tell_answer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.run_trees import Node

FRAMEWORKS = {
    "haystack": ("plain", "streamed"),
    "smolagents": ("plain", "streamed", "code"),
}
"""Each with the ways in which it calls; ``tests/clients/runs`` has its program."""


@pytest.mark.timeout(180)  # some of them take ten seconds to be imported
@pytest.mark.parametrize(
    ("framework", "way"), [(name, way) for name, ways in FRAMEWORKS.items() for way in ways]
)
async def test_the_run_of_a_framework_is_what_it_says_itself(
    framework: str, way: str, tmp_path: Path
) -> None:
    """The same calls, the same tools with arguments and results, sub-agents below their tool."""
    python = find_programs(f"frameworks/{framework}") / "python"
    did, seen = await run_agents(python, framework, way, tmp_path, tell_call=tell_answer)
    assert seen == did
    kinds = [node.kind for tree in did for node in walk(tree)]
    assert kinds.count("LLM") >= 2
    assert kinds.count("TOOL") >= 2


def test_every_locked_framework_is_run() -> None:
    """And none is forgotten that is added."""
    locked = {path.stem for path in (ROOT / "locks" / "frameworks").glob("*.txt")}
    assert locked == {*FRAMEWORKS}


def walk(tree: Node) -> Iterator[Node]:
    """A tree's nodes."""
    yield tree
    for node in tree.below:
        yield from walk(node)
