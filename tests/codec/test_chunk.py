from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.apis.responses.stream import ResponseStream
from codec.budget import Budget
from codec.call import ErrorObject
from codec.chat.stream import ChatStream
from codec.chunk import (
    MAX_FREE_ERROR_BYTES,
    find_error,
    fit_error,
    is_bare_value,
    is_chunk,
    is_done,
    is_plain_chunk,
    is_usage_only,
)
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
    ("chunk", "expected"),
    [
        ({"choices": [], "usage": USAGE}, True),
        ({"choices": [], "usage": USAGE, "obfuscation": "x", "cost": {"usd": 1}}, True),
        ({"choices": [], "usage": USAGE, "citations": None, "error": None}, True),
        ({"choices": [], "usage": USAGE, "prompt_filter_results": [{}]}, False),
        ({"choices": [], "usage": USAGE, "citations": ["u"]}, False),
        ({"choices": [], "usage": USAGE, "error": {"message": "m"}}, False),
        ({"choices": [], "usage": USAGE, "timings": {"prompt_n": 1}}, True),
        ({"choices": [], "usage": None}, False),
        ({"choices": []}, False),
        ({"choices": [{"index": 0, "delta": {}}], "usage": USAGE}, False),
        ({"choices": None, "usage": USAGE}, False),
        ({"usage": USAGE}, False),
        ([], False),
        (None, False),
    ],
)
def test_usage_only(chunk: Any, expected: bool) -> None:
    """design.md section 4: no choices, some usage, and nothing else of interest."""
    assert is_usage_only(chunk) is expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"[DONE]", True), (b"[DONE] ", True), (b"[DATA]", False), (b'"[DONE]"', False)],
)
def test_end_marker(data: bytes, expected: bool) -> None:
    """The end is what starts with the marker; a wrong one (S0.13) is none."""
    assert is_done(data) is expected


@pytest.mark.parametrize(
    ("value", "event", "comments", "expected"),
    [
        pytest.param(
            {"error": {"message": "m", "type": "t", "param": None, "code": "c"}}, None, (),
            ("m", "t", "c"), id="4.1 object",
        ),
        pytest.param({"error": "m"}, None, (), ("m", None, None), id="4.1 bare string"),
        pytest.param(
            {"error": "m", "error_type": "t"}, None, (), ("m", "t", None), id="4.1 TGI"
        ),
        pytest.param(
            {"error": {"code": 429, "message": "m"}}, None, (), ("m", None, "429"),
            id="4.1 numeric code",
        ),
        pytest.param(
            {"error": {"code": None, "kind": "odd"}}, None, (),
            ('{"code":null,"kind":"odd"}', None, None), id="4.1 without a message",
        ),
        pytest.param({"error": ["a", True]}, None, (), ('["a",true]', None, None), id="4.1 list"),
        pytest.param(
            {"error": {"message": "m", "code": "tool_use_failed", "status_code": 400}}, "error", (),
            ("m", None, "tool_use_failed"), id="4.2 Groq",
        ),
        pytest.param(
            {"message": "m", "code": 500}, "error", (), ("m", None, "500"), id="4.2 flat",
        ),
        pytest.param("m", "error", (), ("m", None, None), id="4.2 text"),
        pytest.param([1], "error", (), ("[1]", None, None), id="4.2 another value"),
        pytest.param(
            None, "error", ("engine", "crashed"), ("engine crashed", None, None), id="S0.12"
        ),
        pytest.param(None, "error", (), ("error", None, None), id="4.2 nothing but the name"),
        pytest.param(
            {"object": "error", "message": "m", "type": "BadRequestError", "code": 400}, None, (),
            ("m", "BadRequestError", "400"), id="4.3 vLLM",
        ),
        pytest.param(
            {"type": "error", "code": "c", "message": "m", "param": None}, None, (),
            ("m", None, "c"), id="4.4 flat",
        ),
        pytest.param(
            {"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, None, (),
            ("m", "overloaded_error", None), id="4.4 nested",
        ),
        pytest.param(
            {"choices": [], "error": {"code": 400, "message": "m"}, "usage": USAGE}, None, (),
            ("m", None, "400"), id="4.5 beside a chunk",
        ),
        pytest.param(
            [{"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED"}}], None, (),
            ("m", "RESOURCE_EXHAUSTED", "429"), id="4.8 Google",
        ),
    ],
)  # fmt: skip
def test_errors_are_found(
    value: Any,
    event: str | None,
    comments: tuple[str, ...],
    expected: tuple[str, str | None, str | None],
) -> None:
    """Every shape of dialects.md section 4 gives message, type and code."""
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


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"choices": []}, True),
        ({"choices": [{"index": 0}]}, True),
        ({"usage": USAGE}, True),
        ({"object": "chat.completion.chunk", "choices": None}, True),
        ({"object": "", "choices": [], "prompt_filter_results": []}, True),
        ({"hello": 1}, False),
        ({"warning": "w"}, False),
        ({"choices": "abc"}, False),
        ({"object": 1}, False),
        ({}, False),
        ([], False),
        (1, False),
    ],
)
def test_chunks_are_told_from_foreign_objects(value: Any, expected: bool) -> None:
    """dialects.md section 1, rule 2: absent members do not make a chunk foreign; S0.13 does."""
    assert is_chunk(value) is expected


@given(json_values, st.sampled_from([None, "error", "ping"]))
def test_no_json_value_raises(value: Any, event: str | None) -> None:
    """Whatever an event carries is judged without an exception."""
    error = find_error(value, event)
    assert error is None or error.message
    assert is_usage_only(value) in {True, False}
    assert is_chunk(value) in {True, False}


@given(
    value=st.fixed_dictionaries(
        {},
        optional={
            "choices": st.sampled_from([[], None, {}, [{}]]),
            "error": st.sampled_from([None, {}, "no", {"message": "no"}]),
            "object": st.sampled_from(["chat.completion.chunk", "error", None, 1]),
            "type": st.sampled_from(["error", "chunk"]),
            "value": st.just("text"),
        },
    )
    | st.none()
    | st.just([{"error": "no"}])
)
def test_a_plain_chunk_is_a_chunk_without_error(value: Any) -> None:
    """What is taken for one without looking closely is one where one looks closely."""
    if is_plain_chunk(value):
        assert is_chunk(value)
        assert not is_bare_value(value)
        assert find_error(value) is None
    elif isinstance(value, dict) and value.keys() == {"choices"}:
        assert value["choices"] in (None, {})


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
