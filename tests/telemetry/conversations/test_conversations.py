"""The place of each call: callers told apart, numbers that rise, calls without a place."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from codec.apis.table import get_api
from codec.history_items import MAX_HISTORY_ITEMS
from telemetry.conversations.conversations import REREAD_SECONDS, Conversations
from telemetry.conversations.match import MIN_DISTINCTIVE_WORDS
from telemetry.conversations.memory import NamedConversations
from telemetry.conversations.positions import with_position
from telemetry.errors import StoreError
from telemetry.observing.exchange import ClientContext, Exchange, Outcome
from telemetry.privacy.credentials import NO_CREDENTIALS, Credentials
from telemetry.privacy.head_credentials import find_head_credentials
from telemetry.span_identity import SpanIdentity
from tests.telemetry.conversations.talks import answer, calls, result, user
from tests.telemetry.exchanges import START_NS, make_exchange

if TYPE_CHECKING:
    from telemetry.conversation_position import ConversationPosition

Place = tuple[int, int, str | None]

ANN, BOB = Credentials(["sk-ann-000000000001"]), Credentials(["sk-bob-000000000002"])
FIRST: dict[str, Any] = {"start_ns": START_NS, "end_ns": START_NS + 1}
SECOND: dict[str, Any] = {"start_ns": START_NS + 2, "end_ns": START_NS + 3}
SPANS = count(1_000)
HISTORY = (user("hi"), answer("Hello"), user("Fix it"))


def talk(
    *messages: dict[str, Any],
    said: dict[str, Any] | None = None,
    credentials: Credentials = NO_CREDENTIALS,
    **fields: Any,
) -> Exchange:
    """An exchange of a chat, with a span of its own."""
    choices = [] if said is None else [{"index": 0, "message": said, "finish_reason": "stop"}]
    told = json.dumps({"id": "a-1", "choices": choices}).encode()
    response = None if said is None else get_api("chat.completions").read_said(told)
    fields.setdefault("identity", other_span(next(SPANS)))
    return make_exchange(
        {"messages": list(messages)}, response=response, credentials=credentials, **fields
    )


def follow(conversations: Conversations, exchange: Exchange) -> ConversationPosition | None:
    """The place of a call, all of it."""
    followed = conversations.follow(exchange)
    return None if followed is None else followed.position


def find_positions(conversations: Conversations, *exchanges: Exchange) -> list[Place]:
    """Number, turn and rule of each call."""
    places = [follow(conversations, one) for one in exchanges]
    return [(one.conversation, one.turn, one.rule) for one in places if one is not None]


def find_position(conversations: Conversations, exchange: Exchange) -> Place:
    """Those of one call."""
    [position] = find_positions(conversations, exchange)
    return position


def test_a_conversation_has_a_number_and_turns() -> None:
    """The results of tools belong to the turn that called them."""
    conversations = Conversations()
    asked = (user("hi"), calls("call_0"), result("call_0"))
    places = find_positions(
        conversations,
        talk(user("hi"), said=calls("call_0")),
        talk(*asked, said=answer("Hello")),
        talk(*asked, answer("Hello"), user("Thanks"), said=answer("!")),
        talk(user("another"), said=answer("?")),
    )
    assert places == [(1, 1, None), (1, 1, "state"), (1, 2, "state"), (4, 1, None)]


def test_callers_and_upstreams_are_told_apart() -> None:
    """Equal chats of two keys, or of two upstreams, are two conversations."""
    conversations = Conversations()
    for fields in ({"credentials": ANN}, {"credentials": BOB}, {"upstream": "other"}):
        follow(conversations, talk(user("hi"), said=answer("Hello"), **fields))
    for number, credentials in ((1, ANN), (2, BOB)):
        position = find_position(
            conversations, talk(*HISTORY, said=answer("!"), credentials=credentials)
        )
        assert position == (number, 2, "state")
    position = find_position(conversations, talk(*HISTORY, said=answer("!"), upstream="other"))
    assert position == (3, 2, "state")
    assert conversations.ambiguous == 0


@pytest.mark.parametrize("header", ["authorization", "api-key", "x-api-key", "x-goog-api-key"])
@pytest.mark.parametrize("keys", [("k1", "k2"), ("team-a", "team-b"), ("", "k1")])
def test_callers_are_told_apart_by_keys_that_are_too_short_to_be_masked(
    header: str, keys: tuple[str, str]
) -> None:
    """Servers of one's own have keys of a few letters."""
    conversations = Conversations()
    for key in keys:
        credentials = find_head_credentials([(header, key)])
        follow(conversations, talk(user("hi"), said=answer("Hello"), credentials=credentials))
    for number, key in enumerate(keys, 1):
        credentials = find_head_credentials([(header, key)])
        position = find_position(
            conversations, talk(*HISTORY, said=answer("!"), credentials=credentials)
        )
        assert position == (number, 2, "state")


def test_a_call_that_is_signed_goes_on_from_one_of_the_same_key() -> None:
    """Amazon's signature is another one in each request."""
    conversations = Conversations()
    places = [
        find_position(conversations, talk(*messages, said=answer("Hello"), credentials=credentials))
        for messages, credentials in (
            ((user("hi"),), _signed("AKIDANNEXAMPLE", "1")),
            ((user("hi"),), _signed("AKIDBOBEXAMPLE", "2")),
            (HISTORY, _signed("AKIDANNEXAMPLE", "3")),
            (HISTORY, _signed("AKIDBOBEXAMPLE", "4")),
        )
    ]
    assert places == [(1, 1, None), (2, 1, None), (1, 2, "state"), (2, 2, "state")]


def _signed(key_id: str, digit: str) -> Credentials:
    value = (
        f"AWS4-HMAC-SHA256 Credential={key_id}/20261128/us-east-1/bedrock/aws4_request, "
        f"SignedHeaders=host;x-amz-date, Signature={digit * 64}"
    )
    return find_head_credentials([("authorization", value)])


def test_callers_whose_credentials_nobody_can_open_are_not_one_caller() -> None:
    """Calls that waited in the spool over a restart; the same greeting joins nobody."""
    conversations = Conversations()
    encrypted: dict[str, Any] = {"credentials": Credentials(unknown=True)}
    conversations.follow(talk(user("hi"), said=answer("Hello"), **encrypted))
    assert find_position(conversations, talk(*HISTORY, said=answer("!"), **encrypted)) == (
        2,
        1,
        None,
    )
    without = talk(user("hi"), said=answer("Hello"))
    assert find_position(conversations, without) == (3, 1, None)
    off = talk(*HISTORY, said=answer("!"), hides_content=True, **encrypted)
    assert find_position(conversations, off) == (4, 1, None)


def test_numbers_rise_over_restarts() -> None:
    """The last one is asked for when it is needed, and asked again later if that failed."""
    tries = iter([False, True])
    now_ns = [0]

    def find_last() -> int:
        if not next(tries):
            raise StoreError("it is busy")
        return 41

    conversations = Conversations(find_last, steady_ns=lambda: now_ns[0])
    for _ in range(3):  # only the first call asks: a store that fails is not asked by each
        assert follow(conversations, talk(user("hi"))) is None
    now_ns[0] = REREAD_SECONDS * 1_000_000_000
    assert find_position(conversations, talk(user("hi"))) == (42, 1, None)


def test_calls_without_messages_have_no_place() -> None:
    """Embeddings, a body that is none, a history that is too long to be compared."""
    conversations = Conversations()
    embedding = make_exchange({"input": "hi"}, endpoint="embeddings")
    assert follow(conversations, embedding) is None
    assert follow(conversations, replace(make_exchange(), request=None)) is None
    for number in (1, 2):
        endless = talk(*[user("a")] * (MAX_HISTORY_ITEMS + 1))
        assert find_position(conversations, endless) == (number, 1, None)


def test_the_same_request_after_one_that_was_left_is_a_retry() -> None:
    """It is in the same turn of the same conversation."""
    conversations = Conversations()
    follow(conversations, talk(user("hi"), outcome=Outcome.CANCELLED, **FIRST))
    assert find_position(conversations, talk(user("hi"), said=answer("!"), **SECOND)) == (
        1,
        1,
        "retry",
    )


def test_a_conversation_has_the_session_of_its_first_span() -> None:
    """From the second call on, and where tools are called; a lone question has none."""
    conversations = Conversations()
    lone = talk(user("hi"), said=answer("Hello"))
    position = follow(conversations, lone)
    assert position is not None
    assert with_position(lone, position).context.session_id is None
    second = talk(*HISTORY, said=answer("!"), identity=other_span(2))
    position = follow(conversations, second)
    assert position is not None
    session = f"conv-{lone.identity.span_id}"
    assert with_position(second, position).context.session_id == session == position.session
    assert position.before == (lone.identity.trace_id, lone.identity.span_id)
    assert (position.relation, position.source, position.call) == ("previous_turn", "inferred", 2)
    agent = talk(user("look"), said=calls("call_0"), identity=other_span(3))
    position = follow(conversations, agent)
    assert position is not None
    assert with_position(agent, position).context.session_id == f"conv-{other_span(3).span_id}"


def test_a_session_that_is_named_is_kept() -> None:
    """And is that of calls that go on and name none."""
    conversations = Conversations()
    named = ClientContext(session_id="mine")
    first = talk(user("hi"), said=answer("Hello"), context=named)
    position = follow(conversations, first)
    assert position is not None
    assert (position.session, position.source) == ("mine", "header")
    assert with_position(first, position).context == named
    second = talk(*HISTORY, said=answer("!"))
    position = follow(conversations, second)
    assert position is not None
    assert with_position(second, position).context.session_id == "mine"


@pytest.mark.parametrize(
    ("body", "source"),
    [
        ({"metadata": {"session_id": "mine"}}, "body"),
        ({"metadata": {"a": "mine"}}, "header"),
        ({}, "header"),
    ],
)
def test_who_names_a_session_is_told(body: dict[str, Any], source: str) -> None:
    """The body, where it says the same, also in its metadata; else a header."""
    asked = {"messages": [user("hi")], **body}
    exchange = make_exchange(asked, context=ClientContext(session_id="mine"))
    position = follow(Conversations(), exchange)
    assert position is not None
    assert (position.session, position.source) == ("mine", source)


def test_relations() -> None:
    """What a call is to the one before: the next in its turn, another turn, a fork, a retry."""
    conversations = Conversations()
    asked = (user("hi"), calls("call_0"), result("call_0"))
    exchanges = (
        talk(user("hi"), said=calls("call_0")),
        talk(*asked, said=answer("Hello")),
        talk(*asked, answer("Hello"), user("a"), said=answer("b")),
        talk(*asked, answer("Hello"), user("c"), outcome=Outcome.CANCELLED, **FIRST),
        talk(*asked, answer("Hello"), user("c"), said=answer("d"), **SECOND),
    )
    places = [follow(conversations, one) for one in exchanges]
    assert [one.relation for one in places if one is not None] == [
        None,
        "previous_call",
        "previous_turn",
        "fork",
        "retry",
    ]


def other_span(number: int) -> SpanIdentity:
    """The identity of another call."""
    return SpanIdentity(trace_id=f"{number:032x}", span_id=f"{number:016x}")


def test_calls_of_one_name_are_one_conversation() -> None:
    """What an agent asks beside its work, and what goes on after all was summed up."""
    conversations = Conversations()
    named = ClientContext(session_id="mine")
    places = find_positions(
        conversations,
        talk(user("A title?"), said=answer("Ports"), context=named),
        talk(user("hi"), said=answer("Hello"), context=named),
        talk(*HISTORY, said=answer("!"), context=named),
        talk(user("hi"), said=answer("Hello")),
    )
    assert places == [(1, 1, None), (1, 1, "header"), (1, 2, "state"), (4, 1, None)]


def test_a_name_is_a_callers_own() -> None:
    """Others may take the same name."""
    conversations = Conversations()
    named = ClientContext(session_id="1")
    first = talk(user("a"), said=answer("b"), context=named, credentials=ANN)
    second = talk(user("c"), said=answer("d"), context=named, credentials=BOB)
    assert [one[0] for one in find_positions(conversations, first, second)] == [1, 2]


def test_another_name_is_another_conversation() -> None:
    """A history that somebody takes along keeps its link, and has a conversation of its own.

    Where the answer is one that others get as well, it may be theirs.
    """
    conversations = Conversations()
    one, two = ClientContext(session_id="one"), ClientContext(session_id="two")
    telling = answer(" ".join(f"word{number}" for number in range(MIN_DISTINCTIVE_WORDS)))
    first = talk(user("hi"), said=telling, context=one)
    assert find_position(conversations, first) == (1, 1, None)
    position = follow(conversations, talk(user("hi"), telling, user("a"), said=None, context=two))
    assert position is not None
    assert position.conversation == 2
    assert position.before == (first.identity.trace_id, first.identity.span_id)
    find_position(conversations, talk(user("hi"), said=answer("Hello"), context=one))
    other = follow(conversations, talk(*HISTORY, said=answer("!"), context=two))
    assert other is not None
    assert other.before is None


def test_names_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is forgotten."""
    monkeypatch.setattr("telemetry.conversations.memory.MAX_NAMED", 2)
    names = NamedConversations()
    for number in range(1, 4):
        names.note(b"c", str(number), number)
    names.note(b"c", "2", 9)
    assert [names.find(b"c", str(number)) for number in range(1, 4)] == [None, 9, 3]
