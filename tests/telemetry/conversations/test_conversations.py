"""The place of each call: callers told apart, numbers that rise, calls without a place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from codec.apis.table import get_api
from codec.units import MAX_UNITS
from telemetry.conversations.conversations import Conversations, Place
from telemetry.errors import StoreError
from telemetry.observing.exchange import Exchange, Outcome
from telemetry.privacy.credentials import NO_CREDENTIALS, Credentials
from tests.telemetry.conversations.talks import answer, calls, result, user
from tests.telemetry.exchanges import make_exchange

ANN, BOB = Credentials(["sk-ann-000000000001"]), Credentials(["sk-bob-000000000002"])
HISTORY = (user("hi"), answer("Hello"), user("Fix it"))


def talk(
    *messages: dict[str, Any],
    said: dict[str, Any] | None = None,
    credentials: Credentials = NO_CREDENTIALS,
    **fields: Any,
) -> Exchange:
    """An exchange of a chat."""
    choices = [] if said is None else [{"index": 0, "message": said, "finish_reason": "stop"}]
    told = json.dumps({"id": "a-1", "choices": choices}).encode()
    response = None if said is None else get_api("chat.completions").read_said(told)
    return make_exchange(
        {"messages": list(messages)}, response=response, credentials=credentials, **fields
    )


def test_a_conversation_has_a_number_and_turns() -> None:
    """The results of tools belong to the turn that called them."""
    conversations = Conversations()
    asked = (user("hi"), calls("call_0"), result("call_0"))
    places = [
        conversations.follow(talk(user("hi"), said=calls("call_0"))),
        conversations.follow(talk(*asked, said=answer("Hello"))),
        conversations.follow(talk(*asked, answer("Hello"), user("Thanks"), said=answer("!"))),
        conversations.follow(talk(user("another"), said=answer("?"))),
    ]
    assert places == [
        Place(1, 1, None),
        Place(1, 1, "state"),
        Place(1, 2, "state"),
        Place(4, 1, None),
    ]


def test_callers_and_upstreams_are_told_apart() -> None:
    """Rule 2: equal chats of two keys, or of two upstreams, are two conversations."""
    conversations = Conversations()
    for fields in ({"credentials": ANN}, {"credentials": BOB}, {"upstream": "other"}):
        conversations.follow(talk(user("hi"), said=answer("Hello"), **fields))
    for number, credentials in ((1, ANN), (2, BOB)):
        place = conversations.follow(talk(*HISTORY, said=answer("!"), credentials=credentials))
        assert place == Place(number, 2, "state")
    place = conversations.follow(talk(*HISTORY, said=answer("!"), upstream="other"))
    assert place == Place(3, 2, "state")
    assert conversations.ambiguous == 0


def test_numbers_rise_over_restarts() -> None:
    """Rule 3: the last one is asked for when it is needed, and asked again if that failed."""
    tries = iter([False, True])

    def find_last() -> int:
        if not next(tries):
            raise StoreError("it is busy")
        return 41

    conversations = Conversations(find_last)
    with pytest.raises(StoreError):
        conversations.follow(talk(user("hi")))
    assert conversations.follow(talk(user("hi"))) == Place(42, 1, None)


def test_calls_without_messages_have_no_place() -> None:
    """Embeddings, a body that is none, a history that is too long to be compared."""
    conversations = Conversations()
    embedding = make_exchange({"input": "hi"}, endpoint="embeddings")
    assert conversations.follow(embedding) is None
    assert conversations.follow(replace(make_exchange(), request=None)) is None
    endless = talk(*[user("a")] * (MAX_UNITS + 1))
    assert conversations.follow(endless) == Place(1, 1, None)
    assert conversations.follow(endless) == Place(2, 1, None)


def test_the_same_request_after_one_that_was_left_is_a_retry() -> None:
    """It is in the same turn of the same conversation."""
    conversations = Conversations()
    conversations.follow(talk(user("hi"), outcome=Outcome.CANCELLED))
    assert conversations.follow(talk(user("hi"), said=answer("!"))) == Place(1, 1, "retry")
