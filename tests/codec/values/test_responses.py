"""Answers as values, from streams and bodies, and back to bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from codec.chat.stream import ChatStream
from codec.errors import MalformedResponse
from codec.text.jsontext import decode_json
from codec.values.choices import AnsweredCall, AnsweredChoice
from codec.values.responses import (
    ResponseValues,
    decode_response_values,
    encode_response_values,
    read_response_values,
)
from tests.codec.test_one_decoder import answers
from tests.codec.values.test_splice import texts, values
from tests.fixtures.wire import DONE, open_stream, sse, usage_of


def decode(**members: Any) -> ResponseValues:
    """The values of an answer with these members."""
    return decode_response_values(json.dumps(members).encode())


def answer(message: Any, **members: Any) -> ResponseValues:
    """The values of an answer with one choice."""
    return decode(choices=[{"index": 0, "message": message, "finish_reason": "stop"}], **members)


def test_nothing_is_required() -> None:
    """An empty object is an answer that says nothing (``docs/contract/sources.md#s4-11``)."""
    values = decode()
    assert values == ResponseValues()
    assert (values.message, values.tool_calls, values.finish, values.usage) == (None,) * 4


def test_a_full_answer_is_read() -> None:
    """Text and a call, usage with cached tokens, log probabilities.

    See ``docs/contract/sources.md#s4-11`` and ``docs/contract/sources.md#s4-t1``.
    """
    function = {"name": "atlas", "arguments": '{"of":"Elbe"}'}
    values = decode(
        id="c-1",
        model="m-1",
        choices=[
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Let me see.",
                    "tool_calls": [{"id": "t-1", "type": "function", "function": function}],
                },
                "logprobs": {"content": [{"token": "Let"}]},
                "finish_reason": "stop",
            }
        ],
        usage=usage_of(6, 4, prompt_tokens_details={"cached_tokens": 5}),
    )
    assert (values.id, values.model, values.message) == ("c-1", "m-1", "Let me see.")
    assert values.finish == "tool_use", "there is a call to be run"
    assert values.tool_calls == (AnsweredCall(id="t-1", name="atlas", arguments={"of": "Elbe"}),)
    assert values.usage is not None
    assert (values.usage.total, values.usage.cache_read, values.usage.cache_write) == (10, 5, None)
    assert values.api_specific == {"logprobs": {"content": [{"token": "Let"}]}}


def test_cached_and_reasoning_tokens_are_kept() -> None:
    """As reported; a usage of null is none.

    See ``docs/contract/sources.md#s4-15`` and ``docs/contract/sources.md#s4-t2``.
    """
    usage = usage_of(90, 30, prompt_tokens_details={"cached_tokens": 64})
    values = decode(usage=usage | {"completion_tokens_details": {"reasoning_tokens": 12}})
    assert values.usage is not None
    assert (values.usage.cache_read, values.usage.reasoning) == (64, 12)
    assert decode(usage=None).usage is None


def test_what_is_not_modelled_is_extra() -> None:
    """The API's own apart, all other keys in extra.

    See ``docs/contract/sources.md#s4-16`` and ``docs/contract/sources.md#s4-t3``.
    """
    values = decode(
        id="c",
        object="chat.completion",
        created=4,
        system_fingerprint="fp-7",
        service_tier="flex",
        x_one=1,
        x_two={"y": 2},
    )
    assert values.api_specific == {"system_fingerprint": "fp-7", "service_tier": "flex"}
    assert values.extra == {
        "object": "chat.completion",
        "created": 4,
        "x_one": 1,
        "x_two": {"y": 2},
    }


@pytest.mark.parametrize("body", [b'"words"', b"[]", b"7", b"", b"{"])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    """The one thing that an answer must be (``docs/contract/sources.md#s4-t4``)."""
    with pytest.raises(MalformedResponse, match="response body"):
        decode_response_values(body)


def test_all_choices_are_read_by_their_index() -> None:
    """Sorted; the first one's logprobs apart (``docs/contract/sources.md#s4-16``)."""
    values = decode(
        choices=[
            {"index": 2, "text": "Third", "finish_reason": "length"},
            "odd",
            {"index": 1, "message": {"content": "Second"}, "logprobs": {"content": [1]}},
            {"index": 0, "message": {"content": "First"}, "logprobs": {"content": [0]}},
        ]
    )
    assert [choice.text for choice in values.choices] == ["First", "Second", "Third"]
    assert values.message == "First"
    assert values.api_specific == {"logprobs": {"content": [0]}}


def test_what_has_another_type_is_extra() -> None:
    """Rule 3: members of no use are not lost; those that are null or empty say nothing."""
    odd = {"id": 5, "model": ["m"], "choices": {"a": 1}, "usage": "much"}
    assert decode(**odd).extra == odd
    assert decode(id="", model="", choices=[], system_fingerprint=None) == ResponseValues()


@given(answers())
def test_streams_give_the_values_of_plain_answers(answer: Any) -> None:
    """Rule 1: whatever is in it, and however it is cut (``docs/contract/sources.md#s4-19``)."""
    body, chunks = answer
    stream = ChatStream()
    stream.feed(sse(*chunks) + DONE)
    streamed = stream.finish()
    assume("cumulative_content" not in streamed.anomalies)
    folded = read_response_values(streamed)
    assert folded == as_streamed(decode_response_values(json.dumps(body).encode()))


def as_streamed(values: ResponseValues) -> ResponseValues:
    """The values of a plain answer without what rule 1 says that a stream cannot tell."""
    return replace(values, choices=tuple(map(_choice_as_streamed, values.choices)))


def _choice_as_streamed(choice: AnsweredChoice) -> AnsweredChoice:
    calls = tuple(
        replace(call, arguments={}) if call.arguments == "" and call.type == "function" else call
        for call in choice.tool_calls or ()
    )
    return replace(choice, tool_calls=calls or None)


def test_nulls_of_others_are_the_same_in_a_stream() -> None:
    """Rule 1: however deep, and in whichever chunk they are."""
    c = open_stream("m-1")
    first = {"nvext": {"timing": {"note": None}, "worker": {"id": 3, "rank": None}}}
    second = {"nvext": {"timing": {"ms": 5, "note": None}}}
    stream = ChatStream()
    stream.feed(sse(c({"content": "a"}) | first, c({}, "stop") | second) + DONE)
    streamed = read_response_values(stream.finish())
    nvext = {"timing": {"ms": 5, "note": None}, "worker": {"id": 3, "rank": None}}
    message = {"role": "assistant", "content": "a", "refusal": None}
    whole = c.head | {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "nvext": nvext,
    }
    assert streamed == decode_response_values(json.dumps(whole).encode())
    assert streamed.extra["nvext"] == {"timing": {"ms": 5}, "worker": {"id": 3}}


BODY = (
    b'\n{"id":"c-1", "choices":[ {"index":0,"message":{"role":"assistant","content":"caf\\u00e9",'
    b'"audio":null},"finish_reason":"stop","x":1.0}],"usage":{"total_tokens":1e1}, "z":[] }'
)


def test_encoding_is_a_merge() -> None:
    """Rule 4: nothing changed changes nothing; one thing changed changes its own bytes."""
    values = decode_response_values(BODY)
    assert encode_response_values(values, BODY) == BODY
    choice = replace(values.first, finish_reason="length", content="tea")
    encoded = encode_response_values(replace(values, choices=(choice,)), BODY)
    assert encoded == BODY.replace(b'"stop"', b'"length"').replace(b"caf\\u00e9", b"tea")


def test_calls_that_change_are_written_as_text() -> None:
    """Arguments go back to the text that the API has; what is new gets all its members."""
    original = json.dumps({"choices": [{"index": 0, "message": {"tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"n": 1}', "y": 2}}
    ]}}]}).encode()  # fmt: skip
    values = decode_response_values(original)
    (made,) = values.tool_calls or ()
    both = (replace(made, arguments={"n": 2}), AnsweredCall(id="b", name="g"))
    choice = replace(values.first, tool_calls=both)
    encoded = encode_response_values(replace(values, choices=(choice,)), original)
    first, second = json.loads(encoded)["choices"][0]["message"]["tool_calls"]  # noqa: TID251 - not by the codec
    assert first["function"] == {"name": "f", "arguments": '{"n": 2}', "y": 2}
    function = {"name": "g", "arguments": "{}"}
    assert second == {"id": "b", "type": "function", "function": function}


def test_calls_of_custom_tools_change_like_others() -> None:
    """Rule 4: beside one that changes they keep their bytes, and their input is text."""
    original = (
        b'{"choices":[{"message":{"tool_calls":[{"id":"a","type":"custom", "custom":'
        b'{"name":"knots","input":"[1]"}}, {"type":"function","function":{"name":"tide"}}]}}]}'
    )
    values = decode_response_values(original)
    knots, tide = values.tool_calls or ()
    assert knots == AnsweredCall(id="a", name="knots", arguments="[1]", type="custom")

    def encoded(*calls: AnsweredCall) -> bytes:
        choices = (replace(values.first, tool_calls=calls),)
        return encode_response_values(replace(values, choices=choices), original)

    assert encoded(knots, replace(tide, name="ebb")) == original.replace(b'"tide"', b'"ebb"')
    assert encoded(replace(knots, arguments="[2]"), tide) == original.replace(b"[1]", b"[2]")


UNSORTED = b"""{"choices":[{"index":1,"message":{"content":"b"}}, "odd", {"index":0,"message":{
 "tool_calls":[{"id":"lost"},
  {"id":"a", "function":{"name":"f","arguments":"{ }"}}, 7,
  {"id":"b", "function":{"name":"g","arguments":"{ }"}}]}}]}"""


def test_what_was_left_out_keeps_its_place() -> None:
    """Rule 4: beside a call that changes, before one that is new, and among choices."""
    values = decode_response_values(UNSORTED)
    a, b = values.tool_calls or ()
    zero, one = values.choices

    def encoded(*calls: AnsweredCall, text: str = "b") -> bytes:
        choices = (replace(zero, tool_calls=calls), replace(one, content=text))
        return encode_response_values(replace(values, choices=choices), UNSORTED)

    assert encoded(a, b) == UNSORTED
    assert encoded(a, b, text="c") == UNSORTED.replace(b'"b"}}', b'"c"}}')
    assert encoded(a, replace(b, name="h")) == UNSORTED.replace(b'"g"', b'"h"')
    assert encoded(replace(a, name="h"), b) == UNSORTED.replace(b'"f"', b'"h"')
    fewer = decode_json(encoded(b))["choices"][2]["message"]["tool_calls"]
    assert fewer == [{"id": "lost"}, {"id": "b", "function": {"name": "g", "arguments": "{ }"}}, 7]


def test_choices_come_and_go() -> None:
    """In the order of the values then; what is none stays where it stood."""
    values = decode_response_values(UNSORTED)
    zero, one = values.choices

    def encoded(*choices: AnsweredChoice) -> Any:
        return decode_json(encode_response_values(replace(values, choices=choices), UNSORTED))

    two = AnsweredChoice(index=2, role="assistant", content="c")
    entries = encoded(zero, one, two)["choices"]
    assert [entry if entry == "odd" else entry["index"] for entry in entries] == [0, "odd", 1, 2]
    assert [call for call in entries[0]["message"]["tool_calls"] if call == 7] == [7]
    assert encoded(one)["choices"] == [{"index": 1, "message": {"content": "b"}}, "odd"]
    assert encoded() == {}


@pytest.mark.parametrize(
    "original",
    [
        b'\x0b{"id" :"a"}\x0c\n',
        b' [{"error":{"message" :"m"}}, 1 ]',
        b"\n\n{ }",
        b'\xef\xbb\xbf\xef\xbb\xbf{"id": "a"}',
    ],
)
def test_whatever_decodes_encodes(original: bytes) -> None:
    """Rule 4: white space that is none of JSON's, the list of Google's front ends, two BOMs."""
    values = decode_response_values(original)
    assert encode_response_values(values, original) == original
    changed = encode_response_values(replace(values, model="m"), original)
    assert changed != original
    assert decode_response_values(changed) == replace(values, model="m")


MEMBERS = st.sampled_from([
    "id", "model", "choices", "index", "message", "text", "delta", "role", "content", "tool_calls",
    "function", "custom", "name", "arguments", "type", "function_call", "finish_reason", "usage",
    "logprobs", "refusal", "reasoning", "service_tier", "x",
])  # fmt: skip
BODIES = st.recursive(
    values | st.sampled_from(["text", "function", "custom", "{}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MEMBERS, inner, max_size=4),
    max_leaves=16,
)
CHOICES = st.fixed_dictionaries({}, optional={
    "index": values, "message": BODIES, "logprobs": BODIES, "finish_reason": BODIES,
})  # fmt: skip
ANSWERS = st.fixed_dictionaries({}, optional={
    "id": BODIES, "choices": st.lists(CHOICES | BODIES, max_size=3), "usage": BODIES,
    "system_fingerprint": BODIES,
})  # fmt: skip


@given(ANSWERS.flatmap(texts))
def test_encoding_what_was_decoded_changes_nothing(text: str) -> None:
    """Rule 4: for any answer, and a change of one thing changes nothing else."""
    body = text.encode("utf-8", "backslashreplace")
    answered = decode_response_values(body)
    assert encode_response_values(answered, body) == body
    changed = replace(answered, extra=dict(answered.extra) | {"model": "m-2"})
    spliced = encode_response_values(changed, body)
    expected = {**decode_json(body), "model": "m-2"}
    assert repr(sorted(decode_json(spliced).items())) == repr(sorted(expected.items()))


def test_a_legacy_completion_is_written_as_one() -> None:
    """Its text, and no message."""
    original = b'{"choices":[{"text":"Once","index":0,"finish_reason":"length"}]}'
    values = decode_response_values(original)
    choice = replace(values.first, content="Twice")
    encoded = encode_response_values(replace(values, choices=(choice,)), original)
    assert encoded == original.replace(b"Once", b"Twice")
