"""Lists of the recorded calls of an agent: what they say of each call."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.corpus.recordings import NEEDS_RECORDINGS, find_folder, load_messages
from tests.corpus.replay import observe_recording
from tests.telemetry.columns import columns_of

if TYPE_CHECKING:
    from telemetry.facts import CallColumns

pytestmark = NEEDS_RECORDINGS

ASKED = (
    "Spawn a subagent to get the weather in New York. After that subagent, do it again but for"
    " California, not in a subagent. Both should be in fahrenheit."
)[:119].rstrip() + "…"
TASK = "Please fetch the current weather for New York state (NY) in fahrenheit."

_NAME = "claude-agent-sdk_v1_messages_beta_true_post_"


@cache
def _list_calls() -> dict[str, CallColumns]:
    """The columns of the calls of Claude Code's agent, by the digits in their names."""
    folder = find_folder()
    assert folder is not None
    calls = [one for one in load_messages(folder) if _NAME in one.id]
    assert len(calls) == 10
    return {
        one.id.partition(_NAME)[2][:8]: columns_of(observe_recording(one, "messages"))
        for one in calls
    }


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("ea8af730", ASKED),
        ("34492c67", ASKED),
        ("1a9ef989", TASK),
        ("d2998a83", TASK),
        ("34f8336c", ASKED),
        ("a995dce8", ASKED),
    ],
)
def test_the_question_is_what_the_user_said(name: str, asked: str) -> None:
    """First requests, a later one, those of a sub-agent, and those for a title."""
    assert _list_calls()[name].preview == asked


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("ea8af730", None),
        ("1a9ef989", None),
        ("34492c67", "Agent ✓ → mcp__local__fetch_weather CA"),
        ("6f4b7f3a", "mcp__local__fetch_weather ✓ → "),
        ("750df9ce", "mcp__local__fetch_weather ✓ → "),
        ("34f8336c", 'title → "Get weather for New York and California"'),
    ],
)
def test_later_calls_say_what_is_new(name: str, step: str | None) -> None:
    """The tool that answered and what the model did; a call for a title says its answer."""
    found = _list_calls()[name].step
    assert found == step or (step is not None and str(found).startswith(f'{step}"'))


def test_calls_for_a_title_are_known() -> None:
    """And no others, of all recorded calls of the agent."""
    titles = {name for name, columns in _list_calls().items() if columns.purpose}
    assert titles == {"34f8336c", "3f7425c4", "a995dce8"}
