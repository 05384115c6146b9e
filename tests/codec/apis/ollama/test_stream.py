"""``codec.apis.ollama``: a stream of lines is put together by the rules of its fold."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.apis.ollama import stream as stream_module
from codec.apis.ollama.said import ChatSaid, read_chat, read_generate
from codec.apis.ollama.stream import LineStream
from codec.parts import Reasoning, ToolCall
from codec.said import Ending, Stop
from codec.text.jsontext import encode_json, is_json
from tests.codec.apis.ollama.lines import (
    COUNTS,
    DONE,
    answer_of,
    call,
    end,
    said,
    text_of,
    write_line,
    written,
)

THOUGHT = [said(thinking="Let me "), said(thinking="see.")]
CALLS = [
    said(tool_calls=[call("f", {"b": [1, "x"], "a": {}})]),
    said(tool_calls=[call("g", {}, id="call_1"), call("f", None)]),
]


def test_text_and_thinking_are_joined_and_calls_gathered() -> None:
    """Thinking, text, calls: whole ones, in one line or several; none gets an id."""
    answer = answer_of(*THOUGHT, said("Hel"), said("lo"), *CALLS, DONE)
    [one] = answer.answers
    assert one.message.role == "assistant"
    assert one.message.parts == (
        Reasoning(text="Let me see."),
        "Hello",
        ToolCall(name="f", arguments='{"b":[1,"x"],"a":{}}'),
        ToolCall(id="call_1", name="g", arguments="{}"),
        ToolCall(name="f"),
    )
    assert (one.index, one.finish_reason, one.stop) == (0, "stop", Stop.STOP)
    assert answer.body["message"]["content"] == "Hello"
    assert answer.body["message"]["thinking"] == "Let me see."
    assert len(answer.body["message"]["tool_calls"]) == 3
    assert answer.anomalies == ()


def test_text_alone_is_the_content() -> None:
    """As with a chat completion."""
    [one] = answer_of(said("Hel"), said("lo"), DONE).answers
    assert (one.message.role, one.message.content) == ("assistant", "Hello")


def test_of_other_members_the_last_value_stands_and_lists_grow() -> None:
    """The time is that of the last line; what a server says of tokens comes in pieces."""
    answer = text_of(
        write_line(response="a", logprobs=[{"token": "a"}], created_at="1", x=None),
        write_line(response="b", logprobs=[{"token": "b"}], created_at="2", y={"z": 1}),
        write_line(response="", done=True, done_reason="stop", created_at="3", y={"w": 2}),
    )
    assert answer.body == {
        "model": "m-1",
        "created_at": "3",
        "response": "ab",
        "logprobs": [{"token": "a"}, {"token": "b"}],
        "y": {"z": 1, "w": 2},
        "done": True,
        "done_reason": "stop",
    }


def test_a_text_from_a_prompt_has_no_role_and_counts_its_context() -> None:
    """The tokens stand for the words of the prompt, and are thousands."""
    answer = text_of(
        written("", thinking="Hm"),
        written("Good"),
        written("bye"),
        written("", done=True, done_reason="length", context=[1, 2, 3], **COUNTS),
    )
    [one] = answer.answers
    assert one.message.role is None
    assert one.message.parts == (Reasoning(text="Hm"), "Goodbye")
    assert (one.finish_reason, one.stop) == ("length", Stop.LENGTH)
    assert answer.body["context"] == "<3 tokens>"
    assert answer.body["response"] == "Goodbye"


def test_a_plain_answer_reads_as_the_stream_of_it() -> None:
    """But for the moment at which each was written."""
    plain = answer_of(*THOUGHT, said("Hello"), *CALLS, DONE)
    body = encode_json(plain.body).encode()
    assert read_chat(body) == plain
    text = text_of(written("a", done=True, done_reason="stop", context=[1], **COUNTS))
    whole = encode_json(dict(text.body) | {"context": [7]}).encode()
    assert read_generate(whole) == text


def test_counts_are_those_of_the_last_line_and_durations_stay_raw() -> None:
    """A sum where both are there; a count that the server left out is absent."""
    usage = answer_of(said("Hi"), DONE).usage
    assert (usage.prompt, usage.completion, usage.total) == (26, 7, 33)
    assert usage.raw == COUNTS
    cached = answer_of(said("Hi"), end(prompt_eval_count=None)).usage
    assert (cached.prompt, cached.completion, cached.total) == (None, 7, None)
    assert "prompt_eval_count" not in cached.raw
    assert answer_of(said("Hi")).usage is None


@pytest.mark.parametrize("reason", ["stop", "length", "something_new"])
def test_every_reason_to_end_is_verbatim(reason: str) -> None:
    """With its meaning where it is known."""
    answer = answer_of(said("Hi"), end(reason))
    assert answer.finish_reasons == [(0, reason)]
    known = {"stop": Stop.STOP, "length": Stop.LENGTH}
    assert answer.answers[0].stop is known.get(reason)
    assert answer.ending(streamed=True) is Ending.COMPLETE


@pytest.mark.parametrize("reason", ["load", "unload"])
@pytest.mark.parametrize("streamed", [True, False])
def test_a_model_that_is_loaded_says_nothing(reason: str, *, streamed: bool) -> None:
    """Nor counts anything, and that is all right."""
    message = {"role": "assistant", "content": ""}
    line = write_line(message=message, done=True, done_reason=reason)
    answer = answer_of(line) if streamed else read_chat(line)
    assert (answer.answers, answer.usage, answer.anomalies) == ((), None, ())
    assert answer.finish_reasons == [(0, reason)]
    assert answer.ending(streamed=streamed) is Ending.COMPLETE


def test_old_servers_end_without_a_reason() -> None:
    """Which is noted, and whole."""
    answer = answer_of(said("Hi"), end(None))
    assert answer.ending(streamed=True) is Ending.COMPLETE
    assert (answer.finish_reasons, answer.anomalies) == ([], ("no_finish_reason",))


def test_a_stream_that_breaks_off_is_open() -> None:
    """With what came until then."""
    answer = answer_of(said("Hel"), DONE[:-40])
    assert answer.ending(streamed=True) is Ending.OPEN
    assert answer.answers[0].message.content == "Hel"
    assert "event_cut_off" in answer.anomalies


def test_the_last_line_may_lack_its_end() -> None:
    """It counts where it parses."""
    stream = LineStream(kind=ChatSaid)
    stream.feed(said("Hi") + DONE.rstrip())
    assert not stream.is_complete
    assert stream.finish().ending(streamed=True) is Ending.COMPLETE
    assert stream.chunk_count == 2


def test_what_comes_behind_the_end_is_passed_over() -> None:
    """As a chunk, but for an error."""
    stream = LineStream(kind=ChatSaid)
    stream.feed(said("Hi") + DONE)
    assert stream.is_complete
    stream.feed(said(" there") + end("length") + b'{"error": "out of memory"}')
    answer = stream.finish()
    assert answer.answers[0].message.content == "Hi"
    assert answer.finish_reasons == [(0, "stop")]
    assert answer.error is not None
    assert answer.error.message == "out of memory"
    assert stream.chunk_count == 4


@pytest.mark.parametrize("newline", [b"", b"\n"])
def test_an_error_line_is_the_answers_error(newline: bytes) -> None:
    """Often without an end; what was said before it stays."""
    answer = answer_of(said("Hel"), b'{"error": "model runner has stopped"}' + newline)
    assert (answer.error.message, answer.error.type) == ("model runner has stopped", None)
    assert answer.answers[0].message.content == "Hel"
    assert answer.anomalies == ()


def test_a_broken_line_costs_that_line_only() -> None:
    """And is noted."""
    answer = answer_of(said("Hel"), b'{"message": {"content": "x"\n', b'"\xff"\n', said("lo"), DONE)
    assert answer.answers[0].message.content == "Hello"
    assert answer.anomalies == ("non_json_event",)
    assert answer.ending(streamed=True) is Ending.COMPLETE


def test_past_the_limit_the_end_and_the_counts_are_still_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What came before it stays."""
    monkeypatch.setattr(stream_module, "MAX_ANSWER_BYTES", 20_000)
    words = [said("some words " * 20) for _ in range(200)]
    answer = answer_of(*words, end("length", eval_count=700))
    assert 5_000 < len(answer.answers[0].message.content) < 20_000
    assert (answer.usage.completion, answer.finish_reasons) == (700, [(0, "length")])
    assert answer.ending(streamed=True) is Ending.COMPLETE
    assert "observer_limit" in answer.anomalies


def test_calls_that_have_no_room_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole ones: half a call is none."""
    monkeypatch.setattr(stream_module, "MAX_ANSWER_BYTES", 20_000)
    big = said(tool_calls=[call("f", {"text": "x" * 9_000})])
    answer = answer_of(big, big, big, DONE)
    assert len(answer.tool_calls) == 2
    assert "observer_limit" in answer.anomalies


def test_without_room_a_large_line_is_not_read() -> None:
    """The lender is asked for what is under way."""
    answer = answer_of(said("Hi"), said("x" * 100_000)[:-1], b"\n", DONE, lend=lambda _: False)
    assert answer.answers[0].message.content == "Hi"
    assert "observer_limit" in answer.anomalies


@pytest.mark.parametrize("line", [b'{"object": "other", "x": [1]}', b"[1]", b"7", b"{}"])
def test_what_is_no_part_of_an_answer_is_noted(line: bytes) -> None:
    """It is a chunk, and what it says is in the answer."""
    stream = LineStream(kind=ChatSaid)
    stream.feed(line + b"\n" + said("Hi") + DONE)
    answer = stream.finish()
    assert answer.anomalies == ("foreign_chunk",)
    assert (answer.body.get("x") == [1]) is (b"object" in line)
    assert stream.chunk_count == 3


def test_a_plain_body_of_another_shape_is_noted() -> None:
    """And an error is one."""
    assert read_chat(b'{"data": []}').anomalies == ("foreign_chunk", "no_finish_reason", "no_usage")
    failed = read_generate(b'{"error": "model not found"}')
    assert failed.error is not None
    assert (failed.error.message, failed.anomalies) == ("model not found", ())
    assert failed.ending(streamed=False) is Ending.STOPPED


def test_arguments_that_are_text_stay_text() -> None:
    """A gateway made them; they are noted where they are not JSON, once the answer is whole."""
    odd = said(tool_calls=[call("f", '{"a":')])
    answer = answer_of(odd, DONE)
    assert answer.tool_calls[0].arguments == '{"a":'
    assert answer.anomalies == ("bad_tool_arguments",)
    assert "bad_tool_arguments" not in answer_of(odd).anomalies
    good = answer_of(said(tool_calls=[call("f", '{"a": 1}')]), DONE)
    assert (good.tool_calls[0].arguments, good.anomalies) == ('{"a": 1}', ())


@pytest.mark.parametrize(
    "line",
    [
        said("x"),
        said(thinking="x"),
        said(tool_calls=[call("f", {})]),
        written("x"),
        written("", thinking="x"),
    ],
)
def test_content_is_noticed_when_it_comes(line: bytes) -> None:
    """Not before: an empty line is none."""
    stream = LineStream(kind=ChatSaid)
    stream.feed(said("") + written("") + said(tool_calls=[]))
    assert not stream.has_content
    stream.feed(line)
    assert stream.has_content


def test_half_characters_of_two_lines_are_one() -> None:
    """As escapes, cut between the two of them."""
    lines = [said("@").replace(b"@", half) for half in (b"\\ud83d", b"\\ude00")]
    assert answer_of(*lines, DONE).answers[0].message.content == "\U0001f600"


STREAM = b"".join(
    [*THOUGHT, said("Hé"), said("\U0001f999"), *CALLS, b"broken\n", said("!"), DONE[:-1]]
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=12), st.booleans())
def test_the_answer_is_the_same_however_it_is_cut(places: list[int], crlf: bool) -> None:
    """In the middle of characters and of line ends, with either of these."""
    data = STREAM.replace(b"\n", b"\r\n") if crlf else STREAM
    marks = sorted({0, len(data), *places})
    pieces = [data[start:end] for start, end in pairwise(marks)]
    assert answer_of(*pieces) == answer_of(STREAM)


@given(st.integers(0, len(STREAM)))
def test_a_stream_cut_short_says_no_more_than_the_whole_one(size: int) -> None:
    """The beginning of its words, and no end until all of it is there."""
    whole, part = answer_of(STREAM), answer_of(STREAM[:size])
    heard = part.body.get("message", {})
    for name in ("content", "thinking"):
        assert whole.body["message"][name].startswith(heard.get(name, ""))
    calls = [*part.tool_calls]
    assert [*whole.tool_calls][: len(calls)] == calls
    is_whole = part.ending(streamed=True) is Ending.COMPLETE
    assert is_whole is (size == len(STREAM))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
MEMBERS = st.dictionaries(
    st.sampled_from(
        [
            *("message", "response", "thinking", "content", "tool_calls", "function", "name"),
            *("arguments", "role", "done", "done_reason", "context", "error", "eval_count"),
            *("prompt_eval_count", "images", "model"),
        ]
    ),
    JSON,
    max_size=6,
)
ANSWERS = MEMBERS | st.builds(lambda inner, line: line | {"message": inner}, MEMBERS, MEMBERS)


@given(st.lists(ANSWERS | JSON, max_size=6))
def test_nothing_raises_whatever_a_line_says(lines: list[Any]) -> None:
    """Members of any kind in any place: the answer is what could be read, and is readable."""
    data = b"".join(encode_json(line).encode() + b"\n" for line in lines)
    for answer in (answer_of(data), text_of(data)):
        assert len(answer.answers) <= 1
        assert is_json(encode_json(answer.body))
        assert answer.ending(streamed=True) in Ending
        assert all(isinstance(one.arguments, str) for one in answer.tool_calls)


@given(ANSWERS)
def test_nothing_raises_whatever_a_body_says(body: dict[str, Any]) -> None:
    """Neither in a plain answer."""
    data = encode_json(body).encode()
    for answer in (read_chat(data), read_generate(data)):
        assert len(answer.answers) <= 1
        assert answer.ending(streamed=False) in Ending


@pytest.mark.parametrize(("cached", "expected"), [(3, 3), (0, 0), (10**6, None)])
def test_tokens_from_a_cache_are_a_part_of_the_prompt(cached: int, expected: int | None) -> None:
    """Streamed and plain; one that is larger than the prompt is left out and noted."""
    line = end(prompt_eval_cached_count=cached)
    for answer in (answer_of(said("Hi"), line), read_chat(line)):
        assert answer.usage is not None
        assert answer.usage.cache_read == expected
        assert answer.usage.prompt == COUNTS["prompt_eval_count"]
        assert answer.anomalies == (() if expected is not None else ("details_inconsistent",))
