"""``codec.events.stream``: which events there are, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from codec.events import (
    ChatEventStream,
    ChunkEvent,
    ContentDelta,
    ContentDone,
    EventOrder,
    LogprobsContentDelta,
    LogprobsRefusalDelta,
)
from tests.codec.events.told_events import CHUNK, SDK, called, everything, said, token, told
from tests.fixtures.wire import call, calls, usage_of


def test_the_order_within_a_chunk() -> None:
    """Deltas in their order, then what is done in the same; or in openai-python's order.

    See ``docs/contract/sources.md#s1-4`` and ``docs/contract/sources.md#s1-13``.
    """
    chunk = CHUNK(
        {"content": "Tea", "refusal": "No", **calls(call(0, "c1", "brew", "{}"))},
        "stop",
        choice={"logprobs": {"content": [token("Tea")], "refusal": [token("No")]}},
    )
    deltas = ["content.delta", "refusal.delta"]
    logprobs = ["logprobs.content.delta", "logprobs.refusal.delta"]
    done = [
        *("content.done", "refusal.done", "logprobs.content.done", "logprobs.refusal.done"),
        "tool.done 0",
    ]
    assert told(chunk) == [["chunk", *deltas, *logprobs, "tool.delta 0", *done]]
    assert told(chunk, order=SDK) == [["chunk", *deltas, "tool.delta 0", *logprobs, *done]]


def test_choices_of_one_chunk_come_one_after_the_other() -> None:
    """In the order of the wire (``docs/contract/sources.md#s1-4``)."""
    entries = [
        {"index": 1, "delta": {"content": "b"}, "finish_reason": "stop"},
        {"index": 0, "delta": {"content": "a"}},
    ]
    events = ChatEventStream().feed(CHUNK.alone(choices=entries))
    assert [(e.type, getattr(e, "choice_index", None)) for e in events] == [
        ("chunk", None),
        ("content.delta", 1),
        ("content.done", 1),
        ("content.delta", 0),
    ]


def test_empty_text_has_no_delta() -> None:
    """Neither before the first text nor after it (``docs/contract/sources.md#s1-5``)."""
    assert told(said(""), said("x"), said("")) == [["chunk"], ["chunk", "content.delta"], ["chunk"]]
    [_, event] = ChatEventStream().feed(said('{"tea":"Dar'))
    assert isinstance(event, ContentDelta)
    assert (event.delta, event.snapshot) == ('{"tea":"Dar', '{"tea":"Dar')
    assert event.parsed == {"tea": "Dar"}


@pytest.mark.parametrize("order", EventOrder)
def test_done_events_come_once(order: EventOrder) -> None:
    """Neither a second finish reason nor the usage nor the end repeats one."""
    events = everything(
        said("Tea.", "stop"),
        CHUNK({}, "stop"),
        CHUNK.alone(usage=usage_of(3, 1)),
        order=order,
    )
    assert [e.type for e in events] == [
        *("chunk", "content.delta", "content.done"),
        *("chunk", "chunk"),
    ]


@pytest.mark.parametrize("reason", ["", 3, True, ["stop"], "x" * 300])
def test_a_finish_reason_that_is_none_finishes_nothing(reason: Any) -> None:
    """Only what the answer has as its finish reason is one (``docs/contract/sources.md#s1-7``)."""
    assert told(CHUNK({"content": "Tea"}, reason)) == [["chunk", "content.delta"]]


@pytest.mark.parametrize("order", EventOrder)
def test_an_error_is_the_last_event(order: EventOrder) -> None:
    """It passes through and ends; what there was stays (``docs/contract/sources.md#s1-10``)."""
    stream = ChatEventStream(order=order)
    error = {"error": {"message": "out of water", "type": "server_error"}}
    assert told(said("Te"), error, said("a"), error, stream=stream) == [
        ["chunk", "content.delta"],
        ["error"],
        [],
        [],
    ]
    assert stream.finish() == []
    assert stream.final_content() == "Te"
    failure = stream.response().error
    assert failure is not None
    assert failure.message == "out of water"


def test_an_error_beside_choices() -> None:
    """Rule 5: what its chunk has comes first (OpenRouter), and nothing is done."""
    [events] = told(said("Te", "error") | {"error": {"message": "out of water", "code": 502}})
    assert events == ["chunk", "content.delta", "error"]


def test_choices_have_a_state_each() -> None:
    """The text, snapshots and end of one are its own (``docs/contract/sources.md#s1-12``)."""
    events = everything(
        said("Gr", index=1),
        said("Bl", index=0),
        said("een", "stop", index=1),
        said("ack", "length", index=0),
    )
    assert [(e.choice_index, e.snapshot) for e in events if isinstance(e, ContentDelta)] == [
        (1, "Gr"),
        (0, "Bl"),
        (1, "Green"),
        (0, "Black"),
    ]
    assert [e for e in events if isinstance(e, ContentDone)] == [
        ContentDone(choice_index=1, content="Green"),
        ContentDone(choice_index=0, content="Black"),
    ]


def test_the_order_of_openai_python() -> None:
    """Empty text has a delta; a call's begin ends the text (``docs/contract/sources.md#s1-13``)."""
    assert told(
        CHUNK({"role": "assistant", "content": ""}),
        said("One moment."),
        called(call(0, "c1", "boil", "")),
        called(call(0, None, None, "{}")),
        called(call(1, "c2", "pour", "")),
        CHUNK({}, "tool_calls"),
        order=SDK,
    ) == [
        ["chunk", "content.delta"],
        ["chunk", "content.delta"],
        ["chunk", "tool.delta 0", "content.done"],
        ["chunk", "tool.delta 0"],
        ["chunk", "tool.delta 1", "tool.done 0"],
        ["chunk", "tool.done 1"],
    ]


def test_log_probabilities() -> None:
    """Those of each token as they come, all at the end (``docs/contract/sources.md#s1-16``)."""
    events = everything(
        CHUNK({"content": "Te"}, choice={"logprobs": {"content": [token("Te")], "refusal": None}}),
        CHUNK({"content": "a"}, choice={"logprobs": {"content": [token("a")], "refusal": None}}),
        CHUNK({}, "stop", choice={"logprobs": None}),
    )
    deltas = [e for e in events if isinstance(e, LogprobsContentDelta)]
    assert [(e.delta, e.snapshot) for e in deltas] == [
        ((token("Te"),), (token("Te"),)),
        ((token("a"),), (token("Te"), token("a"))),
    ]
    [done] = [e for e in events if e.type == "logprobs.content.done"]
    assert done.content == (token("Te"), token("a"))


def test_log_probabilities_that_are_none() -> None:
    """Rule 7: words where a list belongs have no events; the list that follows is a new one."""
    values: list[Any] = [[1], "?", [2], {}, None, [], [3]]
    chunks = [CHUNK({}, choice={"logprobs": {"refusal": value}}) for value in values]
    events = everything(*chunks)
    assert [e.snapshot for e in events if isinstance(e, LogprobsRefusalDelta)] == [
        (1,),
        (2,),
        (2, 3),
    ]


def test_a_character_that_is_cut_between_two_deltas_is_whole() -> None:
    """In what is done and in the snapshots; each delta is what came."""
    stream = ChatEventStream()
    events = [e for half in ("\ud83c", "\udf0a") for e in stream.feed(said(half))]
    told = [event for event in events if isinstance(event, ContentDelta)]
    assert [event.delta for event in told] == ["\ud83c", "\udf0a"]
    assert told[-1].snapshot == "\U0001f30a"
    assert stream.finish() == [ContentDone(choice_index=0, content="\U0001f30a")]


def test_text_that_repeats_itself_is_done_without() -> None:
    """Rule 6: the deltas are what came, each the text so far; what is done is the text."""
    events = everything(*(said("Green tea"[:end]) for end in (3, 5, 6, 9)), CHUNK({}, "stop"))
    assert events[-1] == ContentDone(choice_index=0, content="Green tea")
    assert [e.delta for e in events if isinstance(e, ContentDelta)][-1] == "Green tea"


def test_a_legacy_completion_has_the_same_events() -> None:
    """Text is content, also where it stands bare (Writer)."""
    choice = {"index": 0, "text": "Green", "finish_reason": None}
    events = everything({"object": "text_completion", "choices": [choice]}, {"value": " tea"})
    assert [e.type for e in events] == [
        *("chunk", "content.delta") * 2,
        "content.done",
    ]
    assert events[-1] == ContentDone(choice_index=0, content="Green tea")


def test_a_chunk_event_has_the_chunk() -> None:
    """As it was fed."""
    chunk = said("Tea")
    [event, _] = ChatEventStream().feed(chunk)
    assert isinstance(event, ChunkEvent)
    assert event.chunk is chunk
