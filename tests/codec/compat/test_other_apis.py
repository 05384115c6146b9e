"""Other APIs of the same providers, by shape and in the codec's words."""

from __future__ import annotations

from typing import Any

import pytest

from codec.compat.other_apis import (
    ApiShape,
    decode_anthropic_usage,
    find_request_shape,
    find_response_calls,
    find_response_shape,
    normalise_response_status,
    normalise_stop_reason,
)


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ({"input": "Hi", "messages": []}, "responses"),
        ({"instructions": "Be brief.", "system": "x"}, "responses"),
        ({"system": "Be brief.", "messages": []}, "anthropic"),
        ({"messages": []}, "chat"),
        ({"prompt": "Hi"}, None),
        ({"system": None, "input": None, "messages": []}, "chat"),
        (["messages"], None),
    ],
)
def test_a_request_is_known_by_its_members(body: Any, shape: str | None) -> None:
    """In this order; what fits nothing is nobody's.

    See ``docs/contract/sources.md#s4-21`` and ``docs/contract/sources.md#n8``.
    """
    assert find_request_shape(body) == shape


def test_a_hint_may_say_anthropic() -> None:
    """Where a chat could be either; it changes nothing else."""
    assert find_request_shape({"messages": []}, hint=ApiShape.ANTHROPIC) is ApiShape.ANTHROPIC
    assert find_request_shape({"input": 1}, hint=ApiShape.ANTHROPIC) is ApiShape.RESPONSES


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ({"choices": []}, "chat"),
        ({"output_text": ""}, "responses"),
        ({"output": []}, "responses"),
        ({"type": "message", "content": []}, "anthropic"),
        ({"type": "message"}, None),
        ({"choices": [], "output": []}, None),
        ({}, None),
        ("x", None),
    ],
)
def test_an_answer_must_have_exactly_one_shape(body: Any, shape: str | None) -> None:
    """Two shapes are none (``docs/contract/sources.md#s4-21``)."""
    assert find_response_shape(body) == shape


@pytest.mark.parametrize(
    ("word", "finish"),
    [("end_turn", "complete"), ("max_tokens", "length"), ("tool_use", "tool_use"),
     ("pause_turn", "unknown"), (None, None)],
)  # fmt: skip
def test_anthropic_stop_reasons_are_normalised(word: str | None, finish: str | None) -> None:
    """Three are known (``docs/contract/sources.md#s4-22``)."""
    assert normalise_stop_reason(word) == finish


def test_anthropic_prompts_include_what_was_cached() -> None:
    """Input, cache read and cache write together; absent counts stay absent."""
    usage = decode_anthropic_usage(
        {
            "input_tokens": 4,
            "cache_read_input_tokens": 60,
            "cache_creation_input_tokens": 6,
            "output_tokens": 9,
        }
    )
    assert usage is not None
    assert (usage.prompt, usage.completion, usage.total) == (70, 9, 79)
    assert (usage.cache_read, usage.cache_write) == (60, 6)
    partial = decode_anthropic_usage({"output_tokens": 9})
    assert partial is not None
    assert (partial.prompt, partial.total, partial.cache_read) == (None, None, None)
    assert decode_anthropic_usage(None) is decode_anthropic_usage({"input_tokens": None}) is None
    most = 2**63 - 1
    beyond = decode_anthropic_usage({"input_tokens": most, "cache_read_input_tokens": 1})
    assert beyond is not None
    assert beyond.prompt is None


@pytest.mark.parametrize(
    ("body", "finish"),
    [
        ({"status": "completed"}, "complete"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            "content_filter",
        ),
        ({"status": "incomplete", "incomplete_details": {"reason": "tide"}}, "unknown"),
        ({"status": "incomplete"}, "unknown"),
        ({"status": "failed"}, "unknown"),
        ({}, None),
        (None, None),
    ],
)
def test_response_statuses_are_normalised(body: Any, finish: str | None) -> None:
    """By status; where incomplete, by its reason (``docs/contract/sources.md#s4-23``)."""
    assert normalise_response_status(body) == finish


def test_response_calls_are_known_by_their_call_id() -> None:
    """A call item alone is no tool use; other items and odd ones are none."""
    body = {
        "status": "completed",
        "output": [
            {"type": "message"},
            {"type": "function_call", "id": "fc", "call_id": "c-1", "name": "row",
             "arguments": '{"far":2}'},
            {"type": "function_call", "call_id": 5, "arguments": "{"},
            {"type": "function_call"},
            "odd",
        ],
    }  # fmt: skip
    first, second, third = find_response_calls(body)
    assert (first.id, first.name, first.arguments) == ("c-1", "row", {"far": 2})
    assert (second.id, second.parse_status) == ("", "failed")
    assert (third.arguments, third.parse_status) == ({}, "succeeded")
    assert normalise_response_status(body) == "complete"
    assert find_response_calls({"output": 5}) == find_response_calls(None) == ()
