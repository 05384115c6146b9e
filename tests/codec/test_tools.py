"""Calls of tools that were not offered, and requests of the wrong shape."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codec.chat.request import decode_request
from codec.chat.response import decode_response
from codec.tools import calls_tool_not_offered

OFFERED = {"type": "function", "function": {"name": "sail"}}


def _judge(tools: dict[str, Any], *called: str, legacy: str | None = None) -> bool:
    message: dict[str, Any] = {
        "tool_calls": [
            {"id": "c", "function": {"name": name, "arguments": "{}"}} for name in called
        ]
    }
    if legacy is not None:
        message["function_call"] = {"name": legacy, "arguments": "{}"}
    answer = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    return calls_tool_not_offered(
        decode_request(json.dumps(tools).encode()), decode_response(json.dumps(answer).encode())
    )


def test_a_call_of_an_unknown_tool_is_told() -> None:
    """Also where nothing was offered; the legacy call too (``docs/contract/sources.md#s3-6``)."""
    assert _judge({"tools": [OFFERED]}, "sail", "row")
    assert _judge({}, "row")
    assert _judge({"functions": [{"name": "sail"}]}, legacy="row")


def test_a_call_of_an_offered_tool_is_no_anomaly() -> None:
    """Functions, custom tools and legacy functions count as offered."""
    assert not _judge({"tools": [OFFERED]}, "sail")
    assert not _judge({"tools": [{"type": "custom", "custom": {"name": "row"}}]}, "row")
    assert not _judge({"functions": [{"name": "sail"}, {"name": 3}, 7]}, legacy="sail")
    assert not _judge({"tools": [OFFERED], "functions": "odd"})


def test_tools_that_run_elsewhere_are_not_judged() -> None:
    """A provider's own tool may call what it likes, and a wrapper of parallel calls is no tool."""
    assert not _judge({"tools": [OFFERED, {"type": "web_search"}]}, "search")
    assert not _judge({"tools": [OFFERED]}, "multi_tool_use.parallel")


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"tools": "hammer"}, "tools is not a list"),
        ({"messages": {}}, "messages is not a list"),
        ({"tool_choice": []}, "tool_choice is neither a word nor an object"),
        ({"tools": None, "messages": [], "tool_choice": "auto"}, None),
        ({"tool_choice": {"type": "function", "function": {"name": "sail"}}}, None),
        ({}, None),
    ],
)
def test_a_request_of_the_wrong_shape_is_named(body: dict[str, Any], fault: str | None) -> None:
    """What the endpoint cannot take; null is absence (``docs/contract/sources.md#s4-10``)."""
    assert decode_request(json.dumps(body).encode()).fault == fault
