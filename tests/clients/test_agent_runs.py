"""Agents of others' libraries: the trees of their runs are what the libraries' own traces tell.

The OpenAI Agents SDK keeps spans, LangChain calls back, Pydantic AI keeps messages with results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients.own_words import run_agents, write_command
from tests.lanes import find_programs

if TYPE_CHECKING:
    from pathlib import Path

    from tests.run_trees import Node


@pytest.mark.timeout(180)  # some of them take ten seconds to be imported
@pytest.mark.parametrize("way", ["plain", "streamed"])
@pytest.mark.parametrize(
    "agents",
    ["openai_sdk", "openai_sockets", "langchain_agents", "pydantic_agents", "pydantic_output"],
)
async def test_the_tree_of_a_run_is_what_the_agent_did(
    agents: str, way: str, tmp_path: Path
) -> None:
    """The same calls, the same tools with arguments and results, sub-agents below their tool.

    Also if the calls come over a WebSocket.
    """
    python = find_programs("clients") / "python"
    did, seen = await run_agents(write_command(python, agents, way), tmp_path)
    assert seen == did
    check_what_was_done(agents, did)


def check_what_was_done(agents: str, did: list[Node]) -> None:
    """It is what the test is about: two turns, tools at once, a sub-agent, a hand-over."""
    assert [one.kind for one in did[:2]] == ["AGENT", "AGENT"]
    tools = [node for node in did[0].below if node.kind == "TOOL"]
    assert len(tools) >= 2
    if agents == "pydantic_output":
        assert "final_result" in {tool.told[0] for tool in tools}
        return
    [sub_agent] = [node for tool in tools for node in tool.below]
    assert [node.kind for node in sub_agent.below] == ["LLM", "LLM", "TOOL", "TOOL"]
    handed_over = [tool for tool in tools if tool.told[0] == "transfer_to_skipper"]
    assert len(handed_over) == agents.startswith("openai")
