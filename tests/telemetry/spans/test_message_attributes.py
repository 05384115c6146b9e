"""What request and answer messages flatten in the same way."""

from __future__ import annotations

import pytest

from codec.answer import ToolCall
from telemetry.semconv import ContentType
from telemetry.spans.message_attributes import (
    build_function_call_attributes,
    build_text_part_attributes,
    build_tool_call_attributes,
)


def test_text_part() -> None:
    """A part is its type and its text."""
    assert list(build_text_part_attributes("m.0", ContentType.REASONING, "r")) == [
        ("m.0.message_content.type", "reasoning"),
        ("m.0.message_content.text", "r"),
    ]


def test_tool_call() -> None:
    """A call is id, name and verbatim arguments; no arguments are no attribute."""
    call = ToolCall(id="c", name="f", arguments="{oops")
    assert list(build_tool_call_attributes("m", 3, call)) == [
        ("m.message.tool_calls.3.tool_call.id", "c"),
        ("m.message.tool_calls.3.tool_call.function.name", "f"),
        ("m.message.tool_calls.3.tool_call.function.arguments", "{oops"),
    ]
    bare = dict(build_tool_call_attributes("m", 0, ToolCall()))
    assert set(bare.values()) == {None}


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ('{"a": 1}', True),
        ("{oops", False),
        ("NaN", False),
        ("\ufeff{}", False),
        ('"\ud800"', False),
        ("", False),
        ("[" * 100_000, False),
    ],
)
def test_function_call_arguments_must_be_json(arguments: str, kept: bool) -> None:
    """The deprecated call's arguments are written only if a browser can parse them."""
    call = ToolCall(name="f", arguments=arguments)
    expected = {"m.message.function_call_name": "f"}
    if kept:
        expected["m.message.function_call_arguments_json"] = arguments
    assert dict(build_function_call_attributes("m", call)) == expected
