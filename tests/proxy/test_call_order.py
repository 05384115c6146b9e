"""``proxy.reading.call_order``: what is new in a conversation, and what was said before."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy.reading.call_order import (
    MAX_EARLIER,
    MAX_NEW,
    Conversation,
    find_question,
    order_messages,
)
from proxy.reading.flat_messages import ContentPart, RecordedMessage
from tests.smolagents import call, calling, observation, task


def say(role: str, text: str = "words", **members: Any) -> RecordedMessage:
    """A message of one text."""
    return RecordedMessage(
        index=0, role=role, parts=(ContentPart(kind="text", text=text),), **members
    )


SYSTEM, USER, ANSWER = say("system"), say("user"), say("assistant")
RESULT = say("tool", tool_call_id="c")
RESULT_BY_USER = say("user", tool_call_id="c")
REMINDER = say("user", "<system-reminder>Mind the gap.</system-reminder>\n")
IMAGE = RecordedMessage(index=0, role="user", parts=(ContentPart(kind="image", text="u"),))
EMBEDDED = say("embedding")

MESSAGES = st.lists(
    st.sampled_from([SYSTEM, USER, ANSWER, RESULT, RESULT_BY_USER, REMINDER, IMAGE, EMBEDDED]),
    max_size=40,
)


def sizes(said: Conversation) -> tuple[int, ...]:
    """The sizes of the parts in the order in which the messages were sent."""
    parts = (said.system, said.older, said.earlier, said.question, said.between, said.latest)
    return tuple(map(len, parts))


@given(messages=MESSAGES)
def test_every_message_is_in_one_part(messages: list[RecordedMessage]) -> None:
    """In the order in which they were sent."""
    said = order_messages(messages)
    parts = (said.system, said.older, said.earlier, said.question, said.between, said.latest)
    assert [one for part in parts for one in part] == messages
    assert len(said.question) <= 1
    assert len(said.earlier) <= MAX_EARLIER
    assert not said.older or len(said.earlier) == MAX_EARLIER
    assert not said.between or len(said.latest) == MAX_NEW


@given(messages=MESSAGES)
def test_the_question_is_the_newest_text_of_the_user(
    messages: list[RecordedMessage],
) -> None:
    """No result of a tool, no reminder of a program, and no image without a word."""
    said = order_messages(messages)
    assert list(said.question) == [USER] * (USER in messages)
    assert USER not in [*said.between, *said.latest]


def test_a_long_conversation() -> None:
    """The last turn before it is near, and what is older is apart, as the system's words are."""
    messages = [SYSTEM, SYSTEM, *[USER, ANSWER] * 20, USER]
    assert sizes(order_messages(messages)) == (2, 36, 4, 1, 0, 0)


def test_a_long_run_of_an_agent() -> None:
    """Its last steps are near."""
    messages = [SYSTEM, USER, *[ANSWER, RESULT] * 30]
    assert sizes(order_messages(messages)) == (1, 0, 0, 1, 50, 10)


def test_without_a_question_what_follows_the_last_answer_is_new() -> None:
    """As where the user showed an image alone; an answer that is begun is new, too."""
    assert sizes(order_messages([IMAGE, ANSWER, IMAGE])) == (0, 0, 2, 0, 0, 1)
    assert sizes(order_messages([IMAGE, ANSWER, IMAGE, ANSWER])) == (0, 0, 2, 0, 0, 2)


def test_texts_that_are_no_conversation_are_all_new() -> None:
    """However many are to be embedded."""
    assert sizes(order_messages([EMBEDDED] * 50)) == (0, 0, 0, 0, 0, 50)
    assert sizes(order_messages([])) == (0, 0, 0, 0, 0, 0)


def test_results_in_a_users_text_are_no_question() -> None:
    """As smolagents sends them; the user's next task may stand behind one."""
    asked = say("user", task("Where is it?"))
    step = say("assistant", calling(call("c1", "read", {})))
    told = say("user", observation("x"))
    said = order_messages([SYSTEM, asked, step, told])
    assert list(said.question) == [asked]
    assert list(said.latest) == [step, told]
    assert find_question([SYSTEM, asked, step, told]) == "Where is it?"
    final = say("assistant", calling(call("c2", "final_answer", {"answer": "There"})))
    then = say("user", f"{observation('There')}\n{task('Since when?')}")
    assert list(order_messages([asked, final, then]).question) == [then]
    assert find_question([asked, final, then]) == "Since when?"
