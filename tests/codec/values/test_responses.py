"""Answers as values, from streams and bodies, and back to bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from codec.cost import Cost
from codec.errors import MalformedResponse
from codec.response import decode_response
from codec.stream import ChatStream
from codec.values.parts import TextPart, ThinkingPart
from codec.values.responses import (
    AnsweredCall,
    AnsweredChoice,
    ResponseValues,
    decode_response_values,
    encode_response_values,
    read_response_values,
)
from tests.fixtures.wire import DONE, call, calls, open_stream, sse, usage_of


def decode(**members: Any) -> ResponseValues:
    """The values of an answer with these members."""
    return decode_response_values(json.dumps(members).encode())


def answer(message: Any, **members: Any) -> ResponseValues:
    """The values of an answer with one choice."""
    return decode(choices=[{"index": 0, "message": message, "finish_reason": "stop"}], **members)


def test_nothing_is_required() -> None:
    """S4.11: an empty object is an answer that says nothing."""
    values = decode()
    assert values == ResponseValues()
    assert (values.message, values.tool_calls, values.finish, values.usage) == (None,) * 4


def test_a_full_answer_is_read() -> None:
    """S4.11, S4.T1: text and a call, usage with cached tokens, log probabilities."""
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
    assert values.finish == "complete"
    assert values.tool_calls == (
        AnsweredCall(id="t-1", name="atlas", arguments={"of": "Elbe"}, extra={"type": "function"}),
    )
    assert values.usage is not None
    assert (values.usage.total, values.usage.cache_read, values.usage.cache_write) == (10, 5, None)
    assert values.api_specific == {"logprobs": {"content": [{"token": "Let"}]}}


def test_cached_and_reasoning_tokens_are_kept() -> None:
    """S4.15, S4.T2: as reported; a usage of null is none."""
    usage = usage_of(90, 30, prompt_tokens_details={"cached_tokens": 64})
    values = decode(usage=usage | {"completion_tokens_details": {"reasoning_tokens": 12}})
    assert values.usage is not None
    assert (values.usage.cache_read, values.usage.reasoning) == (64, 12)
    assert decode(usage=None).usage is None


def test_what_is_not_modelled_is_extra() -> None:
    """S4.16, S4.T3: the API's own apart, all other keys in extra."""
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
    """S4.T4: the one thing that an answer must be."""
    with pytest.raises(MalformedResponse, match="response body"):
        decode_response_values(body)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([{"id": "a"}], ()),
        ([{"id": "a", "function": None}], ()),
        ([{"id": "a", "function": {}}, "odd"], ()),
        ([], ()),
        ([{"function": {"name": "f"}}], (AnsweredCall(name="f"),)),
        (
            [{"id": "a", "function": {"name": "f", "arguments": "{}"}}, {"id": "b"}],
            (AnsweredCall(id="a", name="f"),),
        ),
    ],
)
def test_calls_without_a_function_are_left_out(entries: Any, expected: Any) -> None:
    """S4.13, S4.T5, S4.T6: no id is an empty one, no arguments an empty object, nothing a list."""
    values = answer({"content": "x", "tool_calls": entries})
    assert values.tool_calls == expected
    assert values.message == "x"
    assert answer({"content": "x"}).tool_calls is None


@pytest.mark.parametrize(
    ("text", "value"),
    [('{"n":1}', {"n": 1}), ("{oops", "{oops"), ("", ""), ("12", 12), ({"n": 1}, {"n": 1})],
)
def test_arguments_are_parsed_where_they_can_be(text: Any, value: Any) -> None:
    """S4.14, S4.T15: what is no JSON stands for itself."""
    values = answer({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": text}}]})
    assert values.tool_calls == (AnsweredCall(id="a", name="f", arguments=value),)


def test_all_choices_and_all_that_they_say_are_read() -> None:
    """S4's bug (d): refusal, reasoning, parts, the legacy call, a second choice, a legacy text."""
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]},
        {"type": "text", "text": "Aye"},
    ]
    values = decode(
        choices=[
            {"index": 0, "message": {"content": parts, "refusal": "No.", "audio": {"id": "q"}}},
            {
                "index": 1,
                "message": {
                    "reasoning": "because",
                    "function_call": {"name": "f", "arguments": "{}"},
                },
                "finish_reason": "function_call",
                "stop_reason": 7,
            },
            {"index": 2, "text": "Once", "finish_reason": "length"},
            "odd",
        ]
    )
    first, second, third = values.choices
    assert first.content == (ThinkingPart(text="Hm"), TextPart(text="Aye"))
    assert (first.text, first.refusal, first.extra) == ("Aye", "No.", {"audio": {"id": "q"}})
    assert second.reasoning == {"reasoning": "because"}
    assert second.function_call == AnsweredCall(name="f")
    assert (second.finish_reason, second.finish) == ("function_call", "tool_use")
    assert second.choice_extra == {"stop_reason": 7}
    assert third == AnsweredChoice(
        index=2, content="Once", finish_reason="length", is_completion=True
    )


def test_a_stream_gives_the_values_of_the_plain_answer() -> None:
    """S4.19, N3, rule 1: text, calls, finish, usage and cost."""
    c = open_stream("m-1", system_fingerprint="fp")
    usage = usage_of(4, 6, cost=0.5)
    stream = ChatStream()
    stream.feed(
        sse(
            c({"role": "assistant", "content": "Half "}),
            c({"content": "past"}),
            c(calls(call(0, "c1", "clock", '{"at"'))),
            c(calls(call(0, None, None, ":1}"))),
            c({}, "tool_calls"),
            c.alone(usage=usage),
        )
        + DONE
    )
    message = {
        "role": "assistant",
        "content": "Half past",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "clock", "arguments": '{"at":1}'}}
        ],
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}
    head = c.head | {"object": "chat.completion"}
    plain = json.dumps(head | {"choices": [choice], "usage": usage}).encode()
    values = read_response_values(stream.finish())
    assert values == decode_response_values(plain)
    assert values == read_response_values(decode_response(plain))
    assert (values.finish, values.cost) == ("tool_use", Cost(total=0.5))


BODY = (
    b'\n{"id":"c-1", "choices":[ {"index":0,"message":{"role":"assistant","content":"caf\\u00e9",'
    b'"audio":null},"finish_reason":"stop","x":1.0}],"usage":{"total_tokens":1e1}, "z":[] }'
)


def test_encoding_is_a_merge() -> None:
    """Rule 3: nothing changed changes nothing; one thing changed changes its own bytes."""
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
    assert first["function"] == {"name": "f", "arguments": '{"n":2}', "y": 2}
    assert second == {"id": "b", "function": {"name": "g", "arguments": "{}"}}


def test_a_legacy_completion_is_written_as_one() -> None:
    """Its text, and no message."""
    original = b'{"choices":[{"text":"Once","index":0,"finish_reason":"length"}]}'
    values = decode_response_values(original)
    choice = replace(values.first, content="Twice")
    encoded = encode_response_values(replace(values, choices=(choice,)), original)
    assert encoded == original.replace(b"Once", b"Twice")
