"""``spantap traces show`` of a call in a conversation: what is new in it, and where it stands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from telemetry.privacy.switches import read_privacy_switches
from telemetry.spans.rules import SpanRules
from tests.proxy.traces_runs import Ran
from tests.telemetry.conversations.agents import Agents
from tests.telemetry.conversations.talks import answer, user

if TYPE_CHECKING:
    from pathlib import Path

REMINDER = "<system-reminder>\nMind the gap.\n</system-reminder>"
SYSTEM = {"role": "system", "content": "Be brief.\nBe kind."}
LONG = "\n".join(f"line {at}" for at in range(1, 101))
LOUD = "Exit code 1\n\nE   assert 1 == 2"
READ = {"type": "tool_use", "id": "toolu_read_0123456789", "name": "Read"}
BASH = {"type": "tool_use", "id": "toolu_bash_0123456789", "name": "Bash"}


def told(call: dict[str, Any], text: str, *, failed: bool = False) -> dict[str, Any]:
    """The result of a call."""
    block = {"type": "tool_result", "tool_use_id": call["id"], "content": text}
    return block | ({"is_error": True} if failed else {})


class Coder:
    """A coding agent that speaks Messages, and adds each step to its history."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self.messages: list[dict[str, Any]] = []
        self.calls: list[str] = []

    def ask(self, *asked: object, said: list[dict[str, Any]], status: int = 200) -> str:
        """Say this, and get that answer; return the id of the call."""
        if asked:
            self.messages.append({"role": "user", "content": [*asked]})
        body = {"model": "m", "max_tokens": 9, "system": "Be brief.", "messages": self.messages}
        usage = {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 5}
        told: dict[str, Any] = {"id": "m", "type": "message", "role": "assistant", "model": "m"}
        told |= {"content": said, "stop_reason": "end_turn", "usage": usage}
        call = self._agents.exchange("messages", "/v1/messages", body, told, status=status)
        if status == 200:
            self.messages.append({"role": "assistant", "content": said})
        self.calls.append(call)
        return call


def text(words: str) -> dict[str, Any]:
    """A text of a message."""
    return {"type": "text", "text": words}


@pytest.fixture
def coder(tmp_path: Path) -> Coder:
    """A task of three calls: a file is read, a command fails, and the agent says so."""
    with Agents(tmp_path / "t.db") as agents:
        coder = Coder(agents)
        reads = READ | {"input": {"file_path": "/home/ann/store.py"}}
        runs = BASH | {"input": {"command": "pytest -q"}}
        coder.ask(text(REMINDER), text("Fix it"), said=[text("I look."), reads])
        coder.ask(told(READ, LONG), said=[runs])
        coder.ask(told(BASH, LOUD, failed=True), said=[text("It fails.")])
    return coder


def show(folder: Path, call: str, **options: Any) -> list[str]:
    """The lines of a call."""
    ran = Ran(folder / "t.db", call_id=call, **options)
    assert (ran.status, ran.err) == (0, "")
    return ran.out.splitlines()


def part(lines: list[str], title: str) -> list[str]:
    """The lines below a title."""
    at = lines.index(title) + 1
    return lines[at : lines.index("", at)]


def test_a_call_begins_with_what_is_new_and_its_answer(tmp_path: Path, coder: Coder) -> None:
    """What the call before had is a line: how many messages, how long, how much was cached."""
    lines = show(tmp_path, coder.calls[2])
    titles = [line for line in lines[1:] if line and not line.startswith(" ")]
    assert titles[:4] == ["new", "answer", "before", "call"]
    assert lines[lines.index("new") + 1] == "  tool  Bash pytest -q ✗  toolu_bash_0123456789"
    assert "    E   assert 1 == 2" in lines
    assert part(lines, "answer") == ["  assistant", "    It fails."]
    second = coder.calls[1][:8]
    size = len(REMINDER) + len("Fix it") + len("I look.") + len(LONG)
    size += len('{"file_path":"/home/ann/store.py"}') + len('{"command":"pytest -q"}')
    assert part(lines, "before") == [
        "  system  Be brief.",
        f"  4 messages, {size} characters, as in {second} and its answer",
        "  90 of the request's 100 tokens came from the provider's cache",
        f"  (all of it: spantap traces show {coder.calls[2][:8]} --full)",
    ]
    assert not any("Fix it" in line for line in part(lines, "new"))


def test_full_shows_everything_in_its_order(tmp_path: Path, coder: Coder) -> None:
    """Nothing is folded or cut; results have their names."""
    lines = show(tmp_path, coder.calls[2], whole=True)
    assert "before" not in lines
    assert lines.index("    Mind the gap.") < lines.index("    line 50") < lines.index("answer")
    assert "  tool  Read store.py ✓  toolu_read_0123456789" in lines


def test_what_an_agent_added_is_a_line(tmp_path: Path, coder: Coder) -> None:
    """The user's own words are whole beside it."""
    lines = show(tmp_path, coder.calls[0])
    at = lines.index("  user")
    assert lines[at + 1 : at + 3] == [
        "    <system-reminder>  (+ 2 lines, 31 characters)",
        "    Fix it",
    ]


def test_a_long_result_has_its_beginning_and_its_end(tmp_path: Path, coder: Coder) -> None:
    """With the tool's name and argument, and that it did not fail."""
    lines = part(show(tmp_path, coder.calls[1]), "new")
    assert lines[0] == "  tool  Read store.py ✓  toolu_read_0123456789"
    assert lines[1] == "    line 1"
    assert "    (+ 80 lines, 641 characters: --full)" in lines
    assert lines[-1] == "    line 100"
    assert len(lines) == 22


def test_a_long_argument_is_cut(tmp_path: Path) -> None:
    """Such as a file that the call writes; what the model says is whole, and so is all of it."""
    content = "line\n" * 200
    writes = BASH | {"name": "Write", "input": {"content": content}}
    said = f"{REMINDER} {LONG}"
    with Agents(tmp_path / "t.db") as agents:
        call = Coder(agents).ask(text("Write"), said=[text(said), writes])
    lines = show(tmp_path, call)
    assert any(line.endswith("  (+ 815 characters: --full)") for line in lines)
    assert {"    line 50", "    Mind the gap."} <= {*lines}
    assert not any("--full" in line for line in show(tmp_path, call, whole=True))


def test_a_call_says_where_it_stands_and_how_to_go_on(tmp_path: Path, coder: Coder) -> None:
    """Its place in run and conversation, and what stands before and behind it."""
    first, _, third = (one[:8] for one in coder.calls)
    lines = show(tmp_path, coder.calls[1])
    assert lines[2:6] == [
        "  place       call 2 of 3 of run:1, 2 of 3 of conversation:1",
        f"  before      {first}  Fix it",
        f'  after       {third}  Bash ✗ → "It fails."',
        "  see also    spantap traces show run:1, spantap traces show conversation:1",
    ]


def test_a_failed_tool_is_headed_failed(tmp_path: Path, coder: Coder) -> None:
    """With the calls before and behind it, and the lines of its error."""
    with_tools = Ran(tmp_path / "t.db", words=("kind:tool", "status:error"), as_json=True)
    (tool,) = with_tools.span_ids
    lines = show(tmp_path, tool)
    _, second, third = (one[:8] for one in coder.calls)
    assert lines[0] == "Bash pytest -q  failed"
    assert lines[2:5] == [
        "  place       a tool of run:1 and conversation:1",
        f"  before      {second}  Read ✓ → Bash pytest -q",
        f'  after       {third}  Bash ✗ → "It fails."',
    ]
    assert lines[5] == "  corrected   by no later step"
    at = lines.index("error")
    assert lines[at + 1 : at + 4] == ["  Exit code 1", "  ", "  E   assert 1 == 2"]
    listed = Ran(tmp_path / "t.db", words=("kind:tool", "status:error")).out
    assert "✗ Bash pytest -q" in listed
    assert "failed" in listed
    assert "completed" not in listed


def test_a_failed_tool_names_the_step_that_corrected_it(tmp_path: Path) -> None:
    """The same call that succeeded later, or else one of the same tool."""
    again = BASH | {"id": "toolu_more_0123456789"}
    for later, title in (("make", "corrected"), ("make -k", "later    ")):
        with Agents(tmp_path / f"{title}.db") as agents:
            coder = Coder(agents)
            coder.ask(text("Do it"), said=[BASH | {"input": {"command": "make"}}])
            wrong = json.dumps({"error": "no\nrule"})
            coder.ask(told(BASH, wrong, failed=True), said=[again | {"input": {"command": later}}])
            coder.ask(told(again, "Made."), said=[text("Done")])
        (tmp_path / f"{title}.db").replace(tmp_path / "t.db")
        listed = Ran(tmp_path / "t.db", words=("kind:tool",), as_json=True)
        failed, corrected = listed.span_ids
        lines = show(tmp_path, failed)
        assert f"  {title}   {corrected[:8]}  Bash {later}  ✓" in lines
        assert part([*lines, ""], "error") == ["  no", "  rule"]


def test_a_call_that_failed_says_that_nothing_followed(tmp_path: Path) -> None:
    """Or what did. The call that repeats it has the same news."""
    with Agents(tmp_path / "t.db") as agents:
        coder = Coder(agents)
        runs = BASH | {"input": {"command": "make"}}
        coder.ask(text("Do it"), said=[runs])
        failed = coder.ask(told(BASH, "Made."), said=[], status=500)
    lines = show(tmp_path, failed)
    assert "  after       nothing followed" in lines
    with Agents(tmp_path / "u.db") as agents:
        coder = Coder(agents)
        coder.ask(text("Do it"), said=[runs])
        failed = coder.ask(told(BASH, "Made."), said=[], status=500)
        again = coder.ask(said=[text("Done")])
    (tmp_path / "u.db").rename(tmp_path / "t.db")
    lines = show(tmp_path, again)
    assert part(lines, "new") == ["  tool  Bash make ✓  toolu_bash_0123456789", "    Made."]
    assert f"  before      {failed[:8]}  Bash ✓  upstream_error" in lines


def test_hidden_texts_stay_hidden_where_calls_are_compared(tmp_path: Path) -> None:
    """With hidden inputs nothing of what was asked is shown, nor the arguments of calls."""
    hidden = read_privacy_switches({"OPENINFERENCE_HIDE_INPUTS": "true"})
    with Agents(tmp_path / "t.db", SpanRules(privacy=hidden)) as agents:
        coder = Coder(agents)
        reads = READ | {"input": {"file_path": "/home/ann/secret.py"}}
        coder.ask(text("A secret"), said=[reads])
        last = coder.ask(told(READ, "secret"), said=[text("Done")])
    for options in ({}, {"whole": True}):
        lines = show(tmp_path, last, **options)
        assert "secret" not in "\n".join(lines)
        assert part(lines, "request") == ["  hidden by the settings"]


def test_a_changed_system_message_is_marked(tmp_path: Path) -> None:
    """Because it costs what the cache had."""
    dated = {"role": "system", "content": "It is Thursday."}
    with Agents(tmp_path / "t.db") as agents:
        agents.call(SYSTEM, user("Hi"), said=answer("Hello"))
        last = agents.call(dated, user("Hi"), answer("Hello"), user("And?"), said=answer("No"))
    assert "  system  It is Thursday.  (changed)" in show(tmp_path, last)


def test_json_of_a_call_is_as_before(tmp_path: Path, coder: Coder) -> None:
    """Nothing is folded for programs."""
    ran = Ran(tmp_path / "t.db", call_id=coder.calls[2], as_json=True)
    assert LOUD in json.dumps(ran.records[0]["request"]).encode().decode("unicode_escape")
