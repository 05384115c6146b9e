"""Chunks of a chat's stream, told by their shape."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.chat.chunk import is_bare_value, is_chunk, is_plain_chunk, is_usage_only
from codec.chat.stream import ChatStream
from codec.error_objects import find_error
from tests.codec.test_error_objects import USAGE, json_values


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
        ({"choices": None, "usage": USAGE}, True),
        ({"choices": None, "usage": USAGE, "x": 1}, True),
        ({"choices": None, "usage": USAGE, "citations": ["u"]}, False),
        ({"choices": {}, "usage": USAGE}, False),
        ({"usage": USAGE}, True),
        ({"usage": USAGE, "id": "c", "object": "", "created": 0, "timings": {}}, True),
        ({"usage": USAGE, "delta": None}, True),
        ({"usage": USAGE, "delta": {}}, False),
        ({"usage": USAGE, "type": "message_delta"}, False),
        ({"usage": USAGE, "error": {"message": "m"}}, False),
        ({"usage": None}, False),
        ([], False),
        (None, False),
    ],
)
def test_usage_only(chunk: Any, expected: bool) -> None:
    """No choices, some usage, and nothing else of interest; without any, nothing unknown."""
    assert is_usage_only(chunk) is expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"[DONE]", True), (b"[DONE] ", True), (b"[DATA]", False), (b'"[DONE]"', False)],
)
def test_end_marker(data: bytes, expected: bool) -> None:
    """The end is what starts with the marker (``docs/contract/sources.md#s0-13``)."""
    stream = ChatStream()
    stream.feed(b"data: " + data + b"\n\n")
    assert stream.done is expected


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
    """``docs/contract/wire.md#choices-by-index``: absent members do not make a chunk foreign."""
    assert is_chunk(value) is expected


@given(json_values)
def test_no_json_value_raises(value: Any) -> None:
    """Whatever an event carries is judged without an exception."""
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
