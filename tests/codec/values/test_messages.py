"""The messages of a request."""

from __future__ import annotations

from typing import Any

import pytest

from codec.values.messages import ChatMessage, MessageCall, decode_message

FUNCTION = {"name": "row", "arguments": "{}"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"role": "tool", "tool_call_id": "c", "name": "row", "content": "done"},
            ChatMessage(role="tool", tool_call_id="c", name="row", content="done"),
        ),
        (
            {"role": "assistant", "refusal": "No.", "function_call": FUNCTION},
            ChatMessage(
                role="assistant",
                refusal="No.",
                function_call=MessageCall(name="row", arguments="{}"),
            ),
        ),
        (
            {"role": "assistant", "reasoning": "so", "annotations": [1]},
            ChatMessage(
                role="assistant",
                reasoning="so",
                reasoning_member="reasoning",
                extra={"annotations": [1]},
            ),
        ),
        (
            {"tool_calls": [{"id": "c", "type": "function", "function": FUNCTION, "x": 1}]},
            ChatMessage(
                tool_calls=(
                    MessageCall(
                        id="c", type="function", name="row", arguments="{}", extra={"x": 1}
                    ),
                )
            ),
        ),
    ],
)
def test_every_member_is_read_and_written(value: dict[str, Any], message: ChatMessage) -> None:
    """By name; writing gives the same JSON (``docs/contract/sources.md#s4-5``)."""
    assert decode_message(value) == message
    assert message.to_json() == value


@pytest.mark.parametrize(
    "entry",
    [
        7,
        None,
        {"id": "c"},
        {"type": "function", "function": "x"},
        {"type": "custom", "function": FUNCTION, "custom": 5},
        {"type": "function", "custom": {"name": "row"}},
    ],
)
def test_an_entry_that_is_no_call_stays(entry: Any) -> None:
    """It keeps its place among the calls."""
    message = decode_message({"tool_calls": [entry]})
    assert isinstance(message, ChatMessage)
    assert message.to_json() == {"tool_calls": [entry]}


def test_text_is_joined() -> None:
    """Of a string it is the string, of parts that of those that have text, else nothing."""
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": "u"}, "x"]
    for content, text in (("a", "a"), ([*parts, parts[0]], "aa"), ([], None), (None, None)):
        message = decode_message({"content": content})
        assert isinstance(message, ChatMessage)
        assert message.text == text
