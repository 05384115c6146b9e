"""Which call continues which: each rule, and what it must not find."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.conversations.continuation import Rule
from telemetry.conversations.continuation_finder import MAX_CHOICES
from telemetry.conversations.keys import is_strong
from telemetry.conversations.matcher import MAX_RETRY_NS
from telemetry.conversations.memory import MAX_CANDIDATES
from tests.telemetry.conversations.talks import Talk, answer, calls, result, user

STRONG, OTHER_STRONG = "call_9aX2pQr7Lm4Tz8Wb", "call_5nB1vCx3Kj6Hg0Fd"
SYSTEM = {"role": "system", "content": "It is 14:03."}


def test_a_call_that_repeats_another_and_its_answer_goes_on_from_it() -> None:
    """`state`: it has the conversation of the first call, and knows what is new in it."""
    talk = Talk()
    first = talk.ask(user("hi"), said=answer("Hello"))
    assert (first.rule, first.conversation, first.predecessor) == (Rule.NEW, 1, None)
    second = talk.ask(user("hi"), answer("Hello"), user("Fix it"), said=answer("Done"))
    assert (second.rule, second.conversation, second.predecessor) == (Rule.STATE, 1, 1)
    assert second.new_items == 1
    history = (user("hi"), answer("Hello"), user("Fix it"), answer("Done"))
    third = talk.ask(*history, user("Thanks"), said=answer("Welcome"))
    assert (third.conversation, third.predecessor) == (1, 2)


def test_results_go_on_from_the_call_that_asked_for_them() -> None:
    """Whatever the ids of calls are, where the whole history is the same."""
    talk = Talk()
    talk.ask(user("hi"), said=calls("call_0", "call_1"))
    found = talk.ask(
        user("hi"), calls("call_0", "call_1"), result("call_0"), result("call_1"), said=answer("!")
    )
    assert (found.rule, found.predecessor, found.new_items) == (
        Rule.STATE,
        1,
        2,
    )


def test_a_system_message_that_changes_breaks_nothing() -> None:
    """It is told."""
    talk = Talk()
    talk.ask(SYSTEM, user("hi"), said=answer("Hello"))
    same = talk.ask(SYSTEM, user("hi"), answer("Hello"), user("a"), said=answer("b"))
    assert (same.rule, same.system_changed) == (Rule.STATE, False)
    later = SYSTEM | {"content": "It is 14:04."}
    found = talk.ask(later, user("hi"), answer("Hello"), user("b"), said=answer("c"))
    assert (found.rule, found.system_changed, found.is_fork) == (
        Rule.STATE,
        True,
        True,
    )


def test_a_strong_id_of_a_call_is_enough() -> None:
    """`tool_id`: where a client has changed what is before it."""
    talk = Talk()
    talk.ask(user("hi"), said=calls(STRONG))
    found = talk.ask(user("hi there"), calls(STRONG), result(STRONG), said=answer("!"))
    assert (found.rule, found.predecessor) == (Rule.TOOL_ID, 1)
    weak = Talk()
    weak.ask(user("hi"), said=calls("call_0"))
    assert weak.ask(user("hi there"), calls("call_0"), result("call_0")).rule is Rule.NEW


def test_an_id_with_other_arguments_is_another_call() -> None:
    """Examples are copied, ids included."""
    talk = Talk()
    talk.ask(user("hi"), said=calls(STRONG))
    assert talk.ask(user("ho"), calls(STRONG, name="write"), result(STRONG)).rule is Rule.NEW


def test_an_id_that_two_answers_gave_out_tells_nothing() -> None:
    """A server that counts, with long names."""
    talk = Talk()
    talk.ask(user("hi"), said=calls(STRONG))
    talk.ask(user("ho"), said=calls(STRONG))
    assert talk.ask(user("hu"), calls(STRONG), result(STRONG)).rule is Rule.NEW


def test_renamed_calls_are_found_without_their_ids() -> None:
    """`state_no_ids`: some clients give calls ids of their own."""
    talk = Talk()
    talk.ask(user("hi"), said=calls(STRONG))
    found = talk.ask(user("hi"), calls("0"), result("0"), said=answer("!"))
    assert (found.rule, found.predecessor) == (Rule.STATE_NO_IDS, 1)


def test_the_same_question_with_another_key_is_not_continued() -> None:
    """Two agents share two keys: the id in the history is that of the other one's answer."""
    talk = Talk()
    talk.ask(user("Weather?"), said=calls(STRONG), scope=b"caller-1")
    talk.ask(user("Weather?"), said=calls(OTHER_STRONG), scope=b"caller-2")
    swapped = (user("Weather?"), calls(OTHER_STRONG), result(OTHER_STRONG))
    assert talk.ask(*swapped, said=answer("Rain"), scope=b"caller-1").rule is Rule.NEW
    rest = (calls(STRONG), result(STRONG))
    assert talk.ask(user("Weather?"), *rest, scope=b"caller-2").rule is Rule.NEW
    right = talk.ask(user("Weather?"), *rest, said=answer("Sun"), scope=b"caller-1")
    assert (right.rule, right.predecessor) == (Rule.STATE, 1)


def test_an_answer_with_the_id_of_another_conversation_is_not_rewritten() -> None:
    """An answer that is like one's own, with an id of another conversation's, is not one's own."""
    talk = Talk()
    question = user("Which of the files are to be read now, and why?")
    said = calls(STRONG) | {"content": "I read the file that you have named"}
    talk.ask(question, said=said, scope=b"caller-1")
    other = calls(OTHER_STRONG) | {"content": "I read the file that you have named to me"}
    talk.ask(question, said=other, scope=b"caller-2")
    rest = (result(OTHER_STRONG), user("And?"))
    assert talk.ask(question, other, *rest, scope=b"caller-1").rule is Rule.NEW
    unknown = calls("toolu_01A09q90qw90lq917835lq9") | {"content": other["content"]}
    found = talk.ask(question, unknown, result("toolu_01A09q90qw90lq917835lq9"), user("And?"))
    assert (found.rule, found.predecessor) == (Rule.PREFIX, 1), "renamed, perhaps"


def test_many_results_hide_no_ids() -> None:
    """A result has the id of its call, which stands far before it."""
    talk = Talk()
    ours, theirs = ([f"{one}{n:02}" for n in range(16)] for one in (STRONG, OTHER_STRONG))
    talk.ask(user("Look"), said=calls(*ours), scope=b"caller-1")
    talk.ask(user("Look"), said=calls(*theirs), scope=b"caller-2")
    results = [result(one) for one in theirs]
    assert talk.ask(user("Look"), calls(*theirs), *results, scope=b"caller-1").rule is Rule.NEW


def test_a_conversation_may_begin_with_an_id_of_anothers() -> None:
    """A history that was handed over, and cut at its beginning, is found again."""
    talk = Talk()
    talk.ask(user("q"), said=calls(STRONG), scope=b"caller-1")
    history = [user("q"), calls(STRONG), result(STRONG)]
    for number in range(2):
        said = answer(f"answer {number}")
        talk.ask(*history, said=said, scope=b"caller-2")
        history += [said, user(f"question {number}")]
    cut = talk.ask(*history[1:], said=answer("so"), scope=b"caller-2")
    assert (cut.rule, cut.conversation, cut.predecessor) == (Rule.WINDOW, 2, 3)


def test_an_id_of_very_many_answers_tells_nothing() -> None:
    """A server gives out one id again and again: not all who had it are known."""
    talk = Talk()
    for number in range(MAX_CANDIDATES + 1):
        talk.ask(user(f"Look {number}"), said=calls(STRONG))
    found = talk.ask(user("Look 0"), calls(OTHER_STRONG), result(STRONG))
    assert (found.rule, found.predecessor) == (Rule.STATE_NO_IDS, 1)


def test_of_choices_each_may_be_gone_on_from() -> None:
    """And no more than are remembered."""
    talk = Talk()
    said = [answer(f"choice {index}") for index in range(MAX_CHOICES + 1)]
    talk.ask(user("hi"), said=said[0], more=said[1:])
    for index, one in enumerate(said):
        found = talk.ask(user("hi"), one, user(f"And {index}?"))
        assert (found.rule is Rule.STATE) == (index < MAX_CHOICES)


def test_a_rewritten_answer_is_found_by_the_request_before_it() -> None:
    """`prefix`: most of its words are there; an answer of somebody else's is not."""
    talk = Talk()
    talk.ask(user("hi"), said=answer("Hm, let me think. Hello to you, my friend"))
    found = talk.ask(user("hi"), answer("Hello to you, my friend!"), user("a"), said=answer("b"))
    assert (found.rule, found.predecessor) == (Rule.PREFIX, 1)
    strange = talk.ask(user("hi"), answer("Was darf es sein?"), user("a"), said=answer("b"))
    assert strange.rule is Rule.NEW
    failed = Talk()
    failed.ask(user("hi"))
    assert failed.ask(user("hi"), answer("Sorry."), user("a")).rule is Rule.PREFIX


def test_the_deepest_match_wins() -> None:
    """An answer that was rewritten late, though an earlier one was not."""
    talk = Talk()
    talk.ask(user("hi"), said=answer("Hello"))
    talk.ask(user("hi"), answer("Hello"), user("a"), said=answer("Hm. The answer is forty two"))
    rewritten = answer("The answer is forty two")
    found = talk.ask(user("hi"), answer("Hello"), user("a"), rewritten, user("b"))
    assert (found.rule, found.predecessor) == (Rule.PREFIX, 2)


def test_a_history_that_was_cut_is_found_by_four_items_in_a_row() -> None:
    """`window`: not by its beginning, which others have too, nor where it is short."""
    talk = Talk()
    turns = [one for n in range(4) for one in (user(f"question {n}"), answer(f"answer {n}"))]
    for end in range(1, 8, 2):
        talk.ask(*turns[:end], said=turns[end])
    found = talk.ask(*turns[3:], user("and now?"), said=answer("so"))
    assert (found.rule, found.predecessor) == (Rule.WINDOW, 4)
    assert talk.ask(*turns[2:5], user("or?")).rule is Rule.NEW, "three items"
    short = Talk()
    short.ask(*turns[:3], said=turns[3])
    assert short.ask(*turns[1:4], user("so?")).rule is Rule.NEW, "four items in all"


@pytest.mark.parametrize("count", [3, 4, 6])
@pytest.mark.parametrize(
    "said", [answer("positive"), calls("call_0"), calls(*(f"call_{n}" for n in range(6)))]
)
def test_questions_behind_the_same_examples_are_nobodys(count: int, said: dict[str, Any]) -> None:
    """`window`: what a client alone has said comes again in each of them, and no answer does."""
    talk = Talk()
    shots = [one for n in range(count) for one in (user(f"review {n}"), answer(f"mark {n}"))]
    continuations = [talk.ask(SYSTEM, *shots, user(f"item {n}"), said=said) for n in range(4)]
    assert {found.rule for found in continuations} == {Rule.NEW}


def test_the_same_calls_of_tools_are_no_window() -> None:
    """`window`: a program that calls its four tools each day; nothing else comes again."""
    talk, four = Talk(), calls(*(f"call_{n}" for n in range(4)))
    talk.ask(user("Good day"), answer("Hello"), user("check all"), said=four)
    results = [result(f"call_{n}") for n in range(4)]
    assert talk.ask(user("It is 10:01. Check all"), four, *results).rule is Rule.NEW


def test_few_words_again_and_again_are_no_window() -> None:
    """`window`: two that are asked for their state all day, one cut at its beginning."""
    talk = Talk()
    polls = [user("status?"), answer("OK")] * 4
    first = [user("Watch host A"), answer("Fine"), *polls]
    for end in range(1, len(first), 2):
        talk.ask(*first[:end], said=first[end])
    other = talk.ask(user("Watch host B"), answer("Sure"), *polls, user("status?"))
    assert other.rule is Rule.NEW


def test_a_history_is_cut_after_a_call_that_failed() -> None:
    """`window`: it was too long; the failed call has the windows of the one before it."""
    talk = Talk()
    turns = [one for n in range(4) for one in (user(f"question {n}"), answer(f"answer {n}"))]
    for end in range(1, 8, 2):
        talk.ask(*turns[:end], said=turns[end])
    failed = talk.ask(*turns, user("and now?"))
    assert (failed.rule, failed.predecessor) == (Rule.STATE, 4)
    found = talk.ask(*turns[3:], user("and now?"), said=answer("so"))
    assert (found.rule, found.predecessor, found.conversation) == (
        Rule.WINDOW,
        5,
        1,
    )


def test_a_label_is_no_rewritten_answer() -> None:
    """`prefix`: a question that was asked before stands among examples, with a label."""
    talk = Talk()
    talk.ask(user("review 0"), said=answer("I would say that it is negative, not positive."))
    talk.ask(user("review 1"))
    again = talk.ask(user("review 0"), answer("positive"), user("review 2"), said=answer("a"))
    assert again.rule is Rule.NEW
    put = talk.ask(user("review 1"), answer("positive"), user("review 2"), said=answer("a"))
    assert put.rule is Rule.PREFIX, "in the place of an answer that failed"
    more = talk.ask(user("review 1"), answer("negative"), user("review 3"), said=answer("a"))
    assert more.rule is Rule.NEW, "in which there is one already"


def test_the_same_request_after_one_that_failed_is_a_retry() -> None:
    """Once; after an answer the same request is another call."""
    talk = Talk()
    talk.ask(user("hi"))
    again = talk.ask(user("hi"), said=answer("Hello"))
    assert (again.rule, again.predecessor, again.conversation) == (Rule.RETRY, 1, 1)
    assert talk.ask(user("hi"), said=answer("Hello")).rule is Rule.NEW
    late = Talk()
    late.ask(user("hi"))
    assert late.ask(user("hi"), later_ns=MAX_RETRY_NS + 1).rule is Rule.NEW
    beside = Talk()
    beside.ask(user("hi"), later_ns=10**9)
    assert beside.ask(user("hi")).rule is Rule.NEW, "it began before that one had failed"


def test_a_failure_costs_later_chats_no_link() -> None:
    """An answer that is alike comes first; an old failure is alike to nothing."""
    talk = Talk()
    talk.ask(user("hi"))
    thought = answer("Hm, let me think. Hello to you, my friend")
    second = talk.ask(user("hi"), said=thought, later_ns=2 * MAX_RETRY_NS)
    rest = (answer("Hello to you, my friend"), user("a"))
    found = talk.ask(user("hi"), *rest, said=answer("b"), later_ns=2 * MAX_RETRY_NS)
    assert (found.rule, found.predecessor) == (Rule.PREFIX, second.call)
    strange = talk.ask(user("hi"), answer("Was?"), user("a"), later_ns=2 * MAX_RETRY_NS)
    assert strange.rule is Rule.NEW


def test_an_answer_of_signs_alone_is_an_answer() -> None:
    """It is not alike to every other one."""
    talk = Talk()
    talk.ask(user("hi"), said=answer("\N{WAVING HAND SIGN}"))
    assert talk.ask(user("hi"), answer("Who are you?"), user("a")).rule is Rule.NEW


def test_what_failed_is_no_successor() -> None:
    """A client that trims a request that was too long continues the same call: that is no fork."""
    talk = Talk()
    talk.ask(user("hi"), said=answer("Hello"))
    history = (user("hi"), answer("Hello"))
    for _ in range(2):
        talk.ask(*history, user("A long question"))
    short = talk.ask(*history, user("A question"), said=answer("Yes"))
    assert (short.rule, short.predecessor, short.is_fork) == (Rule.STATE, 1, False)
    assert talk.ask(*history, user("Another"), said=answer("No")).is_fork


def test_a_retry_that_succeeds_is_a_successor() -> None:
    """The call that it continues was continued by the call that failed, and so by itself."""
    talk = Talk()
    talk.ask(user("hi"), said=answer("Hello"))
    history = (user("hi"), answer("Hello"), user("a"))
    for said in (None, None, answer("Yes")):
        talk.ask(*history, said=said)
    assert talk.ask(*history[:2], user("b"), said=answer("No")).is_fork


def test_requests_without_a_history_are_nobodys() -> None:
    """An empty list of messages, or a system message alone, is no conversation."""
    talk = Talk()
    for messages in ((), (SYSTEM,), (SYSTEM,), ()):
        assert talk.ask(*messages).rule is Rule.NEW


def test_equal_calls_that_several_may_mean_are_linked_to_none() -> None:
    """Never a coin toss; what nobody continued is taken where it is one alone."""
    talk = Talk()
    talk.ask(user("hi"), said=answer("Hello"))
    talk.ask(user("hi"), said=answer("Hello"))
    lost = talk.ask(user("hi"), answer("Hello"), user("a"), said=answer("b"))
    assert (lost.rule, lost.is_ambiguous, lost.conversation) == (Rule.NEW, True, 3)
    one = Talk()
    one.ask(user("hi"), said=answer("Hello"))
    one.ask(user("hi"), answer("Hello"), user("a"), said=answer("b"))
    one.ask(user("hi"), said=answer("Hello"))
    found = one.ask(user("hi"), answer("Hello"), user("c"), said=answer("d"))
    assert (found.rule, found.predecessor, found.is_fork) == (
        Rule.STATE,
        3,
        False,
    )


def test_an_edited_turn_is_a_fork() -> None:
    """The predecessor was continued before; the conversation is the same."""
    talk = Talk()
    talk.ask(user("hi"), said=answer("Hello"))
    talk.ask(user("hi"), answer("Hello"), user("a"), said=answer("b"))
    found = talk.ask(user("hi"), answer("Hello"), user("c"), said=answer("d"))
    assert (found.predecessor, found.conversation, found.is_fork) == (
        1,
        1,
        True,
    )


def test_content_of_another_scope_is_nobodys() -> None:
    """Two callers with equal chats stay two."""
    talk = Talk()
    talk.ask(user("hi"), said=calls(STRONG))
    other = talk.ask(user("hi"), calls(STRONG), result(STRONG), scope=b"caller-2")
    assert other.rule is Rule.NEW


def test_what_is_forgotten_is_not_found() -> None:
    """The memory has a limit: the oldest goes, with all of its keys."""
    talk = Talk(max_calls=2)
    talk.ask(user("hi"), said=answer("Hello"))
    talk.ask(user("a"), said=answer("b"))
    talk.ask(user("c"), said=answer("d"))
    assert talk.ask(user("hi"), answer("Hello"), user("e")).rule is Rule.NEW
    assert talk.ask(user("c"), answer("d"), user("e")).predecessor == 3
    assert len(talk.memory) == 2


@pytest.mark.parametrize("weak", ["0", "call_0", "functions.add:0", "a" * 40, "call_11112222"])
def test_weak_ids(weak: str) -> None:
    """They are short, or made of few letters."""
    assert not is_strong(weak)


WORDS = st.sampled_from(["yes", "no", "why", "fix it"])


@given(st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=2, max_size=5), st.data())
def test_conversations_that_run_at_once_are_told_apart(talks: list[list[str]], data: Any) -> None:
    """Each begins in its own words; whatever the order of their calls, no link is wrong."""
    talk = Talk()
    open_turns = [[(f"talk {n}", f"answer {n}"), *((w, f"{w} {n}") for w in words)]
                  for n, words in enumerate(talks)]  # fmt: skip
    place, of_call = [0] * len(talks), {}
    count = 0
    while left := [n for n, turns in enumerate(open_turns) if place[n] < len(turns)]:
        n = data.draw(st.sampled_from(left))
        turns = open_turns[n][: place[n] + 1]
        messages = [one for said, told in turns for one in (user(said), answer(told))]
        found = talk.ask(*messages[:-1], said=messages[-1])
        count += 1
        of_call[count] = n
        assert found.predecessor is None or of_call[found.predecessor] == n
        assert (found.predecessor is not None) == (place[n] > 0)
        place[n] += 1
