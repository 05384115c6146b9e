"""The answer as one complete object."""

from __future__ import annotations

import json
from typing import Any

from codec.chat.completion import build_completion
from codec.chat.response import decode_response
from codec.chat.stream import ChatStream
from tests.fixtures.wire import DONE, call, calls, open_stream, sse, usage_of


def _fold(*chunks: Any, hides_usage: bool = False) -> dict[str, Any]:
    stream = ChatStream(hides_usage=hides_usage)
    stream.feed(sse(*chunks) + DONE)
    return build_completion(stream.finish())


def test_a_stream_gives_the_object_of_the_plain_answer() -> None:
    """Members that only streams have are gone, and the usage is there."""
    c = open_stream("m-1", obfuscation="x9")
    streamed = _fold(
        c({"role": "assistant", "content": ""}),
        c({"content": "Half "}),
        c({"content": "past"}),
        c(calls(call(0, "c1", "clock", '{"at"'))),
        c(calls(call(0, None, None, ":1}"))),
        c({}, "tool_calls"),
        c.alone(usage=usage_of(4, 6)),
    )
    message = {
        "role": "assistant",
        "content": "Half past",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "clock", "arguments": '{"at":1}'}}
        ],
    }
    assert streamed == {
        "id": "chatcmpl-7f",
        "object": "chat.completion",
        "created": 1_764_000_000,
        "model": "m-1",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": usage_of(4, 6),
    }


def test_what_never_came_is_null() -> None:
    """The role is assumed, content and finish reason are null."""
    assert _fold({"choices": [{"index": 0, "delta": {}}]}) == {
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": None},
                "finish_reason": None,
            }
        ],
    }


def test_a_hidden_usage_is_shown() -> None:
    """The client did not see it, but the answer has it."""
    c = open_stream("m-1")
    whole = _fold(c({"content": "a"}, "stop"), c.alone(usage=usage_of(2, 1)), hides_usage=True)
    assert whole["usage"] == usage_of(2, 1)


def test_a_plain_body_keeps_all_it_has() -> None:
    """Unknown members on every level stay; what is no choice or no call does not."""
    body = (
        b'{"id":"c","object":"chat.completion","x":{"y":1},"choices":[{"index":0,"z":2,'
        b'"message":{"role":"assistant","content":"a","audio":{"id":"q"},"tool_calls":["odd"]},'
        b'"finish_reason":"stop"},"no choice"]}'
    )
    whole = build_completion(decode_response(body))
    assert whole["x"] == {"y": 1}
    assert whole["choices"] == [
        {
            "index": 0,
            "z": 2,
            "message": {
                "role": "assistant",
                "content": "a",
                "audio": {"id": "q"},
            },
            "finish_reason": "stop",
        }
    ]


def test_null_is_absence() -> None:
    """Plain answers of OpenAI have nulls that its streams have not."""
    whole = build_completion(
        decode_response(
            b'{"object":"chat.completion","system_fingerprint":null,"choices":[{"index":0,'
            b'"message":{"role":"assistant","content":"a","refusal":null,"audio":null},'
            b'"logprobs":null,"finish_reason":"stop"}],"usage":null}'
        )
    )
    assert whole == {
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "a"},
                "finish_reason": "stop",
            }
        ],
    }


def test_calls_that_stay_apart_in_the_answer_stay_apart_here() -> None:
    """One with the index 1 and then one with none do not meet at the second place."""
    c = open_stream("m-1")
    named = calls(call(1, "c1", "clock", "{}")), calls(call(None, None, "tide", '{"a":1}'))
    whole = _fold(*map(c, named), c({}, "tool_calls"))
    assert whole["choices"][0]["message"]["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "clock", "arguments": "{}"}},
        {"id": "", "type": "function", "function": {"name": "tide", "arguments": '{"a":1}'}},
    ]


def test_a_call_has_every_member_that_it_must_have() -> None:
    """A call without arguments is one with empty text, whatever kind of call it is."""
    c = open_stream("m-1")
    custom = {"index": 1, "id": "c2", "type": "custom", "custom": {"name": "patch"}}
    odd = {"index": 2, "function": {}, "type": "function"}
    whole = _fold(
        c(calls(call(0, "c1", "clock", ""), custom, odd)),
        c({"function_call": {"name": "tide", "arguments": ""}}),
        c({}, "tool_calls"),
    )
    message = whole["choices"][0]["message"]
    assert message["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "clock", "arguments": ""}},
        {"id": "c2", "type": "custom", "custom": {"name": "patch", "input": ""}},
        {"id": "", "type": "function", "function": {"name": "", "arguments": ""}},
    ]
    assert message["function_call"] == {"name": "tide", "arguments": ""}


def test_an_odd_message_is_an_empty_one() -> None:
    """Nothing raises for what stands in a member's place."""
    whole = build_completion(decode_response(b'{"object":7,"choices":[{"message":"?"}]}'))
    assert whole["object"] == "chat.completion"
    assert whole["choices"][0]["message"] == {"role": "assistant", "content": None}
    assert build_completion(decode_response(b'{"choices":"?"}'))["choices"] == []


def test_an_empty_chat_with_text_is_a_chat() -> None:
    """As Together sends it, in pieces or whole."""
    head = {"object": "chat.completion.chunk"}
    entry = {"index": 0, "text": "", "delta": {}, "finish_reason": "eos"}
    message = {"role": "assistant", "content": None}
    expected = [{"index": 0, "message": message, "text": "", "finish_reason": "eos"}]
    assert _fold(head | {"choices": [entry]})["choices"] == expected
    whole = head | {"choices": [entry | {"message": {}}]}
    assert build_completion(decode_response(json.dumps(whole).encode()))["choices"] == expected


def test_text_without_a_message_is_a_legacy_completion() -> None:
    """Whatever ``object`` says, if there is text; else where it names no chat."""
    for name, text in (("chat.completion", "Aye"), ("text_completion", "")):
        body = {"object": name, "choices": [{"index": 0, "text": text, "finish_reason": "stop"}]}
        assert build_completion(decode_response(json.dumps(body).encode())) == body
