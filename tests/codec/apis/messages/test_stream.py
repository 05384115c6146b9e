"""``codec.apis.messages``: a streamed message is put together by the rules of its fold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.apis.messages import stream as stream_module
from codec.apis.messages.fold import MessageFold
from codec.apis.messages.stream import MessageStream
from codec.budget import Budget
from codec.parts import Reasoning, Text, ToolCall
from codec.said import Ending, Stop
from codec.text.jsontext import encode_json, is_json
from tests.codec.apis.messages.events import (
    MESSAGE,
    START,
    STOP,
    STOPPED,
    USAGE,
    answer_of,
    begin,
    cut,
    delta,
    end,
    text,
    write_event,
)


def test_text_thinking_and_calls_are_parts_in_their_order() -> None:
    """Signatures in pieces are joined; arguments become a value when all of them are there."""
    answer = answer_of(
        START,
        begin(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="Let me "),
        delta(0, "thinking_delta", thinking="think"),
        delta(0, "signature_delta", signature="c2ln"),
        delta(0, "signature_delta", signature="bmVk"),
        begin(1),
        text("Hello", 1),
        begin(2, "tool_use", id="t-1", name="f", input={}),
        delta(2, "input_json_delta", partial_json=""),
        delta(2, "input_json_delta", partial_json='{"a": [1, '),
        delta(2, "input_json_delta", partial_json='"b"]}'),
        begin(3, "redacted_thinking", data="b3BhcXVl"),
        end("tool_use"),
        STOP,
    )
    [said] = answer.answers
    assert said.message.parts == (
        Reasoning(text="Let me think", signature="c2lnbmVk"),
        Text("Hello"),
        ToolCall(id="t-1", name="f", arguments='{"a":[1,"b"]}'),
        Reasoning(text=None, data="b3BhcXVl"),
    )
    assert (said.finish_reason, said.stop) == ("tool_use", Stop.TOOL_CALL)
    assert answer.body["content"][2]["input"] == {"a": [1, "b"]}
    assert answer.anomalies == ()


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", Stop.STOP),
        ("max_tokens", Stop.LENGTH),
        ("stop_sequence", Stop.STOP),
        ("tool_use", Stop.TOOL_CALL),
        ("pause_turn", Stop.STOP),
        ("refusal", Stop.CONTENT_FILTER),
        ("model_context_window_exceeded", Stop.LENGTH),
        ("something_new", None),
    ],
)
def test_every_reason_to_end_is_verbatim(reason: str, stop: Stop | None) -> None:
    """With its meaning where it is known (``docs/contract/apis.md#messages-answer``)."""
    answer = answer_of(START, begin(0), text("Hi"), end(reason), STOP)
    [said] = answer.answers
    assert (said.finish_reason, said.stop) == (reason, stop)
    assert answer.finish_reasons == [(0, reason)]
    assert list(answer.refused) == ([0] if reason == "refusal" else [])


def test_blocks_are_known_by_their_index() -> None:
    """Whatever comes between them; one without an index is the last one."""
    anonymous = write_event("content_block_delta", delta={"type": "text_delta", "text": "!"})
    answer = answer_of(
        START, begin(5), begin(2), text("a", 5), text("b", 2), text("c", 5), anonymous, end(), STOP
    )
    assert [block["text"] for block in answer.body["content"]] == ["b", "ac!"]


def test_deltas_without_a_beginning_make_their_block() -> None:
    """A proxy may have dropped an event; nothing is lost of what came."""
    answer = answer_of(
        text("Hi"), delta(1, "input_json_delta", partial_json="{}"), delta(2, "x_delta", y=1)
    )
    assert answer.body["content"] == [
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "input": {}},
        {"y": 1},
    ]


def test_a_block_at_a_used_index_is_a_further_one() -> None:
    """Words that were said stay, and deltas are of the block that began last there."""
    answer = answer_of(
        START,
        begin(0, "server_tool_use", id="s-1", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query":"q"}'),
        STOPPED[0],
        begin(1, "web_search_tool_result", tool_use_id="s-1", content=[]),
        STOPPED[1],
        begin(1),
        text("Left ", 1),
        delta(1, "citations_delta", citation={"a": 1}),
        STOPPED[1],
        begin(0, "tool_use", id="t-1", name="f", input={}),
        delta(0, "input_json_delta", partial_json='{"a":1}'),
        STOPPED[0],
        begin(0, "tool_use", id="t-1", name="f", input={}),
        begin(2),
        text("here.", 2),
        end("tool_use"),
        STOP,
    )
    assert answer.body["content"] == [
        {"type": "server_tool_use", "id": "s-1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "s-1", "content": []},
        {"type": "text", "text": "Left ", "citations": [{"a": 1}]},
        {"type": "tool_use", "id": "t-1", "name": "f", "input": {"a": 1}},
        {"type": "tool_use", "id": "t-1", "name": "f", "input": {}},
        {"type": "text", "text": "here."},
    ]


@pytest.mark.parametrize("is_stopped", [False, True])
@pytest.mark.parametrize("size", [1, 60, 4_096, 1 << 20])
def test_all_blocks_may_have_one_index(size: int, *, is_stopped: bool) -> None:
    """The SDK gathers the same blocks, whether each is ended or not, in reads of any size."""
    stop = STOPPED[0] if is_stopped else b""
    blocks = [
        *(begin(0, "thinking", thinking=""), delta(0, "thinking_delta", thinking="Hm "), stop),
        *(begin(0), *[text("Left ")] * 300, stop, begin(0), text("here."), stop),
        *(begin(0, "tool_use", id="t-1", name="f", input={}), stop),
        *(begin(0, "tool_use", id="t-2", name="g", input={}),),
        *(delta(0, "input_json_delta", partial_json='{"a":'),),
        *(delta(0, "input_json_delta", partial_json="1}"), stop),
    ]
    answer = answer_of(*cut(b"".join([START, *blocks, end("tool_use"), STOP]), size))
    [said] = answer.answers
    assert said.message.parts == (
        Reasoning(text="Hm ", signature=None),
        Text("Left " * 300),
        Text("here."),
        ToolCall(id="t-1", name="f", arguments="{}"),
        ToolCall(id="t-2", name="g", arguments='{"a":1}'),
    )
    assert answer.anomalies == ()


def test_a_block_that_is_begun_twice_is_one() -> None:
    """By the id of its call; a text that no word was said of gives way to what begins there."""
    call = begin(0, "tool_use", id="t-1", name="f", input={})
    piece = delta(0, "input_json_delta", partial_json='{"a":')
    rest = delta(0, "input_json_delta", partial_json="1}")
    answer = answer_of(START, begin(0), call, piece, call, rest, end("tool_use"), STOP)
    assert answer.body["content"] == [
        {"type": "tool_use", "id": "t-1", "name": "f", "input": {"a": 1}}
    ]


def test_texts_at_one_index_are_seen_growing_apart() -> None:
    """Each has a key that it keeps, and none is taken back."""
    stream = MessageStream()
    seen: dict[object, str] = {}
    for event in (START, begin(0), text("Left "), begin(0), text("here"), text("."), end(), STOP):
        stream.feed(event)
        for one in stream.look():
            told = "".join(one.pieces)
            assert told.startswith(seen.get(one.key, ""))
            seen[one.key] = told
    assert [*seen.values()] == ["Left ", "here."]


def test_citations_are_gathered_and_unknown_deltas_are_values() -> None:
    """The last value of each member stands."""
    answer = answer_of(
        START,
        begin(0, citations=None),
        delta(0, "citations_delta", citation={"a": 1}),
        text("Hi"),
        delta(0, "citations_delta", citation={"b": 2}),
        delta(0, "mood_delta", mood="calm"),
        delta(0, "mood_delta", mood="glad"),
        end(),
        STOP,
    )
    assert answer.body["content"] == [
        {"type": "text", "text": "Hi", "citations": [{"a": 1}, {"b": 2}], "mood": "glad"}
    ]


@pytest.mark.parametrize(("pieces", "asked"), [(['{"a":'], '{"a":'), ([], {}), ([""], {})])
def test_arguments_that_are_no_json_stay_text(pieces: list[str], asked: Any) -> None:
    """Noted where the message is whole: a stream that broke off has half a text anyway."""
    deltas = [delta(0, "input_json_delta", partial_json=piece) for piece in pieces]
    started = [START, begin(0, "tool_use", id="t", name="f", input={}), *deltas]
    answer = answer_of(*started, end("tool_use"), STOP)
    assert answer.body["content"][0]["input"] == asked
    is_bad = isinstance(asked, str)
    assert ("bad_tool_arguments" in answer.anomalies) is is_bad
    assert answer.tool_calls[0].arguments == (asked if is_bad else "{}")
    assert "bad_tool_arguments" not in answer_of(*started).anomalies


def test_arguments_of_a_providers_tool_may_come_at_once() -> None:
    """With the beginning of the block, and no delta."""
    block = begin(0, "server_tool_use", id="s", name="web_search", input={"query": "q"})
    [call] = answer_of(START, block, end(), STOP).tool_calls
    assert (call.type, call.arguments) == ("server_tool_use", '{"query":"q"}')


def test_arguments_of_a_million_small_values_stay_text() -> None:
    """They would take a hundred times what came: no room is lent for that."""
    pieces = ["[" + "[],[],[],[]," * 500 + "[]]" + "," for _ in range(40)]
    deltas = [delta(0, "input_json_delta", partial_json=piece) for piece in ["[", *pieces, "1]"]]
    lent = [400_000]

    def lend(size: int) -> bool:
        lent[0] -= size
        return lent[0] >= 0

    answer = answer_of(START, begin(0, "tool_use"), *deltas, end("tool_use"), STOP, lend=lend)
    assert isinstance(answer.body["content"][0]["input"], str)
    assert "observer_limit" in answer.anomalies


def test_counts_run_and_the_prompt_includes_what_was_cached() -> None:
    """Two events with counts are two readings of one meter.

    See ``docs/contract/apis.md#counts-run``.
    """
    usage = answer_of(
        START, text("Hi"), end(None, output_tokens=4), end(output_tokens=7, input_tokens=None), STOP
    ).usage
    assert (usage.prompt, usage.completion, usage.total) == (35, 7, 42)
    assert (usage.cache_read, usage.cache_write) == (10, 20)
    assert usage.raw == USAGE | {"output_tokens": 7}


@pytest.mark.parametrize(
    ("told", "prompt"),
    [
        ({"input_tokens": 0, "cache_read_input_tokens": 0}, 35),
        ({"input_tokens": 6, "cache_read_input_tokens": 0}, 26),
        ({"input_tokens": 8}, 38),
    ],
)
def test_a_zero_replaces_no_count_where_the_prompt_is_zero(
    told: dict[str, Any], prompt: int
) -> None:
    """Gateways that do not know send zeros (``docs/contract/apis.md#zero-counts``)."""
    usage = answer_of(START, text("Hi"), end(output_tokens=7, **told), STOP).usage
    assert usage.prompt == prompt


@pytest.mark.parametrize(
    ("begun", "told", "prompt"),
    [
        ({"input_tokens": 0, "cache_read_input_tokens": 500}, {"cache_read_input_tokens": 0}, 500),
        ({"input_tokens": 5, "cache_read_input_tokens": None}, {"cache_read_input_tokens": 0}, 5),
        ({"input_tokens": 0}, {}, 0),
    ],
)
def test_a_zero_is_a_count_where_no_other_is_known(
    begun: dict[str, Any], told: dict[str, Any], prompt: int
) -> None:
    """A prompt that came whole from a cache has nothing else."""
    start = write_event("message_start", message=MESSAGE | {"usage": begun})
    usage = answer_of(start, text("Hi"), end(input_tokens=0, output_tokens=7, **told), STOP).usage
    assert usage.prompt == prompt
    assert usage.raw.get("cache_read_input_tokens", 0) is not None


def test_a_sum_that_no_attribute_holds_is_no_count() -> None:
    """Of two counts that are."""
    most = 2**63 - 1
    usage = answer_of(START, end(input_tokens=most, output_tokens=7), STOP).usage
    assert (usage.prompt, usage.completion, usage.total) == (None, 7, None)


def test_a_compaction_is_text_and_what_else_it_says() -> None:
    """The opaque form that a client sends back is kept (the SDK's beta types)."""
    answer = answer_of(
        START,
        begin(0, "compaction", content=None),
        delta(0, "compaction_delta", content="In ", encrypted_content="x1"),
        delta(0, "compaction_delta", content="short", encrypted_content="x2"),
        end("compaction"),
        STOP,
    )
    block = {"type": "compaction", "content": "In short", "encrypted_content": "x2"}
    assert answer.body["content"] == [block]
    assert answer.answers[0].message.parts == (Text("In short"),)


@pytest.mark.parametrize("piece", ['"hello"', "7", " "])
def test_arguments_that_are_no_object_are_verbatim(piece: str) -> None:
    """And none of them is a fault."""
    deltas = [delta(0, "input_json_delta", partial_json=piece)]
    answer = answer_of(START, begin(0, "tool_use", input={}), *deltas, end("tool_use"), STOP)
    assert answer.tool_calls[0].arguments == (piece.strip() or "{}")
    assert answer.anomalies == ()


def test_small_arguments_are_weighed_all_together() -> None:
    """Thousands of calls with a kilobyte of lists each take what the lender has, and no more."""
    asked = "[" + ",".join(["{}"] * 320) + "]"
    events = [
        begin(index, "tool_use", input={}) + delta(index, "input_json_delta", partial_json=asked)
        for index in range(300)
    ]
    lent = [2 * 1024 * 1024]

    def lend(size: int) -> bool:
        lent[0] -= size
        return lent[0] >= 0

    answer = answer_of(START, *events, end("tool_use"), STOP, lend=lend)
    kinds = [type(block["input"]) for block in answer.body["content"]]
    assert 0 < kinds.count(list) < 300
    assert "observer_limit" in answer.anomalies


def test_what_is_kept_without_room_is_not_given_back() -> None:
    """Words by turns with what is none must not make room for more than there was."""
    budget = Budget(1 << 20)
    fold = MessageFold(budget)
    word = "x" * 1_024
    for number in range(300):
        fold.feed({"type": "message_start", "message": {"id": "a", "stop_reason": word}})
        fold.feed({"type": "message_delta", "delta": {"stop_reason": word, "model": word}})
        fold.feed({"type": "message_delta", "delta": {"stop_reason": number, "model": None}})
        assert budget.left_bytes < 1 << 20
    assert fold.answer().body["stop_reason"] == word


def test_what_ends_a_message_replaces_nothing_that_it_began_with() -> None:
    """Neither its id nor its role, nor a good word by what is none."""
    odd = write_event(
        "message_delta",
        delta={"stop_reason": 5, "model": 7, "id": 9, "role": "x", "content": [1]},
    )
    answer = answer_of(START, text("Hi"), end(), odd, STOP)
    assert (answer.id, answer.model, answer.finish_reasons) == ("msg-1", "m-1", [(0, "end_turn")])
    assert answer.body["content"][0]["text"] == "Hi"


def test_a_message_of_counts_alone_is_one() -> None:
    """Two of them are not joined, and each has room for its counts."""
    start = write_event("message_start", message={"usage": USAGE})
    one = start + text("one") + end()
    answer = answer_of(*[one] * 200, start, text("two"), end(), STOP)
    assert answer.body["content"] == [{"type": "text", "text": "two"}]
    assert answer.anomalies == ("several_responses",)
    assert answer.usage.prompt == 35


def test_a_stream_that_breaks_off_has_no_count_of_what_was_said() -> None:
    """The one that it began with is a guess; the prompt's is none."""
    answer = answer_of(START, begin(0), text("Hi"))
    assert (answer.usage.prompt, answer.usage.completion, answer.usage.total) == (35, None, None)
    assert answer.ending(streamed=True) is Ending.OPEN
    assert answer.anomalies == ("no_finish_reason",)


def test_a_reason_to_end_is_an_end_without_the_event_behind_it() -> None:
    """Noted, and whole whatever comes of the connection.

    See ``docs/contract/apis.md#messages-endings``.
    """
    stream = MessageStream()
    for event in (START, begin(0), text("Hi")):
        stream.feed(event)
    before = stream.is_complete
    stream.feed(end())
    assert (before, stream.is_complete) == (False, True)
    answer = stream.finish()
    assert answer.ending(streamed=True) is Ending.COMPLETE
    assert answer.anomalies == ("no_message_stop",)
    whole = answer_of(START, begin(0), text("Hi"), end(), STOP)
    assert whole.ending(streamed=True) is Ending.COMPLETE


def test_an_error_in_the_middle_is_the_answers_error() -> None:
    """What was said before it stays."""
    error = write_event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    answer = answer_of(START, begin(0), text("Hi"), error)
    assert (answer.error.type, answer.error.message) == ("overloaded_error", "Overloaded")
    assert answer.body["content"] == [{"type": "text", "text": "Hi"}]
    assert answer.anomalies == ()


def test_an_error_that_was_under_way_at_the_end_is_none_yet() -> None:
    """What is missing of it may be anything; wherever it breaks off it is told in one way."""
    error = b'event: error\ndata: {"type":"error","error":{"type":"e","message":"No"}}'
    for size in range(len(error) + 1):
        stream = MessageStream()
        stream.feed(START + error[:size])
        told = stream.finish().error
        assert (told is not None) is (size == len(error)), size


def test_of_several_messages_the_last_one_counts() -> None:
    """Some servers and fixtures send more than one (``docs/contract/apis.md#several-messages``)."""
    other = write_event("message_start", message=MESSAGE | {"id": "msg-2", "usage": {}})
    answer = answer_of(START, text("a"), end(), STOP, other, text("b"), end(), STOP)
    assert (answer.id, answer.body["content"][0]["text"]) == ("msg-2", "b")
    assert "several_responses" in answer.anomalies


UNKNOWN = {"input_tokens": 0, "output_tokens": 0}
"""Counts of a gateway that knows none."""


@pytest.mark.parametrize("usage", [UNKNOWN, {}, None, USAGE, {"input_tokens": None}])
@pytest.mark.parametrize("begun", [MESSAGE, {}, MESSAGE | {"id": None, "model": ""}])
@pytest.mark.parametrize("place", range(1, 6))
def test_a_message_that_begins_again_is_that_one(
    place: int, begun: dict[str, Any], usage: Any
) -> None:
    """Before its end and under no other id, wherever: words, model and counts stay."""
    events = [START, begin(0), text("Left "), text("here."), end(None, output_tokens=4), STOPPED[0]]
    again = write_event("message_start", message=begun | {"usage": usage, "stop_reason": None})
    events.insert(place, again)
    answer = answer_of(*events, end(output_tokens=7), STOP)
    assert answer.body["content"] == [{"type": "text", "text": "Left here."}]
    assert (answer.id, answer.model) == ("msg-1", "m-1")
    assert (answer.usage.prompt, answer.usage.completion, answer.usage.total) == (35, 7, 42)
    assert answer.anomalies == ()
    broken = answer_of(*events)
    assert broken.usage.completion == 4


def test_counts_that_only_the_second_beginning_knows_count() -> None:
    """A gateway writes the first one itself, before it has asked anybody."""
    first = write_event("message_start", message=MESSAGE | {"usage": UNKNOWN})
    usage = answer_of(first, START, text("Hi"), end(output_tokens=7), STOP).usage
    assert (usage.prompt, usage.completion) == (35, 7)


def test_the_last_message_counts_where_it_is_cut() -> None:
    """Then the stream is: the end of the first one is none of the second."""
    other = write_event("message_start", message=MESSAGE | {"id": "msg-2"})
    answer = answer_of(START, text("a"), end(), STOP, other, text("b"))
    assert (answer.id, answer.body["content"][0]["text"]) == ("msg-2", "b")
    assert answer.ending(streamed=True) is Ending.OPEN
    assert "several_responses" in answer.anomalies


@pytest.mark.parametrize(
    "event",
    [
        begin(1, "fallback", to={"model": "m-2"}),
        write_event("message_delta", delta={"model": "m-2"}, usage={}),
    ],
)
def test_the_model_is_the_one_named_last(event: bytes) -> None:
    """A provider goes on with another where the first one declines."""
    assert answer_of(START, event, begin(2), text("Hi", 2), end(), STOP).model == "m-2"


def test_past_the_limit_the_end_and_the_counts_are_still_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What came before it stays."""
    monkeypatch.setattr(stream_module, "MAX_ANSWER_BYTES", 20_000)
    words = [text("some words " * 20) for _ in range(200)]
    answer = answer_of(START, begin(0), *words, end("max_tokens", output_tokens=700), STOP)
    assert 5_000 < len(answer.body["content"][0]["text"]) < 20_000
    assert (answer.usage.completion, answer.finish_reasons) == (700, [(0, "max_tokens")])
    assert "observer_limit" in answer.anomalies


def test_a_message_that_begins_too_large_keeps_its_words() -> None:
    """Whose it is and what it is called are short."""
    fold = MessageFold(Budget(2_000))
    fold.feed({"type": "message_start", "message": MESSAGE | {"note": "x" * 10_000}})
    answer = fold.answer()
    names = ("type", "id", "model", "role")
    assert {name: answer.body[name] for name in names} == {name: MESSAGE[name] for name in names}
    assert "note" not in answer.body
    assert "observer_limit" in answer.anomalies


def test_what_nobody_knows_is_a_chunk() -> None:
    """And pings are; errors are not."""
    stream = MessageStream()
    for event in (START, write_event("ping"), write_event("message_mood"), text("Hi")):
        stream.feed(event)
    assert stream.chunk_count == 4
    stream.feed(write_event("error", error={"message": "no"}))
    assert stream.chunk_count == 4


@pytest.mark.parametrize(
    "event",
    [
        begin(0, "tool_use", id="t", name="f", input={}),
        begin(0, "redacted_thinking", data="x"),
        begin(0, "web_search_tool_result", content=[{"a": 1}]),
        text("x"),
        delta(0, "thinking_delta", thinking="x"),
        delta(0, "input_json_delta", partial_json="{"),
    ],
)
def test_content_is_noticed_when_it_comes(event: bytes) -> None:
    """Not before: neither a beginning nor an empty block is content."""
    stream = MessageStream()
    for before in (START, begin(0), begin(1, "thinking", thinking=""), text("")):
        stream.feed(before)
    assert not stream.has_content
    stream.feed(event)
    assert stream.has_content


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
KINDS = st.sampled_from(
    [
        *("message_start", "content_block_start", "content_block_delta", "content_block_stop"),
        *("message_delta", "message_stop", "ping", "error", "x"),
    ]
)
MEMBERS = st.dictionaries(
    st.sampled_from(["index", "content_block", "delta", "message", "usage", "error", "text"]),
    JSON
    | st.fixed_dictionaries(
        {
            "type": st.sampled_from(
                ["text_delta", "input_json_delta", "citations_delta", "fallback"]
            )
        },
        optional={"text": JSON, "partial_json": JSON, "to": JSON, "input": JSON, "content": JSON},
    ),
    max_size=4,
)


@given(st.lists(st.tuples(KINDS, MEMBERS), max_size=8))
def test_nothing_raises_whatever_an_event_says(events: list[tuple[str, dict[str, Any]]]) -> None:
    """Members of any kind in any place: the message is what could be read, and is readable."""
    answer = answer_of(*[write_event(kind, **members) for kind, members in events])
    assert len(answer.answers) <= 1
    assert is_json(encode_json(answer.body))
    assert all(call.type for call in answer.tool_calls)
    assert answer.ending(streamed=True) in Ending
