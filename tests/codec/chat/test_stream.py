from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.chat import stream
from codec.chat.stream import ChatStream
from codec.text import sse as sse_module
from codec.text.jsontext import encode_json
from tests.codec.chat.folded_chunks import delta
from tests.codec.text.test_sse import split
from tests.fixtures.wire import DONE, sse, usage_of

if TYPE_CHECKING:
    from codec.chat.answer import ChatResponse

USAGE = usage_of(4, 2)


def read(*reads: bytes, hides_usage: bool = False) -> ChatResponse:
    """What a stream says that came in these reads."""
    stream = ChatStream(hides_usage=hides_usage)
    for data in reads:
        stream.feed(data)
    return stream.finish()


def content(response: ChatResponse) -> str | None:
    """The text of the first choice."""
    return response.choices[0].message.content if response.choices else None


A = sse(delta("a"))
STOP = sse(delta("b", finish_reason="stop"))
USAGE_ONLY = sse({"choices": [], "usage": USAGE})


def test_a_plain_stream() -> None:
    """``docs/contract/wire.md#openai``: text, finish, usage, end."""
    response = read(A + STOP + USAGE_ONLY + DONE)
    assert content(response) == "ab"
    assert response.choices[0].finish_reason == "stop"
    assert response.usage is not None
    assert response.usage.total == 6
    assert (response.done, response.event_count, response.anomalies) == (True, 3, ())


@pytest.mark.parametrize(
    ("raw", "text", "done", "events", "anomalies"),
    [
        pytest.param(
            b': before\ndata: {"choices":[{"index":0,\n'
            b'data: "delta":{"content":"A"}}]}\n: after\n\n'
            b'data: {"hello":1}\n\n'
            b'data: {"choices":[{"index":0,"delta":{"content":"B"},"finish_reason":"stop"}]}\n\n'
            b"data: [DATA]\n\n",
            "AB", False, 4, ("foreign_chunk", "non_json_event", "no_usage"),
            id="a foreign chunk and a wrong end mark",
        ),
        pytest.param(
            b': only\n\ndata:\n\ndata: {"a":1}\ndata: {"b":2}\n\ndata: nope\n\n',
            None, False, 2, ("non_json_event", "no_finish_reason", "no_usage"),
            id="data that is not JSON",
        ),
        pytest.param(
            b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
            b'data: {"choices":[{"ind\n\n' + STOP + USAGE_ONLY,
            "ab", False, 4, ("non_json_event",), id="an event cut in the middle",
        ),
        pytest.param(
            A + DONE + STOP + USAGE_ONLY, "ab", True, 3, (), id="the end marker ends nothing",
        ),
        pytest.param(
            A + b'data: {"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}],'
            b'"usage":{"prompt_tokens":1}}', "ab", False, 2, (), id="no last blank line, whole",
        ),
        pytest.param(
            A + STOP + USAGE_ONLY + b'data: {"choi', "ab", False, 3, ("event_cut_off",),
            id="no last blank line, cut off",
        ),
        pytest.param(A + STOP + USAGE_ONLY + b"data: [DONE]", "ab", True, 3, (), id="bare marker"),
        pytest.param(b"", None, False, 0, ("no_finish_reason", "no_usage"), id="nothing"),
        pytest.param(
            b'data: 5\n\ndata: null\n\ndata: []\n\ndata: "x"\n\n', None, False, 4,
            ("foreign_chunk", "no_finish_reason", "no_usage"), id="JSON of other types",
        ),
        pytest.param(
            b"data: \xff\n\n" + A + STOP + USAGE_ONLY, "ab", False, 4, ("non_json_event",),
            id="not UTF-8",
        ),
        pytest.param(
            b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d"},"x":NaN}]}\n\n',
            "\ud83d", False, 1, ("no_finish_reason", "no_usage"), id="lone surrogate, NaN",
        ),
    ],
)  # fmt: skip
def test_streams(
    raw: bytes, text: str | None, done: bool, events: int, anomalies: tuple[str, ...]
) -> None:
    """What is odd is noted, and everything else is still read (rules 1 and 4 of the reader)."""
    response = read(raw)
    assert content(response) == text
    assert (response.done, response.event_count) == (done, events)
    assert response.anomalies == anomalies


@pytest.mark.parametrize(
    ("raw", "message", "code", "events"),
    [
        (b"event: error\n: engine crashed\n\n", "engine crashed", None, 0),
        (b'event: error\ndata: {"error":{"message":"m","code":"tool_use_failed"}}\n\n', "m",
         "tool_use_failed", 1),
        (b'event: error\ndata: {"message":"m"}\n\n', "m", None, 1),
        (b"event: error\ndata: it broke\n\n", "it broke", None, 1),
        (b'event: error\ndata: "it broke"\n\n', "it broke", None, 1),
        (b'error: {"code":500,"message":"m"}\n\n', "m", "500", 1),
        (b'data: {"object":"error","message":"m","code":400}\n\n', "m", "400", 1),
        (b'data: [{"error":{"message":"m"}}]\n\n', "m", None, 1),
    ],
)  # fmt: skip
def test_errors_in_the_stream(raw: bytes, message: str, code: str | None, events: int) -> None:
    """The error is found and the text before it kept (``docs/contract/wire.md#errors-in-a-200``).

    See ``docs/contract/sources.md#s0-12``.
    """
    response = read(A + raw)
    assert response.error is not None
    assert (response.error.message, response.error.code) == (message, code)
    assert content(response) == "a"
    assert response.event_count == 1 + events
    assert response.anomalies == ()


def test_a_named_event_without_data_is_no_error() -> None:
    """`event: ping` is a sign of life."""
    assert read(b"event: ping\n\n" + A).error is None


DIALECTS = {
    "openai": A + STOP + USAGE_ONLY + DONE,
    "crlf": (A + STOP + USAGE_ONLY + DONE).replace(b"\n", b"\r\n"),
    "cr": (A + STOP + USAGE_ONLY + DONE).replace(b"\n", b"\r"),
    "bom and comments": b"\xef\xbb\xbf: hi\n\n" + A + b": keep-alive\n\n" + STOP + b": \n\n",
    "several lines": b'data: {"choices":\ndata: [{"index":0,"delta":{"content":"a"}}]}\n\n' + STOP,
    "text of all widths": sse(delta("aé漢😀")) + STOP + b"data: {",
    "error": A + b"event: error\n: crashed\n\n",
    "no end": A + STOP[:-2],
}


@pytest.mark.parametrize("name", DIALECTS)
@given(cuts=st.lists(st.integers(0, 1000), max_size=10))
def test_any_cut_gives_the_same_answer(name: str, cuts: list[int]) -> None:
    """Rule 5 of the reader."""
    raw = DIALECTS[name]
    assert read(*split(raw, cuts)) == read(raw)


@pytest.mark.parametrize("name", DIALECTS)
def test_single_bytes_give_the_same_answer(name: str) -> None:
    """At its extreme."""
    raw = DIALECTS[name]
    assert read(*(raw[i : i + 1] for i in range(len(raw)))) == read(raw)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=3))
def test_no_bytes_raise(raw: bytes, cuts: list[int]) -> None:
    """Neither bare bytes nor bytes inside events."""
    read(*split(raw, cuts))
    read(*split(A + b"data: " + raw + b"\n\n" + STOP, cuts))


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        pytest.param(USAGE_ONLY, False, id="the event that is taken out"),
        pytest.param(USAGE_ONLY.replace(b"\n", b"\r\n"), False, id="with CRLF"),
        pytest.param(USAGE_ONLY[:-2], False, id="at the very end"),
        pytest.param(b": c\n" + USAGE_ONLY, False, id="with a comment"),
        pytest.param(USAGE_ONLY[:-1] + b"id: 1\n\n", False, id="with a second field"),
        pytest.param(USAGE_ONLY[:-1] + b"{\n\n", True, id="with a line that is no field"),
        pytest.param(sse({"usage": USAGE}), False, id="without choices"),
        pytest.param(sse(delta() | {"usage": USAGE}), True, id="on a choice"),
        pytest.param(
            sse({"choices": [], "usage": USAGE, "timings": {"n": 1}}), False, id="llama.cpp",
        ),
    ],
)  # fmt: skip
def test_hidden_usage(event: bytes, shown: bool) -> None:
    """Counted always, in the body only if the client received it.

    See ``docs/contract/promises.md#usage``.
    """
    response = read(A + STOP + event, hides_usage=True)
    assert response.usage is not None
    assert response.usage.total == 6
    assert ("usage" in response.body) is shown
    assert read(A + STOP + event).body["usage"] == USAGE


def test_a_character_that_is_cut_between_two_deltas_is_whole() -> None:
    """In whatever it is said: two escapes of JSON, one in each delta, are one character."""
    deltas: list[dict[str, Any]] = [
        {
            "content": half,
            "refusal": half,
            "reasoning": half,
            "tool_calls": [{"index": 0, "function": {"name": "f", "arguments": half}}],
            "function_call": {"name": "f", "arguments": half},
        }
        for half in ("\ud83c", "\udf0a")
    ]
    chunks = [{"choices": [{"index": 0, "delta": one}]} for one in deltas]
    response = read(b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in chunks))
    message = response.choices[0].message
    assert message.function_call is not None
    calls = (message.tool_calls[0], message.function_call)
    said = [message.content, message.refusal, message.reasoning, *(c.arguments for c in calls)]
    assert said == ["\U0001f30a"] * 5
    assert encode_json(dict(response.body)).count("\U0001f30a") == 5


def test_progress_is_visible_while_reading() -> None:
    """The observer asks after each read: content, end, completeness.

    See ``docs/contract/promises.md#endings``.
    """
    stream = ChatStream()
    seen = []
    for data in (sse(delta("")), A[:20], A[20:], STOP, USAGE_ONLY, DONE):
        stream.feed(data)
        seen.append((stream.event_count, stream.has_content, stream.is_complete, stream.done))
    assert seen == [
        (1, False, False, False), (1, False, False, False), (2, True, False, False),
        (3, True, False, False), (4, True, True, False), (4, True, True, True),
    ]  # fmt: skip


def test_a_stream_is_complete_when_all_choices_that_were_asked_for_are() -> None:
    """Choices may come one after the other, each with the usage so far.

    See ``docs/contract/promises.md#endings``.
    """
    stream = ChatStream(choice_count=2)
    seen = []
    for index in (0, 1):
        chunk = {"choices": [{"index": index, "delta": {"content": "a"}, "finish_reason": "stop"}]}
        stream.feed(sse(chunk | {"usage": USAGE}))
        seen.append(stream.is_complete)
    assert seen == [False, True]
    assert stream.finish().is_complete


def test_a_stream_is_not_complete_while_the_completion_count_is_null() -> None:
    """Databricks: a finish reason of each choice, and the usage is still to come."""
    stream = ChatStream()
    seen = []
    for completion in (None, 2):
        stream.feed(
            sse(delta(finish_reason="stop") | {"usage": USAGE | {"completion_tokens": completion}})
        )
        seen.append(stream.is_complete)
    assert seen == [False, True]


def test_the_end_marker_alone_completes() -> None:
    """`[DONE]` without finish reason or usage is an end, with its anomalies."""
    stream = ChatStream()
    stream.feed(A + DONE)
    assert stream.is_complete
    assert stream.finish().anomalies == ("no_finish_reason", "no_usage")


@pytest.mark.parametrize("read_bytes", [1, 50, 10_000])
def test_an_endless_event_cuts_the_observation(
    monkeypatch: pytest.MonkeyPatch, read_bytes: int
) -> None:
    """R5: what came before it stays, what comes after it is not read, nothing raises."""
    monkeypatch.setattr(sse_module, "MAX_EVENT_BYTES", 200)
    raw = A + b"data: " + b"x" * 300 + b"\n\n" + STOP
    stream = ChatStream()
    for start in range(0, len(raw), read_bytes):
        stream.feed(raw[start : start + read_bytes])
    response = stream.finish()
    assert content(response) == "a"
    assert response.anomalies == ("observer_limit", "no_finish_reason", "no_usage")


def test_memory_does_not_follow_the_stream() -> None:
    """R5: 64 MB of events that say nothing new leave next to nothing behind."""
    event = sse({"id": "c", "choices": [{"index": 0, "delta": {}}], "p": "x" * 60_000})
    stream = ChatStream()
    tracemalloc.start()
    try:
        for _ in range(1000):
            stream.feed(event)
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()


def test_an_event_without_end_behind_a_whole_one_ends_the_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R5: also where the limit is passed in the last read of all."""
    monkeypatch.setattr(stream, "MAX_WASTED_TEMPLATES", 0)
    monkeypatch.setattr(sse_module, "MAX_EVENT_BYTES", 200)
    response = read(A + b"data: " + b"x" * 300)
    assert response.choices[0].message.content == "a"
    assert "observer_limit" in response.anomalies
