"""``spantap traces show conversation:N``: its turns, with what each call brought and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rich.text import Text

from proxy.commands.conversation_page import show_conversation
from telemetry.privacy.switches import read_privacy_switches
from telemetry.reading.stored_calls import open_calls
from telemetry.spans.rules import SpanRules
from telemetry.store.store import Store
from tests.proxy.terminals import terminal
from tests.proxy.traces_runs import Ran
from tests.telemetry.conversations.agents import TWO, TWO_RESULTS, Agents
from tests.telemetry.conversations.talks import answer, user
from tests.telemetry.run_rows import Run, make_agent_run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A conversation of two turns: a task with two tools, one of which failed, and a question."""
    first = make_agent_run(812)
    second = Run(900, begin_ms=60_000)
    second.call(0, 500, preview="And now?", turn=2, cost_usd=None, cost_gap="unknown_model")
    path = tmp_path / "t.db"
    with Store.open(path, delivers=False) as store:
        store.add([*first.rows, *second.rows])
    return path


def show(store: Path, word: str = "conversation:7") -> list[str]:
    """The lines of a conversation."""
    ran = Ran(store, call_id=word)
    assert (ran.status, ran.err) == (0, "")
    return ran.out.splitlines()


def test_a_conversation_is_shown_by_its_turns(store: Path) -> None:
    """Each with what the user said, where its time went, its sums, and a line for each call."""
    lines = show(store)
    assert lines[0] == "conversation 7  codex"
    assert "  took        model 5.15 s · tools 350 ms" in lines
    assert "  longest     gpt-5.1, 2.00 s (00000000)" in lines
    assert "  tools       3, 1 failed" in lines
    at = lines.index("turn 1  Fix the failing test")
    assert lines[at + 1 : at + 3] == [
        "  run:812; 5.00 s: model 4.65 s · tools 350 ms; 3 calls; 3 tools, 1 failed; $0.5",
        "  longest: gpt-5.1, 2.00 s (00000000)",
    ]
    calls = lines[at + 4 : lines.index("", at)]
    assert len(calls) == 3
    assert calls[0].split()[1:] == [
        "2.00",
        "s",
        "100",
        "80",
        "10",
        "$0.25",
        "→",
        "read_file,",
        "grep",
    ]
    at = lines.index("turn 2  And now?")
    assert lines[at + 1] == "  run:900; 500 ms: model 500 ms; 1 call"
    assert lines[-1].startswith("spantap traces show ID shows a call")


def test_a_conversation_that_is_not_there_is_told(store: Path) -> None:
    """With status 2, and where to find others; bodies are those of calls."""
    ran = Ran(store, call_id="conversation:9")
    assert (ran.status, ran.out) == (2, "")
    words = "there is no conversation 9. `spantap stats --by conversation` lists them."
    assert ran.err == f"spantap traces: {words}\n"
    assert Ran(store, call_id="conversation:7", raw=True).status == 2


def test_json_of_a_conversation_has_its_turns(store: Path) -> None:
    """Each with its sums, its times, and its rows with the members of any row."""
    (record,) = Ran(store, call_id="conversation:7", as_json=True).records
    assert (record["number"], record["calls"], record["complete"]) == (7, 4, True)
    first, second = record["turns"]
    assert (first["turn"], first["runs"], first["preview"]) == (1, [812], "Fix the failing test")
    assert (first["calls"], first["tools"], first["tool_errors"]) == (3, 3, 1)
    assert (first["time"]["model_ms"], first["time"]["tools_ms"]) == (4650.0, 350.0)
    assert first["time"]["longest"]["span_id"] == first["spans"][0]["span_id"]
    assert [span["kind"] for span in second["spans"]] == ["LLM"]
    (run,) = Ran(store, call_id="run:812", as_json=True).records
    assert run["time"] == first["time"]


def test_a_run_says_where_its_time_went(store: Path) -> None:
    """To the model or to tools, and which step took longest."""
    lines = show(store, "run:812")
    assert "  took        5.00 s: model 4.65 s · tools 350 ms" in lines
    assert "  longest     gpt-5.1, 2.00 s (00000000)" in lines


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_a_call_of_a_conversation_is_one_line(store: Path, width: int) -> None:
    """On any terminal; the tables of all turns have the same columns."""
    console, out = terminal(width)
    with open_calls(store) as reader:
        assert show_conversation(reader, 7, console, as_json=False)
    lines = Text.from_ansi(out.getvalue()).plain.splitlines()
    assert max(map(len, lines)) <= max(width, 80)
    titles = [line for line in lines if line.startswith("id ")]
    assert len(titles) == 1
    assert sum(line.startswith("0000") for line in lines) == 4


def test_hidden_words_are_not_in_a_conversation(tmp_path: Path) -> None:
    """The lines have what lists have: columns without what is hidden."""
    hidden = read_privacy_switches(
        {"OPENINFERENCE_HIDE_INPUTS": "true", "OPENINFERENCE_HIDE_OUTPUTS": "true"}
    )
    with Agents(tmp_path / "t.db", SpanRules(privacy=hidden)) as agents:
        agents.call(user("A secret"), said=TWO)
        agents.call(user("A secret"), TWO, *TWO_RESULTS, said=answer("Another secret"))
    assert "secret" not in "\n".join(show(tmp_path / "t.db", "conversation:1"))
