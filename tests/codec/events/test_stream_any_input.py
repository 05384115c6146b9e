"""The events of bytes in every form, and of chunks of any shape."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.chat import accumulator
from codec.chat.stream import ChatStream
from codec.events import (
    ArgumentsDelta,
    ArgumentsDone,
    ChatEventStream,
    ChunkEvent,
    ContentDelta,
    ErrorEvent,
    EventOrder,
)
from tests.codec.events.told_events import (
    CHUNK,
    DELTAS,
    called,
    everything,
    said,
    short,
    sums,
    values,
)
from tests.codec.text.test_sse import split
from tests.fixtures.wire import DONE, call, sse, usage_of


@pytest.mark.parametrize(
    "failure",
    [
        b'event: error\ndata: {"message":"out of water"}\n\n',
        b"event: error\n: out of water\n\n",
        b"event: error\ndata: out of water\n\n",
        b'data: {"error":{"message":"out of water"}}',
    ],
)
def test_errors_among_bytes(failure: bytes) -> None:
    """In every form, even as the cut-off last event (``docs/contract/wire.md#errors-in-a-200``).

    See ``docs/contract/sources.md#s1-10``.
    """
    stream = ChatEventStream()
    after = sse(said("a")) if failure.endswith(b"\n") else b""
    events = stream.feed_bytes(sse(said("Te")) + failure + after) + stream.finish()
    assert [e.type for e in events] == ["chunk", "content.delta", "error"]
    assert isinstance(events[-1], ErrorEvent)
    assert events[-1].error.message == "out of water"
    assert stream.final_content() == "Te"


@pytest.mark.parametrize("value", [None, 1, "x", [], {}, {"hello": 1}, [{"choices": []}]])
def test_what_is_no_chunk_has_no_event(value: Any) -> None:
    """It is noted."""
    stream = ChatEventStream()
    assert stream.feed(value) == []
    assert stream.snapshot is None
    assert "foreign_chunk" in stream.response().anomalies


def test_bytes_that_are_no_chunks_are_noted() -> None:
    """The same tolerance as the observer's, with its counts."""
    stream = ChatEventStream(choice_count=2)
    data = b"data: {oops\n\n" + sse(said("Tea", "stop")) + DONE
    assert [e.type for e in stream.feed_bytes(data)] == ["chunk", "content.delta", "content.done"]
    response = stream.response()
    assert (response.done, response.event_count, response.choice_count) == (True, 2, 2)
    assert "non_json_event" in response.anomalies


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_event_streams_in_every_form(end: bytes) -> None:
    """Any line end, any name, cut after every byte (``docs/contract/sources.md#s1-17``)."""
    lines = [
        *(b"event: delta", b": brewing", b'data: {"choices":[', b"data:", b'data: {"index":0,'),
        'data: "delta":{"content":"чай\u2028\\n"}}]}'.encode(),
        *(b"", b"event: nothing", b"", b"data: [DONE]"),
    ]
    stream = ChatEventStream()
    events = [event for byte in end.join(lines) for event in stream.feed_bytes(bytes([byte]))]
    [chunk, delta] = events
    assert chunk.type == "chunk"
    assert isinstance(delta, ContentDelta)
    assert delta.delta == "чай\u2028\n"
    assert [event.type for event in stream.finish()] == ["content.done"]
    assert stream.response().done


def test_the_last_event_may_lack_its_blank_line() -> None:
    """A chunk that is whole but for that has its events at the end, before those of the end."""
    stream = ChatEventStream()
    assert stream.feed_bytes(sse(said("Tea")).strip()) == []
    assert [e.type for e in stream.finish()] == ["chunk", "content.delta", "content.done"]


def test_past_the_limits_there_are_no_more_deltas(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was folded was told, and nothing else, neither of calls nor of choices."""
    monkeypatch.setattr(accumulator, "MAX_ANSWER_BYTES", 9_000)
    monkeypatch.setattr(accumulator, "MAX_CHOICES", 2)
    stream = ChatEventStream()
    chunks = [
        *(called(call(i, f"c{i}", "boil", "{}")) for i in range(9)),
        *(said("Tea", index=i) for i in (0, 1, 2)),
        called(call(0, None, None, "more")),
        CHUNK({}, "tool_calls"),
    ]
    events = [event for chunk in chunks for event in stream.feed(chunk)] + stream.finish()
    assert "observer_limit" in stream.response().anomalies
    assert {e.choice_index for e in events if isinstance(e, ContentDelta)} <= {0, 1}
    calls_told = [e.call_id for e in events if isinstance(e, ArgumentsDelta)]
    assert 0 < len(calls_told) < 9
    assert calls_told == [e.call_id for e in events if isinstance(e, ArgumentsDone)]
    assert sums(events) == values(stream.response())


def test_what_is_nested_too_deeply_holds_nothing_up() -> None:
    """A member that the fold leaves out costs nothing that stands beside it."""
    deep: Any = {}
    for _ in range(5_000):
        deep = {"in": deep, "side": 1}
    stream = ChatEventStream()
    first = stream.feed(CHUNK({"content": "Te", "odd": deep}))
    assert [e.type for e in first] == ["chunk", "content.delta"]
    [_, event] = stream.feed(said("a"))
    assert isinstance(event, ContentDelta)
    assert (event.delta, event.snapshot) == ("a", "Tea")
    response = stream.response()
    assert "observer_limit" in response.anomalies
    assert "odd" not in response.body["choices"][0]["message"]


PIECES = ["", "a", "b", "{", '{"k":', "1}", "\ud83e", "\U0001f980", " "]
odd: st.SearchStrategy[Any] = st.none() | st.integers(-1, 3) | st.just([]) | st.just({})
texts = st.sampled_from(PIECES)
indexes = st.integers(0, 2)
entries = st.builds(
    lambda index, arguments, name: (
        {"index": index, "id": f"c{index}", "function": {"arguments": arguments}} | name
    ),
    indexes,
    texts,
    st.sampled_from([{}, {"type": "function"}, {"function": {"name": "f"}}]),
)
logprobs = st.lists(st.sampled_from(["t", "u"]), max_size=2)
parts = st.lists(texts | st.just({"type": "text", "text": "p"}) | odd, max_size=2)
deltas = st.fixed_dictionaries(
    {},
    optional={
        "role": st.just("assistant") | odd,
        "content": texts | parts | odd,
        "refusal": texts | odd,
        "reasoning": texts | odd,
        "tool_calls": st.lists(entries, max_size=3) | odd,
        "function_call": st.just({"name": "f", "arguments": "{}"}) | odd,
    },
)
choices = st.fixed_dictionaries(
    {"index": indexes | odd},
    optional={
        "delta": deltas | odd,
        "message": deltas,
        "text": texts,
        "finish_reason": st.sampled_from([None, "", "stop", "tool_calls", 3]),
        "logprobs": st.fixed_dictionaries({}, optional={"content": logprobs, "refusal": logprobs})
        | odd,
    },
)
chunks = st.fixed_dictionaries(
    {"choices": st.lists(choices, max_size=3) | st.none()},
    optional={"usage": st.just(usage_of(1, 1)) | odd, "id": st.just("i") | odd},
)
sequences = st.lists(chunks | odd | st.just({"value": "v"}), max_size=10)


def wire(sequence: list[Any]) -> bytes:
    """An event stream; half characters are escaped."""
    return b"".join(b"data: %b\n\n" % json.dumps(value).encode() for value in sequence)


@given(sequence=sequences, order=st.sampled_from(EventOrder))
def test_the_deltas_are_the_answer(sequence: list[Any], order: EventOrder) -> None:
    """Put together they are what the observer's stream folds, of any shape of chunks."""
    stream = ChatStream()
    stream.feed(wire(sequence))
    response = stream.finish()
    told = sums(everything(*sequence, order=order))
    answer = values(response)
    if "cumulative_content" in response.anomalies:
        told = {key: value for key, value in told.items() if key[1] != "content.delta"}
        answer = {key: value for key, value in answer.items() if key[1] != "content.delta"}
    assert told == answer


@given(sequence=sequences, order=st.sampled_from(EventOrder))
def test_whatever_begins_is_done_once(sequence: list[Any], order: EventOrder) -> None:
    """Each kind that had a delta, of text not an empty one, has one done event."""
    begun = set()
    ended = []
    for event in everything(*sequence, order=order):
        if isinstance(event, DELTAS):
            if event.delta or isinstance(event, ArgumentsDelta):
                begun.add((event.choice_index, short(event).replace(".delta", ".done")))
        elif not isinstance(event, ChunkEvent | ErrorEvent):
            ended.append((event.choice_index, short(event)))
            assert ended[-1] in begun
    assert sorted(ended) == sorted(begun)


@given(sequence=sequences, order=st.sampled_from(EventOrder), data=st.data())
def test_bytes_give_the_events_of_their_chunks(
    sequence: list[Any], order: EventOrder, data: st.DataObject
) -> None:
    """However they are cut into reads, and also where many chunks are alike."""
    sequence = [chunk for chunk in sequence for _ in range(data.draw(st.sampled_from([1, 1, 3])))]
    raw = wire(sequence) + DONE
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=6))
    stream = ChatEventStream(order=order)
    events = [event for piece in split(raw, cuts) for event in stream.feed_bytes(piece)]
    assert events + stream.finish() == everything(*sequence, order=order)
