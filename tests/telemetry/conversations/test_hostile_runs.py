"""Runs of hostile calls: what is hidden stays so, and what cannot be written costs nothing else."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING

import pytest

from tests.telemetry.conversations.agents import Agents
from tests.telemetry.conversations.talks import answer, calls, result, user

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STRONG = "call_Xk29vQm4Tz81bLwP"
OFF = (("x-spantap-content", "off"),)
KEY = "sk-Secret0a1b2c3d4e5f6g7h8i9j"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spans.db"


@pytest.fixture
def agents(path: Path) -> Iterator[Agents]:
    with Agents(path) as opened:
        yield opened


def read_tables(path: Path) -> str:
    """All that the store's tables hold, in the words of Python."""
    tables = ("spans", "span_bytes", "parts", "links", "open_runs")
    with sqlite3.connect(path) as connection:
        return str([connection.execute(f"SELECT * FROM {one}").fetchall() for one in tables])


@pytest.mark.parametrize("odd", ["\ud800", "\0", "\udfff\ud83d", "é\ud83d"])
def test_what_is_no_text_costs_a_run_nothing(agents: Agents, odd: str) -> None:
    """In ids, names, arguments, questions, answers and results: the run goes on after a restart."""
    called = calls(STRONG + odd, "call_b", name=f"read{odd}")
    called["tool_calls"][0]["function"]["arguments"] = json.dumps({"path": odd})
    asked = user(f"Look{odd}")
    agents.call(asked, said=called)
    agents.start()
    told = (result(STRONG + odd, f"one{odd}"), result("call_b", odd))
    agents.call(asked, called, *told, said=answer(f"Both{odd}"))
    kinds = [str(one.columns.kind) for one in agents.see()]
    assert sorted(kinds) == ["AGENT", "LLM", "LLM", "TOOL", "TOOL"]


def test_the_ids_of_hidden_calls_are_hidden(agents: Agents, path: Path) -> None:
    """Rule 3: in the TOOL spans, too, as in those of the calls."""
    called = calls("call_classified")
    agents.call(user("Look"), said=called, headers=OFF)
    assert "classified" not in read_tables(path)
    agents.call(user("Look"), called, result("call_classified"), said=answer("Yes"))
    [tool] = agents.see_kind("TOOL")
    assert "tool_call.id" not in tool.span.attributes
    assert tool.span.attributes["output.value"] == "done"  # as the call shows it that has it


def test_credentials_are_in_nothing_of_a_run(agents: Agents, path: Path) -> None:
    """Wherever a model says them, and also where it calls a tool by them again and again."""
    called = calls(KEY, f"{KEY}2", "c", name=KEY)
    for one in called["tool_calls"]:
        one["function"]["arguments"] = json.dumps({"key": KEY})
    asked = user(f"Use {KEY}")
    agents.call(asked, said=called, key=KEY)
    assert KEY not in read_tables(path)
    told = [result(one, f"of {KEY}") for one in (KEY, f"{KEY}2", "c")]
    agents.call(asked, called, *told, said=answer(f"It is {KEY}"), key=KEY)
    assert len(agents.see_kind("TOOL")) == 3
    [agent] = agents.see_kind("AGENT")
    assert agent.metadata["usage"]["repeated_tool_calls"] == [{"times": 3}]
    assert KEY not in read_tables(path)
    assert not any(KEY in str(one) for one in agents.see())


def test_a_last_answer_that_is_hidden_is_no_earlier_one(agents: Agents) -> None:
    """The AGENT span has no answer then: what was said on the way was not it."""
    called = calls("call_a")
    agents.call(user("Look"), said={**called, "content": "I look into it"})
    told = ({**called, "content": "I look into it"}, result("call_a"))
    agents.call(user("Look"), *told, said=answer("secret"), headers=OFF)
    [agent] = agents.see_kind("AGENT")
    assert agent.metadata["ended_by"] == "answer"
    assert agent.span.attributes["input.value"] == "Look"
    assert "output.value" not in agent.span.attributes
