"""After a restart nobody knows whose the calls before it were: what is found all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from telemetry.conversation_position import KeptCall
from telemetry.conversations.continuation import Rule
from telemetry.conversations.continuation_finder import ContinuationFinder
from telemetry.conversations.match import MIN_DISTINCTIVE_WORDS
from telemetry.conversations.memory import Memory
from telemetry.conversations.saved_calls import refill, save_call
from tests.telemetry.conversations.talks import Talk, answer, calls, result, user

if TYPE_CHECKING:
    from telemetry.conversations.continuation import Continuation

ANN, BOB, UPSTREAM, OTHER = b"caller-1", b"caller-2", b"upstream", b"another."
STRONG = "call_9aX2pQr7Lm4Tz8Wb"
LONG = "The test fails because its clock stands still while the server waits for another second"
assert len({*LONG.split()}) < MIN_DISTINCTIVE_WORDS < 2 * len({*LONG.split()})
TELLING = f"{LONG}. Turn it by hand, as all of its neighbours do"


class Restarted(Talk):
    """A talk that keeps what is kept, and goes on after a restart."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[KeptCall] = []

    def say(
        self,
        *messages: dict[str, Any],
        said: dict[str, Any] | None = None,
        scope: bytes | None = ANN,
        strangers: bytes = UPSTREAM,
        keeps: bool = True,
        **more: Any,
    ) -> Continuation:
        """Ask, and keep the call."""
        found = self.ask(*messages, said=said, scope=scope, strangers=strangers, **more)
        call = self.finder.remembered
        if keeps and call is not None and call.number == found.call:
            data = save_call(call, found.predecessor, strangers)
            if data is not None:
                self.kept.append(
                    KeptCall(f"{found.call:016x}", "ab" * 16, found.origin.session, data)
                )
        return found

    def restart(self) -> None:
        """Begin anew with what is kept."""
        self.memory = Memory(1_000)
        self.finder = ContinuationFinder(b"k" * 32, self.memory)
        refill(self.memory, self.kept)


def test_a_conversation_goes_on_after_a_restart() -> None:
    """Its number, turn, session and predecessor are what they would have been."""
    talk = Restarted()
    talk.say(user("hi"), said=answer("Hello"))
    history = (user("hi"), answer("Hello"), user("Fix it"), answer(TELLING))
    talk.say(*history[:-1], said=history[-1])
    talk.restart()
    found = talk.say(*history, user("Do it"), said=answer("Done"))
    assert (found.rule, found.conversation, found.predecessor) == (
        Rule.STATE,
        1,
        2,
    )
    assert (found.turn, found.depth, found.is_fork) == (3, 3, False)
    assert found.origin.session == f"conv-{1:016x}"
    later = talk.say(*history, user("Do it"), answer("Done"), user("Thanks"), said=answer("!"))
    assert (later.rule, later.predecessor) == (Rule.STATE, 3), "in its own scope, short as it is"


def test_a_run_goes_on_by_the_ids_of_its_calls() -> None:
    """`tool_id`: where the client changed what was before; and its answer is found by its state."""
    talk = Restarted()
    talk.say(user("hi"), said=calls(STRONG))
    talk.restart()
    found = talk.say(user("hi there"), calls(STRONG), result(STRONG), said=answer("!"))
    assert (found.rule, found.predecessor) == (Rule.TOOL_ID, 1)
    straight = Restarted()
    straight.say(user("hi"), said=calls(STRONG))
    straight.restart()
    found = straight.say(user("hi"), calls(STRONG), result(STRONG), said=answer("!"))
    assert (found.rule, found.predecessor) == (Rule.STATE, 1)


def test_a_state_without_ids_is_found_where_its_answers_are_telling() -> None:
    """A strong id tells nothing once a client has renamed it; many words do."""
    talk = Restarted()
    talk.say(user("hi"), said=calls(STRONG))
    talk.restart()
    assert talk.say(user("hi"), calls("0"), result("0"), said=answer("!")).rule is Rule.NEW
    wordy = Restarted()
    wordy.say(user("hi"), said=answer(TELLING))
    history = (user("hi"), answer(TELLING), user("go"))
    wordy.say(*history, said=calls(STRONG))
    wordy.restart()
    found = wordy.say(*history, calls("0"), result("0"), said=answer("!"))
    assert (found.rule, found.predecessor) == (Rule.STATE_NO_IDS, 2)


def test_a_request_a_window_and_a_failure_are_not_found() -> None:
    """Strangers ask the same."""
    talk = Restarted()
    talk.say(user("hi"), said=answer(f"Hm, let me think. {TELLING}"))
    talk.say(user("ho"))
    turns = [one for n in range(4) for one in (user(f"question {n}"), answer(f"{n}: {TELLING}"))]
    for end in range(1, 8, 2):
        talk.say(*turns[:end], said=turns[end])
    talk.restart()
    assert talk.say(user("hi"), answer(TELLING), user("a"), said=answer("b")).rule is Rule.NEW
    assert talk.say(user("ho"), said=answer("Hello")).rule is Rule.NEW
    assert talk.say(*turns[3:], user("and now?"), said=answer("so")).rule is Rule.NEW


@pytest.mark.parametrize("said", ["Hello! How can I help you today?", LONG])
def test_a_short_answer_tells_nothing(said: str) -> None:
    """Everybody gets it; what a client alone has said counts as little."""
    talk = Restarted()
    examples = (user("Example"), answer(TELLING))
    for history in ((user("hi"),), (*examples, user("hi"))):
        talk.say(*history, said=answer(said))
        talk.restart()
        assert talk.say(*history, answer(said), user("go"), said=answer("!")).rule is Rule.NEW


def test_equal_chats_of_two_callers_stay_two() -> None:
    """Whoever of them comes first after the restart, and though one had gone on before."""
    talk = Restarted()
    history = (user("hi"), answer(TELLING))
    for scope in (ANN, BOB):
        talk.say(user("hi"), said=history[1], scope=scope)
    talk.say(*history, user("on"), said=answer("b"), scope=BOB)
    talk.restart()
    for scope in (ANN, BOB):
        found = talk.say(*history, user("and?"), said=answer("c"), scope=scope)
        assert (found.rule, found.is_ambiguous) == (Rule.NEW, True)
        assert found.conversation == found.call


def test_a_callers_own_chat_may_be_the_other() -> None:
    """The same question and answer before the restart and after it: either may be meant."""
    talk = Restarted()
    talk.say(user("hi"), said=answer("Hello"))
    talk.restart()
    talk.say(user("hi"), said=answer("Hello"))
    found = talk.say(user("hi"), answer("Hello"), user("a"), said=answer("b"))
    assert (found.rule, found.is_ambiguous) == (Rule.NEW, True)
    gone = Restarted()
    gone.say(user("hi"), said=answer("Hello"))
    gone.say(user("hi"), answer("Hello"), user("a"), said=answer("b"))
    gone.restart()
    gone.say(user("hi"), said=answer("Hello"))
    found = gone.say(user("hi"), answer("Hello"), user("c"), said=answer("d"))
    assert (found.rule, found.predecessor) == (Rule.STATE, 3), "nobody went on from that one alone"


def test_what_is_not_distinctive_hides_what_is_less_deep() -> None:
    """The caller's own beginning is another chat's."""
    talk = Restarted()
    history = (user("hi"), answer("Hello"), user("a"), answer("b"))
    talk.say(user("hi"), said=history[1])
    talk.say(*history[:-1], said=history[-1])
    talk.restart()
    talk.kept.clear()
    talk.say(user("hi"), said=answer("Hello"))
    assert talk.say(*history, user("c"), said=answer("d")).rule is Rule.NEW


def test_a_stranger_is_known_once_its_caller_continued() -> None:
    """Then nobody else can continue it; the caller can, as often as it likes."""
    talk = Restarted()
    history = (user("hi"), answer(TELLING))
    talk.say(user("hi"), said=history[1])
    talk.restart()
    assert talk.say(*history, user("a"), said=answer("b")).predecessor == 1
    assert talk.say(*history, user("a"), said=answer("b"), scope=BOB).rule is Rule.NEW
    found = talk.say(*history, user("c"), said=answer("d"))
    assert (found.rule, found.predecessor, found.is_fork) == (
        Rule.STATE,
        1,
        True,
    )
    assert talk.memory.strangers == 0


def test_another_upstreams_strangers_are_others() -> None:
    """Only ids of responses may cross them."""
    talk = Restarted()
    talk.say(user("hi"), said=answer(TELLING))
    talk.restart()
    history = (user("hi"), answer(TELLING), user("a"))
    assert talk.say(*history, said=answer("b"), strangers=OTHER).rule is Rule.NEW
    assert talk.say(*history, said=answer("b")).rule is Rule.STATE


def test_a_second_restart_changes_nothing() -> None:
    """What was found after the first is kept as well."""
    talk = Restarted()
    history = [user("hi"), answer(TELLING)]
    talk.say(user("hi"), said=history[1])
    for number in range(2, 6):
        talk.restart()
        history += [user(f"question {number}"), answer("yes")]
        found = talk.say(*history[:-1], said=history[-1])
        assert (found.predecessor, found.conversation, found.depth) == (
            number - 1,
            1,
            number,
        )


def test_callers_that_cannot_be_told_are_strangers_at_once() -> None:
    """Calls from the spool after a restart: strong ids join them, short answers do not."""
    talk = Restarted()
    for scope in (None, None):
        talk.say(user("hi"), said=answer("Hello"), scope=scope)
    short = talk.say(user("hi"), answer("Hello"), user("a"), said=answer("b"), scope=None)
    assert short.rule is Rule.NEW
    talk.say(user("look"), said=calls(STRONG), scope=None)
    found = talk.say(user("look"), calls(STRONG), result(STRONG), said=answer("!"), scope=None)
    assert (found.rule, found.predecessor) == (Rule.STATE, 4)
    assert talk.memory.strangers == 5
    talk.say(user("ho"), scope=None)
    assert talk.say(user("ho"), said=answer("Hello"), scope=None).rule is Rule.NEW, "no retry"


def test_an_id_that_two_answers_gave_out_tells_nothing_though_one_is_a_strangers() -> None:
    """It was given out before the restart, and again behind it."""
    talk = Restarted()
    talk.say(user("hi"), said=calls(STRONG))
    talk.restart()
    talk.say(user("ho"), said=calls(STRONG))
    assert talk.say(user("hu"), calls(STRONG), result(STRONG)).rule is Rule.NEW
