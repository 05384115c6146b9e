"""Calls of smolagents, in lists: the user's own words, and which tools answered (in texts)."""

from __future__ import annotations

from typing import Any

import pytest

from codec.chat.answer import ChatMessage
from codec.parts import ToolCall
from telemetry.privacy.switches import PrivacySwitches
from telemetry.spans.rules import SpanRules
from tests.smolagents import call, calling, error, failed, managed, message, observation, task
from tests.telemetry.columns import RULES, ask
from tests.telemetry.exchanges import make_response

SYSTEM = message("system", "You are an expert assistant.")
ASKED = message("user", task("Where is it?"))
READ = message("assistant", calling(call("c1", "read", {"path": "a"})))
FINAL = message("assistant", calling(call("c2", "final_answer", {"answer": "There"})))


def says(text: str | None = None, *made: ToolCall) -> dict[str, Any]:
    """The members of a call with this answer."""
    said = ChatMessage(role="assistant", content=text, tool_calls=made)
    return {"response": make_response(said), "response_status": 200}


def see(*messages: dict[str, Any], **members: Any) -> tuple[str | None, str | None]:
    """The user's words and the step of a call, of which one says what is new."""
    columns = ask(SYSTEM, *messages, rules=members.pop("rules", RULES), **members)
    return columns.preview, columns.step


def test_a_task_is_the_users_own_words() -> None:
    """Without what the agent puts around them, also behind what it observed."""
    assert see(ASKED) == ("Where is it?", None)
    assert see(ASKED, FINAL, message("user", observation("There"), task("Since when?"))) == (
        "Since when?",
        None,
    )
    assert see(message("user", managed("pilot", "How deep?"))) == ("How deep?", None)


def test_an_observation_is_what_a_tool_answered() -> None:
    """The words stay those of the task."""
    use = ToolCall(id="c3", name="list", arguments='{"path": "/w"}')
    assert see(ASKED, READ, message("user", observation("x")), **says(None, use)) == (
        "Where is it?",
        "read ✓ → list w",
    )


def test_an_error_is_that_of_the_last_step() -> None:
    """Others in its message were there before."""
    lost = failed("read", {"path": "a"})
    assert see(message("user", task("Where is it?"), lost)) == ("Where is it?", None)
    told = message("user", observation("x"), lost, failed("list", {}))
    assert see(ASKED, READ, told) == ("Where is it?", "list ✗")


def test_code_is_what_the_model_did() -> None:
    """Its first line; the code before is a tool that answered."""
    ran = call("call_1", "python_interpreter", "fail()")
    step = message("assistant", "<code>\nfail()\n</code>", calling(ran))
    told = message("user", error("Code execution failed at line 'fail()' due to: no", "call_1"))
    assert see(ASKED, step, told, **says("Thought.\n<code>\nprint(1)\nprint(2)\n")) == (
        "Where is it?",
        "python_interpreter ✗ → python_interpreter print(1)",
    )


def test_a_user_who_writes_observation_says_it() -> None:
    """Nobody but smolagents is read in this way."""
    said = message("user", "Observation:\nit rains")
    assert see(message("user", "Hi"), READ, said) == ("Observation: it rains", None)
    assert see(ASKED, message("assistant", "There."), said) == ("Observation: it rains", None)


@pytest.mark.parametrize("switch", ["hide_inputs", "hide_input_messages", "hide_input_text"])
def test_a_hidden_text_names_no_tool(switch: str) -> None:
    """The names of tools stand in texts here."""
    rules = SpanRules(privacy=PrivacySwitches(**{switch: True}))
    words, step = see(ASKED, READ, message("user", observation("x")), rules=rules)
    assert words is None
    assert "read" not in (step or "")
