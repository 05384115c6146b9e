"""Sampling options, messages and tool definitions as a chat takes them."""

from __future__ import annotations

from typing import Any

import pytest

from codec.compat.requests import (
    ToolParameter,
    build_tool_definition,
    convert_message,
    greedy_options,
    image_data_url,
    top_k_options,
    top_p_options,
)
from codec.errors import MalformedRequest


def test_sampling_options_become_parameters() -> None:
    """Greedy is temperature 0; no limit, no penalty and no stop are left out."""
    assert greedy_options() == {"temperature": 0.0}
    assert greedy_options(max_tokens=9, stop=("FIN",)) == {
        "temperature": 0.0,
        "max_tokens": 9,
        "stop": ["FIN"],
    }
    assert top_p_options(temperature=0.5, top_p=0.9, repetition_penalty=1.2) == {
        "temperature": 0.5,
        "top_p": 0.9,
        "repeat_penalty": 1.2,
    }
    assert top_k_options(top_k=5) == {"top_k": 5}


def test_tool_definitions_are_json_schemas() -> None:
    """Python's types by JSON Schema's names, what is empty left out, the required listed."""
    assert build_tool_definition(
        "row",
        {
            "far": ToolParameter(type="int", description="miles"),
            "fast": ToolParameter(type="bool", required=False, default=True),
            "to": ToolParameter(type="string", required=False, default=""),
        },
        description="Rows.",
    ) == {
        "type": "function",
        "function": {
            "name": "row",
            "description": "Rows.",
            "parameters": {
                "type": "object",
                "properties": {
                    "far": {"type": "integer", "description": "miles"},
                    "fast": {"type": "boolean", "default": True},
                    "to": {"type": "string"},
                },
                "required": ["far"],
            },
        },
    }
    assert "description" not in build_tool_definition("row", {})["function"]


@pytest.mark.parametrize(
    ("message", "converted"),
    [
        ({"role": "user", "content": "Hi"}, {"role": "user", "content": "Hi"}),
        (
            {"role": "tool", "call_id": "c", "content": "done"},
            {"role": "tool", "tool_call_id": "c", "content": "done"},
        ),
        (
            {"role": "user", "content": ["look", {"type": "image", "data": "ZA=="}]},
            {"role": "user", "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,ZA=="}},
            ]},
        ),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]},
        ),
        (
            {"role": "system", "content": [{"type": "text", "text": "a"}]},
            {"role": "system", "content": [{"type": "text", "text": "a"}]},
        ),
        (
            {"role": "assistant", "content": "", "tool_calls": [
                {"call_id": "c", "tool_name": "brave_search", "arguments": '{"q":1}'},
                {"id": "d", "type": "function", "function": {"name": "f"}},
            ]},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "c", "type": "function",
                 "function": {"name": "brave_search", "arguments": '{"q":1}'}},
                {"id": "d", "type": "function", "function": {"name": "f"}},
            ]},
        ),
    ],
)  # fmt: skip
def test_messages_are_converted_by_role(message: Any, converted: Any) -> None:
    """With calls and without, text and parts, images, a builtin tool's name."""
    assert convert_message(message) == converted


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"content": "Hi"}, "None"),
        ({"role": "narrator"}, "'narrator'"),
        ("Hi", "None"),
        ({"role": ["user"]}, "user"),
        ({"role": "system", "content": [{"type": "image", "data": "ZA=="}]}, "no images"),
        ({"role": "tool", "content": [{"type": "image_url", "image_url": "u"}]}, "no images"),
    ],
)
def test_roles_are_checked(message: Any, words: str) -> None:
    """A missing or unknown role is an error, and so is an image where none may be."""
    with pytest.raises(MalformedRequest, match=words):
        convert_message(message)


def test_members_of_other_types_stay() -> None:
    """Only what is understood is converted; arguments that are an object become their text."""
    odd = {"role": "user", "content": [{"type": ["x"]}, 5], "tool_calls": 5}
    assert convert_message(odd) == odd
    flat = {"call_id": "c", "tool_name": "row", "arguments": {"far": 2}}
    calls = [flat, {"tool_name": "sail"}, 7]
    converted = convert_message({"role": "assistant", "tool_calls": calls})["tool_calls"]
    assert converted[0]["function"] == {"name": "row", "arguments": '{"far":2}'}
    assert converted[1]["function"]["arguments"] == "{}"
    assert converted[2] == 7


def test_an_image_becomes_a_url() -> None:
    """Base64 behind its type (``docs/contract/sources.md#s3-10``)."""
    assert image_data_url(b"\x00", mime_type="image/gif") == "data:image/gif;base64,AA=="
