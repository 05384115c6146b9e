"""C14: a conversation is recorded as a whole, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from telemetry.conversation_position import ConversationForm
from telemetry.spans.keep_rules import KeepReason, KeepRules
from telemetry.spans.rules import SpanRules
from tests.telemetry.conversations.agents import Agents
from tests.telemetry.conversations.talks import answer, calls, result, user

if TYPE_CHECKING:
    from pathlib import Path

TOLD = calls("call_a")
HISTORY = (user("Look"), TOLD, result("call_a"))


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("form", [ConversationForm.RUNS, ConversationForm.LINKS])
def test_the_first_call_decides(tmp_path: Path, form: ConversationForm, *, first: bool) -> None:
    """What the sampler says of later ones does not count; a lone call is as it says."""
    with Agents(tmp_path / "spans.db", SpanRules(conversations=form)) as agents:
        told = [
            agents.call(user("Look"), said=TOLD, sampled=first),
            agents.call(*HISTORY, said=answer("There"), sampled=not first),
            agents.call(*HISTORY, answer("There"), user("Thanks"), said=answer("!"), sampled=False),
        ]
        agents.call(user("alone"), said=answer("No"), sampled=False)
        seen = [one.span.span_id for one in agents.see() if one.columns.kind == "LLM"]
        assert seen == (told if first else [])
        assert bool(agents.see_kind("AGENT")) is (first and form is ConversationForm.RUNS)
        assert len(agents.service.conversations.runs) == 0


def test_a_callers_word_stands(tmp_path: Path) -> None:
    """Whoever has a span of its own has decided for all below it."""
    with Agents(tmp_path / "spans.db") as agents:
        agents.call(user("Look"), said=TOLD)
        agents.call(*HISTORY, said=answer("There"), sampled=False, parent="00f067aa0ba902b7")
        assert len(agents.see_kind("LLM")) == 1


def test_off_leaves_it_to_the_sampler(tmp_path: Path) -> None:
    """Each call by itself."""
    rules = SpanRules(conversations=ConversationForm.OFF)
    with Agents(tmp_path / "spans.db", rules) as agents:
        agents.call(user("Look"), said=TOLD)
        agents.call(*HISTORY, said=answer("There"), sampled=False)
        assert len(agents.see()) == 1


def test_what_a_rule_keeps_of_an_unsampled_conversation_stands_alone(tmp_path: Path) -> None:
    """An error of it is recorded, and opens no run."""
    rules = SpanRules(keep=KeepRules(reasons=frozenset({KeepReason.ERRORS})))
    with Agents(tmp_path / "spans.db", rules) as agents:
        agents.call(user("Look"), said=TOLD, sampled=False)
        failed = agents.call(*HISTORY, said=None, sampled=True)
        [one] = agents.see()
        assert one.span.span_id == failed
        assert one.span.parent_span_id is None
        assert one.metadata["kept_by"] == "errors"
