from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.apis.responses.stream import ResponseStream
from codec.budget import Budget
from codec.chat.stream import ChatStream
from codec.error_objects import MAX_FREE_ERROR_BYTES, find_error, fit_error
from codec.said import ErrorObject
from codec.text.jsontext import encode_json

USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(
            st.sampled_from(["error", "type", "object", "message", "code", "choices", "usage"])
            | st.text(),
            children,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("value", "event", "comments", "expected"),
    [
        pytest.param(
            {"error": {"message": "m", "type": "t", "param": None, "code": "c"}}, None, (),
            ("m", "t", "c"), id="1 object",
        ),
        pytest.param({"error": "m"}, None, (), ("m", None, None), id="1 bare string"),
        pytest.param(
            {"error": "m", "error_type": "t"}, None, (), ("m", "t", None), id="1 TGI"
        ),
        pytest.param(
            {"error": {"code": 429, "message": "m"}}, None, (), ("m", None, "429"),
            id="1 numeric code",
        ),
        pytest.param(
            {"error": {"code": None, "kind": "odd"}}, None, (),
            ('{"code":null,"kind":"odd"}', None, None), id="1 without a message",
        ),
        pytest.param({"error": ["a", True]}, None, (), ('["a",true]', None, None), id="1 list"),
        pytest.param(
            {"error": {"message": "m", "code": "tool_use_failed", "status_code": 400}}, "error", (),
            ("m", None, "tool_use_failed"), id="2 Groq",
        ),
        pytest.param(
            {"message": "m", "code": 500}, "error", (), ("m", None, "500"), id="2 flat",
        ),
        pytest.param("m", "error", (), ("m", None, None), id="2 text"),
        pytest.param([1], "error", (), ("[1]", None, None), id="2 another value"),
        pytest.param(
            None, "error", ("engine", "crashed"), ("engine crashed", None, None), id="comments"
        ),
        pytest.param(None, "error", (), ("error", None, None), id="2 nothing but the name"),
        pytest.param(
            {"object": "error", "message": "m", "type": "BadRequestError", "code": 400}, None, (),
            ("m", "BadRequestError", "400"), id="3 vLLM",
        ),
        pytest.param(
            {"type": "error", "code": "c", "message": "m", "param": None}, None, (),
            ("m", None, "c"), id="4 flat",
        ),
        pytest.param(
            {"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, None, (),
            ("m", "overloaded_error", None), id="4 nested",
        ),
        pytest.param(
            {"choices": [], "error": {"code": 400, "message": "m"}, "usage": USAGE}, None, (),
            ("m", None, "400"), id="5 beside a chunk",
        ),
        pytest.param(
            [{"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED"}}], None, (),
            ("m", "RESOURCE_EXHAUSTED", "429"), id="8 Google",
        ),
    ],
)  # fmt: skip
def test_errors_are_found(
    value: Any,
    event: str | None,
    comments: tuple[str, ...],
    expected: tuple[str, str | None, str | None],
) -> None:
    """Every shape of ``docs/contract/wire.md#errors-in-a-200`` gives message, type and code."""
    error = find_error(value, event, comments)
    assert error is not None
    assert (error.message, error.type, error.code) == expected


def test_the_error_is_kept_as_sent() -> None:
    """`raw` is the object itself, without the chunk around it."""
    sent = {"message": "m", "metadata": {"provider_name": "p"}}
    assert find_error({"id": "c", "error": sent}) == ErrorObject(message="m", raw=sent)


@pytest.mark.parametrize(
    "value",
    [
        {"error": None}, {"error": {}}, {"error": ""}, {"error": False}, {"object": "list"},
        {"type": "ping"}, {"choices": [{"index": 0, "delta": {"content": "error"}}]},
        {}, [], [{}], [1], None, 0, "error", True,
    ],
)  # fmt: skip
def test_no_error_is_invented(value: Any) -> None:
    """An empty `error` member is none, and text that speaks of errors is no error either."""
    assert find_error(value, "message", ("error",)) is None


@given(json_values, st.sampled_from([None, "error", "ping"]))
def test_no_json_value_raises(value: Any, event: str | None) -> None:
    """Whatever an event carries is judged without an exception."""
    error = find_error(value, event)
    assert error is None or error.message


@pytest.mark.parametrize("read", [ChatStream, ResponseStream])
@pytest.mark.parametrize("member", ["message", "type", "code", "param"])
def test_an_error_of_a_stream_takes_room_like_all_that_is_kept(
    read: type[ChatStream | ResponseStream], member: str
) -> None:
    """Words of megabytes are the lender's to allow; without them the error is one all the same."""
    error = {"message": "no room", "type": "t", "code": "c"} | {member: "x" * 3_000_000}
    data = b"event: error\ndata: " + encode_json({"error": error}).encode() + b"\n\n"
    lent: list[int] = []

    def lend(size: int) -> bool:
        lent.append(size)
        return True

    rich, poor = read(lend=lend), read(lend=lambda _: False)
    rich.feed(data)
    assert sum(lent) >= 3_000_000
    kept = rich.finish().error
    assert kept is not None
    assert kept.raw[member] == error[member]
    poor.feed(data)
    answer = poor.finish()
    assert answer.error is not None
    assert answer.error.message == error["message"][:MAX_FREE_ERROR_BYTES]
    assert (answer.error.raw, "observer_limit" in answer.anomalies) == (None, True)
    assert len(answer.error.type or "") + len(answer.error.code or "") <= MAX_FREE_ERROR_BYTES + 1


def test_a_short_error_is_kept_where_there_is_no_room() -> None:
    """How a call failed is told in any case."""
    error = ErrorObject(message="m" * 1_000, raw={"message": "m" * 1_000})
    assert fit_error(error, Budget(0)) is error
