from __future__ import annotations

import doctest
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec import accumulator, events
from codec.answer import ToolCall
from codec.errors import ContentFiltered, IncompleteAnswer, LengthReached
from codec.events import (
    ArgumentsDelta,
    ArgumentsDone,
    ChatEventStream,
    ChunkEvent,
    ContentDelta,
    ContentDone,
    ErrorEvent,
    EventOrder,
    LogprobsContentDelta,
    LogprobsRefusalDelta,
    RefusalDelta,
    _choice,
    partial_json,
)
from codec.events import stream as stream_module
from codec.stream import ChatStream
from tests.codec.test_sse import split
from tests.fixtures.wire import DONE, call, calls, open_stream, sse, usage_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from codec.answer import ChatResponse
    from codec.events import ChatEvent
    from codec.jsontext import JsonObject

DELTAS = (ArgumentsDelta, ContentDelta, LogprobsContentDelta, LogprobsRefusalDelta, RefusalDelta)
CHUNK = open_stream("kettle-1")
SDK = EventOrder.OPENAI_PYTHON


def said(content: str, finish: str | None = None, *, index: int = 0) -> JsonObject:
    """A chunk with text."""
    return CHUNK({"content": content}, finish, index=index)


def called(*entries: JsonObject, finish: str | None = None) -> JsonObject:
    """A chunk with tool calls."""
    return CHUNK(calls(*entries), finish)


def token(text: str) -> JsonObject:
    """One entry of log probabilities."""
    return {"token": text, "logprob": -0.5, "bytes": None, "top_logprobs": []}


def short(event: ChatEvent) -> str:
    """The type of an event, tool calls with their index."""
    if isinstance(event, ArgumentsDelta | ArgumentsDone):
        return f"tool.{event.type.rpartition('.')[2]} {event.index}"
    return event.type


def told(
    *chunks: Any, order: EventOrder = EventOrder.WIRE, stream: ChatEventStream | None = None
) -> list[list[str]]:
    """The events of each chunk, in short."""
    stream = stream or ChatEventStream(order=order)
    return [[short(event) for event in stream.feed(chunk)] for chunk in chunks]


def everything(*chunks: Any, order: EventOrder = EventOrder.WIRE) -> list[ChatEvent]:
    """All events of a stream, its end included."""
    stream = ChatEventStream(order=order)
    return [event for chunk in chunks for event in stream.feed(chunk)] + stream.finish()


def dones(events: Iterable[ChatEvent]) -> list[tuple[int, str]]:
    """Index and arguments of the tool calls that were done."""
    return [(e.index, e.arguments) for e in events if isinstance(e, ArgumentsDone)]


@pytest.mark.parametrize("module", [events, partial_json, stream_module])
def test_the_examples_work(module: ModuleType) -> None:
    """What the docstrings show is true."""
    results = doctest.testmod(module)
    assert results.attempted
    assert not results.failed


def test_there_is_no_state_before_the_first_chunk() -> None:
    """S1.3: nothing comes of nothing, not even of an error."""
    stream = ChatEventStream()
    assert stream.snapshot is None
    assert stream.final_completion() is None
    assert stream.final_message() is None
    assert stream.final_content() is None
    assert stream.final_tool_calls() is None
    stream.check()
    stream.feed({"error": {"message": "no kettle"}})
    assert stream.snapshot is None


def test_the_state_is_a_complete_completion() -> None:
    """S1.3: role by default, content null, the object renamed; last of the bugs: usage is kept."""
    stream = ChatEventStream()
    stream.feed(CHUNK({}) | {"usage": usage_of(5, 0)})
    assert stream.snapshot == {
        "id": "chatcmpl-7f",
        "object": "chat.completion",
        "created": CHUNK.head["created"],
        "model": "kettle-1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": None},
                "finish_reason": None,
            }
        ],
        "usage": usage_of(5, 0),
    }


def test_the_order_within_a_chunk() -> None:
    """S1.4: deltas in their order, then what is done in the same; the other order is S1.13's."""
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
    """S1.4: all of one choice, then all of the next, in the order of the wire."""
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
    """S1.5: before the first text and after it; what looks like JSON is parsed as far as it is."""
    assert told(said(""), said("x"), said("")) == [["chunk"], ["chunk", "content.delta"], ["chunk"]]
    [_, event] = ChatEventStream().feed(said('{"tea":"Dar'))
    assert isinstance(event, ContentDelta)
    assert (event.delta, event.snapshot) == ('{"tea":"Dar', '{"tea":"Dar')
    assert event.parsed == {"tea": "Dar"}


def test_a_whole_call_is_done_when_the_next_begins() -> None:
    """S1.6: before the delta of the next one, and the last one with the finish reason."""
    assert told(
        called(call(0, "c1", "boil", '{"cups":2}')),
        called(call(1, "c2", "pour", "{}")),
        CHUNK({}, "tool_calls"),
    ) == [
        ["chunk", "tool.delta 0"],
        ["chunk", "tool.done 0", "tool.delta 1"],
        ["chunk", "tool.done 1"],
    ]


@pytest.mark.parametrize("order", EventOrder)
def test_calls_that_take_turns_are_done_once_and_whole(order: EventOrder) -> None:
    """S1.6, second of the bugs: a call that comes again is not done before (rule 4)."""
    events = everything(
        called(call(0, "c1", "boil", '{"cu')),
        called(call(1, "c2", "pour", "{}")),
        called(call(0, None, None, 'ps":')),
        called(call(1, None, None, "")),
        called(call(0, None, None, "2}")),
        CHUNK({}, "tool_calls"),
        order=order,
    )
    assert sorted(dones(events)) == [(0, '{"cups":2}'), (1, "{}")]


def test_a_call_that_comes_again_after_it_was_done_is_not_done_twice() -> None:
    """S1.6, rule 3: its deltas still come, and the answer has all of them."""
    stream = ChatEventStream()
    chunks = [
        called(call(0, "c1", "boil", "{}")),
        called(call(1, "c2", "pour", "{}")),
        called(call(0, None, None, " ")),
        CHUNK({}, "tool_calls"),
    ]
    assert told(*chunks, stream=stream)[1:] == [
        ["chunk", "tool.done 0", "tool.delta 1"],
        ["chunk", "tool.done 1", "tool.delta 0"],
        ["chunk"],
    ]
    assert stream.finish() == []
    assert stream.final_tool_calls() == (
        ToolCall(id="c1", name="boil", arguments="{} "),
        ToolCall(id="c2", name="pour", arguments="{}"),
    )


def test_whether_a_call_is_whole_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 8: calls that take turns a thousand times are not parsed a thousand times."""
    parsed = []

    def decode(text: str) -> JsonObject:
        parsed.append(text)
        raise ValueError

    monkeypatch.setattr(_choice, "decode_json_object", decode)
    turns = [called(call(turn % 2, f"c{turn % 2}", None, "[")) for turn in range(1000)]
    assert len(dones(everything(*turns))) == 2
    assert parsed == ["[", "["]


@pytest.mark.parametrize("order", EventOrder)
def test_done_events_come_once(order: EventOrder) -> None:
    """S1.7: neither a second finish reason nor the usage nor the end repeats one."""
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
    """S1.7: only what the answer has as its finish reason is one."""
    assert told(CHUNK({"content": "Tea"}, reason)) == [["chunk", "content.delta"]]


def test_each_finish_reason_finishes_what_has_begun() -> None:
    """S1.7, rule 3: the chunk's or one before; Together has one for each of its calls."""
    assert told(
        called(call(0, "c1", "boil", "{}"), finish="tool_calls"),
        called(call(1, "c2", "pour", "{")),
        called(call(1, None, None, "}"), finish="tool_calls"),
    ) == [
        ["chunk", "tool.delta 0", "tool.done 0"],
        ["chunk", "tool.delta 1"],
        ["chunk", "tool.delta 1", "tool.done 1"],
    ]


def test_what_begins_after_the_finish_reason_is_done_at_the_end() -> None:
    """Rule 3: text and calls may follow it (dialects.md section 1, rule 5), in more than one."""
    stream = ChatEventStream()
    assert told(
        called(call(0, "c1", "boil", "{}"), finish="stop"),
        said("Tea"),
        said(" is ready."),
        called(call(1, "c2", "pour", '{"c')),
        called(call(1, None, None, '":1}')),
        stream=stream,
    ) == [
        ["chunk", "tool.delta 0", "tool.done 0"],
        ["chunk", "content.delta"],
        ["chunk", "content.delta"],
        ["chunk", "tool.delta 1"],
        ["chunk", "tool.delta 1"],
    ]
    [content, arguments] = stream.finish()
    assert content == ContentDone(choice_index=0, content="Tea is ready.")
    assert isinstance(arguments, ArgumentsDone)
    assert arguments.arguments == '{"c":1}'
    assert stream.finish() == []
    assert stream.feed(said("late")) == stream.feed_bytes(sse(said("late"))) == []


def test_the_end_without_a_finish_reason() -> None:
    """Rule 3: nothing more is expected, so all is done, by choice; cut arguments have no value."""
    events = everything(
        said("b", index=1), called(call(0, "c1", "boil", '{"cups":')), said("a", index=0)
    )
    ends = events[-3:]
    assert [(short(e), getattr(e, "choice_index", None)) for e in ends] == [
        ("content.done", 0),
        ("tool.done 0", 0),
        ("content.done", 1),
    ]
    assert isinstance(ends[1], ArgumentsDone)
    assert ends[1].parsed is None


def test_finals() -> None:
    """S1.8: completion, message, content, and tool calls, which are none if there are none."""
    stream = ChatEventStream()
    told(said("Ready", index=0), called(call(0, "c1", "boil", "{}")), stream=stream)
    told(said("Set", "stop", index=2), CHUNK({}, "tool_calls"), stream=stream)
    completion = stream.final_completion()
    assert completion is not None
    assert completion == stream.snapshot
    assert [choice["index"] for choice in completion["choices"]] == [0, 2]
    assert completion["choices"][1]["message"] == {"role": "assistant", "content": "Set"}
    assert (stream.final_content(), stream.final_content(2)) == ("Ready", "Set")
    assert stream.final_tool_calls() == (ToolCall(id="c1", name="boil", arguments="{}"),)
    assert stream.final_tool_calls(2) is None
    message = stream.final_message(2)
    assert message is not None
    assert message.content == "Set"
    assert stream.final_message(1) is None


@pytest.mark.parametrize(
    ("reasons", "error", "choice"),
    [
        (("stop", "length"), LengthReached, 1),
        (("content_filter", "length"), ContentFiltered, 0),
        ((None, "content_filter"), ContentFiltered, 1),
    ],
)
def test_the_checked_final(
    reasons: tuple[str | None, ...], error: type[IncompleteAnswer], choice: int
) -> None:
    """S1.9: any choice that was cut short or filtered is an error, the first by index."""
    stream = ChatEventStream()
    for index, reason in reversed(list(enumerate(reasons))):
        stream.feed(said("x", reason, index=index))
    with pytest.raises(IncompleteAnswer) as raised:
        stream.check()
    assert type(raised.value) is error
    assert raised.value.choice_index == choice
    assert raised.value.finish_reason == reasons[choice]


def test_the_checked_final_of_whole_choices() -> None:
    """S1.9: any other finish reason is fine, and none is not judged."""
    stream = ChatEventStream()
    told(said("x", "stop"), said("y", "eos", index=1), said("z", index=2), stream=stream)
    stream.check()


@pytest.mark.parametrize("order", EventOrder)
def test_an_error_is_the_last_event(order: EventOrder) -> None:
    """S1.10: it passes through and ends; what there was stays."""
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
    """S1.10: in every form that dialects.md section 4 has, even as the cut-off last event."""
    stream = ChatEventStream()
    after = sse(said("a")) if failure.endswith(b"\n") else b""
    events = stream.feed_bytes(sse(said("Te")) + failure + after) + stream.finish()
    assert [e.type for e in events] == ["chunk", "content.delta", "error"]
    assert isinstance(events[-1], ErrorEvent)
    assert events[-1].error.message == "out of water"
    assert stream.final_content() == "Te"


def test_choices_have_a_state_each() -> None:
    """S1.12: text, snapshots and ends of one say nothing about another."""
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
    """S1.13: empty text has its delta, and text is done when a call begins, after its delta."""
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


def test_the_state_does_not_add_what_is_no_text() -> None:
    """S1.14: a role that comes again, a type and a number replace."""
    stream = ChatEventStream()
    first = call(0, "c1", "boil", "{}")
    told(CHUNK({"role": "assistant", "heat": 1}), stream=stream)
    told(CHUNK({"role": "assistant", "heat": 2, **calls(first)}), called(first), stream=stream)
    completion = stream.snapshot
    assert completion is not None
    assert completion["choices"][0]["message"] == {
        "role": "assistant",
        "content": None,
        "heat": 2,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "boil", "arguments": "{}{}"}}
        ],
    }


def test_what_openai_python_skips_and_overwrites() -> None:
    """S1.15: a chunk may lack its object, a null usage takes nothing back, padding is not kept."""
    stream = ChatEventStream()
    filtered = {"id": "", "object": "", "choices": [], "prompt_filter_results": []}
    last = said("Tea", "stop") | {"usage": usage_of(7, 1), "obfuscation": "kQ9"}
    assert told(filtered, last, CHUNK.alone(usage=None), stream=stream) == [
        ["chunk"],
        ["chunk", "content.delta", "content.done"],
        ["chunk"],
    ]
    completion = stream.snapshot
    assert completion is not None
    assert (completion["id"], completion["usage"]) == ("chatcmpl-7f", usage_of(7, 1))
    assert "obfuscation" not in completion


def test_log_probabilities() -> None:
    """S1.16: those of each token as they come, all of them once it is done."""
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


def test_the_state_includes_the_current_delta() -> None:
    """S1.18: what feed returns is in the state already, and in the events' own snapshots."""
    stream = ChatEventStream()
    for text in ("Te", "Tea", "Tea!"):
        events = stream.feed(said(text[-1] if text != "Te" else text))
        assert isinstance(events[1], ContentDelta)
        assert stream.final_content() == events[1].snapshot == text


def test_events_do_not_change_afterwards() -> None:
    """Each snapshot stays what it was, of text, calls and tokens alike."""
    pieces = ["Gr", "een", " tea"]
    events = everything(
        *(
            CHUNK(
                {"content": piece, "refusal": piece, **calls(call(0, "c1", "f", piece))},
                choice={"logprobs": {"content": [piece]}},
            )
            for piece in pieces
        )
    )
    for kind in (ContentDelta, RefusalDelta, ArgumentsDelta):
        snapshots = [e.snapshot for e in events if isinstance(e, kind)]
        assert snapshots == ["Gr", "Green", "Green tea"]
    tokens = [e.snapshot for e in events if isinstance(e, LogprobsContentDelta)]
    assert tokens == [("Gr",), ("Gr", "een"), ("Gr", "een", " tea")]


def test_a_state_does_not_change_afterwards() -> None:
    """It is the caller's own, down to log probabilities and unknown members."""
    stream = ChatEventStream()
    chunk = CHUNK({"x": {"l": [1]}}, choice={"logprobs": {"content": [token("a")]}})
    stream.feed(chunk)
    before = stream.snapshot
    text = json.dumps(before)
    stream.feed(chunk)
    assert json.dumps(before) == text
    assert before is not None
    before["choices"][0]["message"]["x"]["l"].clear()
    after = stream.snapshot
    assert after is not None
    assert after["choices"][0]["message"]["x"] == {"l": [1, 1]}


@pytest.mark.parametrize("order", EventOrder)
def test_calls_with_any_index(order: EventOrder) -> None:
    """First of the bugs: calls are found by their index, which may begin at 1 and have gaps."""
    events = everything(
        called(call(7, "c7", "boil", '{"cups"')),
        called(call(7, None, None, ":2}")),
        called(call(3, "c3", "pour", "{}")),
        CHUNK({}, "tool_calls"),
        order=order,
    )
    assert dones(events) == [(7, '{"cups":2}'), (3, "{}")]
    deltas = [e for e in events if isinstance(e, ArgumentsDelta)]
    assert [(e.index, e.call_id, e.name, e.snapshot) for e in deltas] == [
        (7, "c7", "boil", '{"cups"'),
        (7, "c7", "boil", '{"cups":2}'),
        (3, "c3", "pour", "{}"),
    ]


def test_calls_without_an_index_or_with_the_same() -> None:
    """They are told apart as dialects.md section 7 has it, by id; a place stands for the index."""
    one, two = call(None, "a", "boil", "{}"), call(None, "b", "pour", "{}")
    events = everything(called(one, two), CHUNK({}, "tool_calls"))
    assert dones(events) == [(0, "{}"), (1, "{}")]
    one, two = call(0, "a", "boil", "{}"), call(0, "b", "pour", '{"x":1}')
    events = everything(called(one, two), CHUNK({}, "tool_calls"))
    assert [(e.index, e.call_id) for e in events if isinstance(e, ArgumentsDone)] == [
        (0, "a"),
        (0, "b"),
    ]


def test_a_call_twice_in_one_delta_has_two_events() -> None:
    """Each with what its entry added."""
    events = everything(called(call(0, "a", "boil", "{"), call(0, None, None, "}")))
    assert [(e.delta, e.snapshot) for e in events if isinstance(e, ArgumentsDelta)] == [
        ("{", "{"),
        ("}", "{}"),
    ]


def test_an_empty_identity_takes_nothing_away() -> None:
    """Third of the bugs: a last entry with an empty id and name leaves those that came."""
    events = everything(
        called(call(0, "c1", "boil", "{")),
        called(call(0, "", "", "}")),
        CHUNK({}, "tool_calls"),
    )
    identities = {
        (e.call_id, e.name) for e in events if isinstance(e, ArgumentsDelta | ArgumentsDone)
    }
    assert identities == {("c1", "boil")}


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


@pytest.mark.parametrize("value", [None, 1, "x", [], {}, {"hello": 1}, [{"choices": []}]])
def test_what_is_no_chunk_has_no_event(value: Any) -> None:
    """Rule 7: it is noted."""
    stream = ChatEventStream()
    assert stream.feed(value) == []
    assert stream.snapshot is None
    assert "foreign_chunk" in stream.response().anomalies


def test_bytes_that_are_no_chunks_are_noted() -> None:
    """Rule 7: the same tolerance as the observer's, with its counts."""
    stream = ChatEventStream(choice_count=2)
    data = b"data: {oops\n\n" + sse(said("Tea", "stop")) + DONE
    assert [e.type for e in stream.feed_bytes(data)] == ["chunk", "content.delta", "content.done"]
    response = stream.response()
    assert (response.done, response.event_count, response.choice_count) == (True, 2, 2)
    assert "non_json_event" in response.anomalies


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_event_streams_in_every_form(end: bytes) -> None:
    """S1.17: any line end, named events, data over lines, U+2028 in it, cut after every byte."""
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
    """Rule 6: what was folded was told, and nothing else, neither of calls nor of choices."""
    monkeypatch.setattr(accumulator, "MAX_ACCUMULATED_BYTES", 8_000)
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


def test_what_is_nested_too_deeply_is_told_later() -> None:
    """Rule 7: a chunk that the fold gave up in the middle has no deltas; the next one has them."""
    deep: Any = {}
    for _ in range(5_000):
        deep = {"in": deep, "side": 1}
    stream = ChatEventStream()
    first = stream.feed(CHUNK({"content": "Te", "odd": deep}))
    assert [e.type for e in first] == ["chunk"]
    [_, event] = stream.feed(said("a"))
    assert isinstance(event, ContentDelta)
    assert (event.delta, event.snapshot) == ("Tea", "Tea")


def sums(events: Iterable[ChatEvent]) -> dict[tuple[int, str], Any]:
    """The deltas put together, by choice and kind; of calls the ids and arguments."""
    whole: dict[Any, Any] = {}
    ids = {}
    for event in events:
        if not isinstance(event, DELTAS):
            continue
        key: Any = (event.choice_index, event.type)
        if isinstance(event, ArgumentsDelta):
            key = (event.choice_index, id(event.so_far.items))  # one list for each call
            ids[key] = event.call_id
        whole[key] = whole[key] + event.delta if key in whole else event.delta
        assert event.snapshot == whole[key]
    for key, call_id in ids.items():
        whole.setdefault((key[0], "calls"), []).append((call_id or "", whole.pop(key)))
    return {key: sorted(v) if key[1] == "calls" else v for key, v in whole.items() if v}


def values(response: ChatResponse) -> dict[tuple[int, str], Any]:
    """The same of an answer."""
    whole: dict[tuple[int, str], Any] = {}
    for choice in response.choices:
        message = choice.message
        whole[choice.index, "content.delta"] = message.content
        whole[choice.index, "refusal.delta"] = message.refusal
        for member in ("content", "refusal"):
            tokens = (choice.logprobs or {}).get(member) or ()
            whole[choice.index, f"logprobs.{member}.delta"] = tuple(tokens)
        made = sorted((made.id or "", made.arguments) for made in message.tool_calls)
        whole[choice.index, "calls"] = made
    return {key: value for key, value in whole.items() if value}


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
    """Rule 6: put together they are what the observer's stream folds, of any shape of chunks."""
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
    """Rule 3: each kind that had a delta, of text not an empty one, has one done event."""
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
