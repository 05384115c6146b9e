"""Conversations that clients name: what is said under another name is another's (C12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from telemetry.conversations.run import derive_span_id
from tests.telemetry.conversations.talks import answer, calls, result, user

if TYPE_CHECKING:
    from tests.telemetry.conversations.agents import Agents

ONE, TWO = (("x-session-id", "one"),), (("x-session-id", "two"),)
WEAK = calls("call_0")
TELLING = (
    "The test fails because its clock stands still while the server waits for another second."
    " Turn it by hand, as all of its neighbours do"
)


def see_rules(agents: Agents) -> list[tuple[str | None, str | None]]:
    """Session and rule of each call."""
    return [(call.columns.session, call.columns.link_rule) for call in agents.see_kind("LLM")]


def test_another_ones_failure_hides_nothing(agents: Agents) -> None:
    """A client continues its own answer, although the same request failed under another name."""
    history = (user("Look"), WEAK, result("call_0"))
    agents.call(user("Look"), said=WEAK, headers=ONE)
    first = agents.call(user("Look"), said=WEAK, headers=TWO)
    agents.call(*history, said=None, headers=ONE)
    agents.call(*history, said=answer("Done"), headers=TWO)
    assert see_rules(agents)[2:] == [("one", "state"), ("two", "state")]
    [agent] = agents.see_kind("AGENT")
    assert agent.span.span_id == derive_span_id(first, "run")


def test_ones_own_failure_is_tried_again(agents: Agents) -> None:
    """Though another's request of the same words failed since."""
    for headers in (ONE, TWO, ONE):
        agents.call(user("hi"), said=None, headers=headers)
    assert see_rules(agents)[2] == ("one", "retry")


def test_of_equal_calls_that_of_the_same_name_is_meant(agents: Agents) -> None:
    """A call of one's own name comes before one without a name."""
    agents.call(user("hi"), said=answer("Hello"))
    agents.call(user("hi"), said=answer("Hello"), headers=ONE)
    agents.call(user("hi"), answer("Hello"), user("q"), said=answer("a"), headers=ONE)
    assert see_rules(agents)[2] == ("one", "state")
    assert [call.columns.conversation for call in agents.see_kind("LLM")] == [1, 2, 2]


def test_a_name_is_that_of_its_conversation_after_a_restart(agents: Agents) -> None:
    """A title is asked for before the work goes on: later calls of the name are of the work."""
    agents.call(user("hi"), said=answer(TELLING), headers=ONE)
    agents.start()
    agents.call(user("A title?"), said=answer("Clocks"), headers=ONE)
    agents.call(user("hi"), answer(TELLING), user("q"), said=answer("a"), headers=ONE)
    agents.call(user("Another title?"), said=answer("Time"), headers=ONE)
    assert [call.columns.conversation for call in agents.see_kind("LLM")] == [1, 2, 1, 1]


def test_an_unnamed_failure_is_no_named_ones(agents: Agents) -> None:
    """Nor the other way round; nor is one of two that failed alike the one that is meant."""
    for headers in ((), TWO, ()):
        agents.call(user("hi"), said=None, headers=headers)
    agents.call(user("ho"), said=None, at=20)
    agents.call(user("ho"), said=None, at=20.5)
    agents.call(user("ho"), said=answer("Hello"), at=30)
    rules = [rule for _, rule in see_rules(agents)]
    assert rules == [None, None, "retry", None, None, None]


def test_an_unnamed_call_goes_on_from_an_unnamed_one(agents: Agents) -> None:
    """Though that one was continued, and a named one of the same words waits."""
    agents.call(user("hi"), said=answer("Hello"))
    agents.call(user("hi"), said=answer("Hello"), headers=ONE)
    for text in ("q", "edited"):
        agents.call(user("hi"), answer("Hello"), user(text), said=answer("a"))
    assert [call.columns.conversation for call in agents.see_kind("LLM")] == [1, 2, 1, 1]
