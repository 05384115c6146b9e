"""Answers that come back in other words, or not at all: what is enough to know them again."""

from __future__ import annotations

from typing import Any

import pytest

from telemetry.conversations.answer_keys import MAX_TOOL_CALLS
from telemetry.conversations.continuation import Rule
from telemetry.conversations.matcher import MAX_RETRY_NS
from tests.telemetry.conversations.talks import Talk, answer, calls, result, user

STRONG, OTHER_STRONG = "call_9aX2pQr7Lm4Tz8Wb", "call_5nB1vCx3Kj6Hg0Fd"
THOUGHTS = (
    "I think that the harbour lies left of the lighthouse, because the map shows seven boats near"
    " those rocks, and nobody would anchor there without shelter from winds of the west."
)
LOOK, GO_ON = user("Look"), user("And now?")


def think(made: dict[str, Any]) -> dict[str, Any]:
    """The same calls, behind thoughts that came as text."""
    return made | {"content": THOUGHTS}


@pytest.mark.parametrize("ids", [("call_0", "call_1"), ("", ""), (STRONG, OTHER_STRONG)])
@pytest.mark.parametrize("renamed", [True, False])
@pytest.mark.parametrize("said", [None, "Looking."])
def test_equal_calls_behind_an_equal_request_are_enough(
    ids: tuple[str, str], renamed: bool, said: str | None
) -> None:
    """Whatever a client took out or put beside them, and whatever their ids are."""
    talk = Talk()
    talk.ask(LOOK, said=think(calls(*ids)))
    again = calls("x1", "x2") if renamed else calls(*ids)
    results = [result(call["id"]) for call in again["tool_calls"]]
    found = talk.ask(LOOK, again | {"content": said}, *results, said=answer("There"))
    assert (found.predecessor, found.conversation) == (1, 1)


def test_calls_that_come_one_by_one_with_their_results_are_equal() -> None:
    """As clients of Responses send a history."""
    talk = Talk()
    made = calls("call_0", "call_1")
    talk.ask(LOOK, said=think(made))
    first, second = ([made | {"tool_calls": [one]}, result("x")] for one in made["tool_calls"])
    found = talk.ask(LOOK, *first, *second, said=answer("There"))
    assert (found.rule, found.predecessor) == (Rule.PREFIX, 1)


@pytest.mark.parametrize(
    "others",
    [calls("call_0", name="write"), calls("call_0"), calls("call_0", "call_1", "call_2")],
    ids=["name", "fewer", "more"],
)
def test_other_calls_are_not_equal(others: dict[str, Any]) -> None:
    """By name, and all of them."""
    talk = Talk()
    talk.ask(LOOK, said=think(calls("call_0", "call_1")))
    assert talk.ask(LOOK, others, result("call_0")).rule is Rule.NEW


def test_equal_calls_behind_another_request_are_nobodys() -> None:
    """The history has to be equal, but for the answer."""
    talk = Talk()
    talk.ask(LOOK, said=think(calls("call_0")))
    assert talk.ask(user("Look!"), calls("call_0"), result("call_0")).rule is Rule.NEW


def test_equal_calls_of_another_caller_are_that_ones() -> None:
    """Whoever asks the same, and gets the same answer."""
    talk = Talk()
    talk.ask(LOOK, said=think(calls("call_0")))
    found = talk.ask(LOOK, calls("call_0"), result("call_0"), scope=b"caller-2")
    assert found.rule is Rule.NEW


def test_of_two_answers_with_equal_calls_none_is_meant() -> None:
    """Never a coin toss."""
    talk = Talk()
    for _ in range(2):
        talk.ask(LOOK, said=think(calls("call_0")))
    found = talk.ask(LOOK, calls("call_0"), result("call_0"))
    assert (found.rule, found.is_ambiguous) == (Rule.NEW, True)


def test_an_answer_with_equal_calls_is_meant_rather_than_one_that_is_like_it() -> None:
    """The same words are said before other calls."""
    talk = Talk()
    words = "I read the file that you have named"
    talk.ask(LOOK, said=calls("call_0") | {"content": words})
    talk.ask(LOOK, said=calls("call_0", name="write") | {"content": words})
    found = talk.ask(LOOK, calls("call_0") | {"content": f"{words}."}, result("call_0"))
    assert found.predecessor == 1


def test_the_choice_that_was_taken_is_known_by_its_calls() -> None:
    """Each choice has calls of its own."""
    talk = Talk()
    first, second = calls("call_0"), calls("call_0", name="write")
    talk.ask(LOOK, said=think(first), more=[think(second)], n=2)
    assert talk.ask(LOOK, second, result("call_0")).predecessor == 1


def test_thoughts_of_older_turns_are_no_other_history() -> None:
    """They came as text, and the client takes them out once the turn is over."""
    talk = Talk()
    thought = calls("call_0") | {"content": f"<think>{THOUGHTS}</think>"}
    talk.ask(LOOK, said=thought)
    later = talk.ask(LOOK, thought, result("call_0"), said=calls("call_0", name="write"))
    asked = (LOOK, calls("call_0"), result("call_0"), calls("call_0", name="write"))
    last = talk.ask(*asked, result("call_0"), said=answer("Done"))
    assert (last.rule, last.predecessor, last.new_items) == (Rule.STATE, later.call, 1)


def test_calls_that_are_compared_are_counted() -> None:
    """R5: of an answer of a thousand calls the first ones are compared."""
    talk = Talk()
    many = think(calls(*[f"c{n}" for n in range(2 * MAX_TOOL_CALLS)]))
    talk.ask(LOOK, said=many)
    remembered = talk.finder.remembered
    assert remembered is not None
    assert len(remembered.called) == 16
    assert talk.ask(LOOK, many | {"content": None}, result("c0")).predecessor == 1


@pytest.mark.parametrize(
    "rest",
    [
        (answer("I"), GO_ON),
        (answer("[The request was interrupted by the user]"), GO_ON),
        (answer("An answer that another model gave in its place."), GO_ON),
        (calls("call_0"), result("call_0")),
        (GO_ON,),
        ({"role": "developer", "content": "Be brief."}, GO_ON),
    ],
    ids=["itself", "note", "another", "calls", "user", "developer"],
)
@pytest.mark.parametrize("word", ["I", "", "The harbour lies left of the lighthouse, and"])
def test_anything_may_stand_in_the_place_of_an_answer_that_failed(
    rest: tuple[dict[str, Any], ...], word: str
) -> None:
    """Also where it had a word already, and also nothing."""
    talk = Talk()
    talk.ask(LOOK, said=answer(word), breaks_off=True)
    found = talk.ask(LOOK, *rest, said=answer("Done"))
    assert (found.conversation, found.predecessor) == (1, 1)
    assert found.rule in {Rule.PREFIX, Rule.STATE}


def test_an_answer_that_failed_in_the_midst_of_a_conversation_is_gone_on_from() -> None:
    """It is the newest call, and no branch begins at the one before it."""
    talk = Talk()
    talk.ask(LOOK, said=answer("There it is."))
    history = (LOOK, answer("There it is."), GO_ON)
    talk.ask(*history, said=answer("I"), breaks_off=True)
    found = talk.ask(*history, user("Are you there?"), said=answer("Yes"))
    assert (found.rule, found.predecessor, found.is_fork) == (
        Rule.PREFIX,
        2,
        False,
    )


def test_an_answer_that_did_not_fail_has_no_other_in_its_place() -> None:
    """Somebody else asked the same, and got another answer."""
    talk = Talk()
    talk.ask(LOOK, said=answer("It lies left of the lighthouse."))
    assert talk.ask(LOOK, answer("Perhaps behind seven rocks?"), GO_ON).rule is Rule.NEW
    assert talk.ask(LOOK, GO_ON).rule is Rule.NEW


def test_what_failed_is_gone_on_from_once_and_soon() -> None:
    """Within ten minutes, by one, and by the same caller."""
    talk = Talk()
    talk.ask(LOOK, said=answer("I"), breaks_off=True)
    assert talk.ask(LOOK, answer("(cut)"), GO_ON, scope=b"caller-2").rule is Rule.NEW
    late = talk.ask(LOOK, answer("(cut)"), GO_ON, later_ns=MAX_RETRY_NS + 1)
    assert late.rule is Rule.NEW
    assert talk.ask(LOOK, answer("(cut)"), GO_ON, said=answer("Yes")).rule is Rule.PREFIX
    assert talk.ask(LOOK, answer("(other)"), GO_ON, said=answer("No")).rule is Rule.NEW


def test_of_two_that_failed_the_last_one_is_meant() -> None:
    """The client tried again, and then went on without an answer."""
    talk = Talk()
    for said in ("I", "It"):
        talk.ask(LOOK, answer("Where?"), GO_ON, said=answer(said), breaks_off=True)
    found = talk.ask(LOOK, answer("Where?"), GO_ON, answer("(cut)"), user("Again"))
    assert found.predecessor == 2, "the second one is taken for the first one's retry"
