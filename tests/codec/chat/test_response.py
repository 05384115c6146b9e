from __future__ import annotations

import json
from contextlib import suppress
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from codec.chat.answer import ChatMessage, ChatResponse, Choice
from codec.chat.completion import build_completion
from codec.chat.response import decode_response, fold_body
from codec.errors import MalformedResponse
from codec.text.jsontext import decode_json_object
from tests.codec.test_error_objects import json_values

USAGE = {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21}


def decode(value: Any) -> ChatResponse:
    """Decode a value as the body it would be."""
    return decode_response(json.dumps(value).encode())


def test_a_whole_answer() -> None:
    """Identity, text, finish reason, usage and body (``docs/contract/sources.md#s4-11``)."""
    body = {
        "id": "c", "object": "chat.completion", "created": 5, "model": "m",
        "system_fingerprint": "fp", "service_tier": "default", "x_vendor": 1,
        "choices": [{
            "index": 0, "message": {"role": "assistant", "content": "hey"}, "logprobs": None,
            "finish_reason": "stop",
        }],
        "usage": USAGE,
    }  # fmt: skip
    response = decode(body)
    assert (response.id, response.created, response.model) == ("c", 5, "m")
    assert (response.system_fingerprint, response.service_tier) == ("fp", "default")
    message = ChatMessage(role="assistant", content="hey")
    assert response.choices == (Choice(index=0, message=message, finish_reason="stop"),)
    assert response.usage is not None
    assert response.usage.total == 21
    assert response.body == body
    assert (response.done, response.event_count, response.anomalies) == (False, 0, ())
    assert response.finished


def test_blank_lines_before_the_body_are_skipped() -> None:
    """``docs/contract/wire.md#dialects``: DeepSeek keeps a queued request alive with them."""
    body = b'\n\n \r\n\n{"choices":[],"usage":{"prompt_tokens":1}}\n'
    assert decode_response(body).usage is not None


@pytest.mark.parametrize(
    "body", [b"", b"\n\n", b"nope", b'"just a string"', b"[]", b"[1]", b"null", b'{"a":', b"\xff"]
)
def test_what_is_no_object_is_malformed(body: bytes) -> None:
    """One exception for whatever is no answer (``docs/contract/sources.md#s4-t4``)."""
    with pytest.raises(MalformedResponse, match="response body"):
        decode_response(body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "m", "code": 429}}, "m"),
        ([{"error": {"message": "m"}}], "m"),
        ({"object": "error", "message": "m"}, "m"),
        ({"error": "m", "error_type": "overloaded"}, "m"),
    ],
)
def test_error_bodies(body: Any, message: str) -> None:
    """Also in a body with status 200, also Google's list.

    See ``docs/contract/wire.md#errors-in-a-200``.
    """
    response = decode(body)
    assert response.error is not None
    assert response.error.message == message
    assert response.body == (body[0] if isinstance(body, list) else body)
    assert response.anomalies == ()


def test_an_empty_object_is_foreign() -> None:
    """It is no error of the codec, but it is no chat completion either."""
    assert decode({}).anomalies == ("foreign_chunk", "no_finish_reason", "no_usage")


@given(json_values.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=50))
def test_nothing_but_malformed_response_is_raised(body: bytes) -> None:
    """Any bytes are decoded or refused; an object is decoded."""
    try:
        answer = decode_response(body)
    except MalformedResponse:
        with pytest.raises(ValueError, match=r"."):
            decode_json_object(body.strip())
    else:
        assert answer.body is not None


@given(
    st.dictionaries(st.sampled_from(["choices", "usage", "cost", "x"]), json_values) | json_values
)
def test_an_answer_says_what_folding_it_would_say(value: Any) -> None:
    """Nothing need be merged to be known; only the body is what came, not what is folded."""
    body = json.dumps(value).encode()
    with suppress(MalformedResponse):
        answer = decode_response(body)
        folded = fold_body(dict(answer.body))
        assert replace(folded, body=answer.body) == answer


def test_the_message_counts_beside_a_delta() -> None:
    """Perplexity's plain answers have an empty delta beside the message that says it all."""
    response = decode_response(
        b'{"choices":[{"index":0,"delta":{"role":"assistant","content":""},'
        b'"message":{"role":"assistant","content":"Whole."},"finish_reason":"stop"}]}'
    )
    assert response.choices[0].message.content == "Whole."
    assert "delta" in response.body["choices"][0]


_ID = attrgetter("id")
_CALL = {"id": "c1", "function": {"name": "f", "arguments": "{}"}}
_OTHER = {"id": "c2", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        (
            [(0, "A", [], "stop"), (0, None, [_CALL], "tool_calls")],
            [(0, "A", ["c1"], "tool_calls")],
        ),
        (
            [(0, None, [_CALL], "tool_calls"), (0, "A", [], "stop"), (0, None, [_OTHER], "stop")],
            [(0, "A", ["c1", "c2"], "tool_calls")],
        ),
        ([(0, "A", [], "stop"), (0, "B", [], "length")], [(0, "AB", [], "length")]),
        (
            [(0, "A", [], "stop"), (1, "B", [_CALL], "stop"), (0, None, [_CALL], "stop")],
            [(0, "A", ["c1"], "stop"), (1, "B", ["c1"], "stop")],
        ),
        (
            [(None, "A", [], "stop"), (None, None, [_CALL], "tool_calls")],
            [(0, "A", [], "stop"), (1, None, ["c1"], "tool_calls")],
        ),
    ],
)
def test_choices_of_one_index_are_one_message(choices: list[Any], expected: list[Any]) -> None:
    """Copilot's choices, split: all that they say and call, and the reason that tells most."""
    listed = []
    for index, content, calls, reason in choices:
        said = {"content": content} | ({"tool_calls": calls} if calls else {})
        choice = {"message": {"role": "assistant", **said}, "finish_reason": reason}
        listed.append(choice if index is None else choice | {"index": index})
    answer = decode({"choices": listed})
    for response in (answer, fold_body({"choices": listed})):
        told = [
            (one.index, one.message.content, [*map(_ID, one.message.tool_calls)], one.finish_reason)
            for one in response.choices
        ]
        assert told == expected
    assert decode(build_completion(answer)).choices == answer.choices


def test_choices_of_other_kinds_are_no_obstacle() -> None:
    """What is not a list, or no object in it, has no delta to leave out."""
    assert decode_response(b'{"choices":"none"}').choices == ()
    assert decode_response(b'{"choices":[7,{"message":3}]}').choices[0].message.content is None
