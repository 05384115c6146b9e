"""Messages and tools of a request, as the record has them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.asked import Tool
from codec.chat import messages
from codec.chat.messages import read_message
from codec.chat.request import ChatRequest
from codec.members import text_of
from codec.parts import (
    MAX_READ_PARTS,
    Message,
    Other,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)
from codec.tools import read_tool


@given(
    role=st.sampled_from(["user", "", "\ud800", 5, None]),
    content=st.text(st.characters(), max_size=5),
)
def test_a_plain_message_is_read_as_any_other(role: object, content: str) -> None:
    """The short way of a role and a text comes to what the long way does."""
    value = {"role": role, "content": content}
    short, long = read_message(value), messages._read_any(value, text_of(role), content)
    assert (short.role, short.parts) == (long.role, long.parts)


def test_what_an_assistant_said_comes_in_its_order() -> None:
    """Reasoning, content, refusal, calls; text that came as such is a plain string."""
    call = {"id": "c", "function": {"name": "f", "arguments": "{}"}}
    said = {
        "role": "assistant",
        "content": "Aye",
        "refusal": "No",
        "reasoning": "Hm",
        "tool_calls": [call, 7, {"type": "custom", "custom": {"name": "sh", "input": "ls"}}],
        "function_call": {"name": "g", "arguments": {"a": 1}},
    }
    assert read_message(said).content == (
        Reasoning(text="Hm"),
        "Aye",
        Refusal("No"),
        ToolCall(id="c", name="f", arguments="{}"),
        ToolCall(type=""),
        ToolCall(name="sh", arguments="ls", type="custom"),
        ToolCall(name="g", arguments='{"a": 1}', type="function_call"),
    )


def test_what_a_tool_answered_is_one_result() -> None:
    """With the id of its call, its parts for readers, and the content as it came."""
    content = [{"type": "text", "text": "rain"}]
    told = {"role": "tool", "tool_call_id": "c", "content": content, "name": "f"}
    result = ToolResult(id="c", content=(Text("rain"),), value=content)
    assert read_message(told) == Message("tool", (result,), "f")


@pytest.mark.parametrize(
    ("content", "read"),
    [
        ([{"type": "new", "new": 1}, {}], (Other({"type": "new", "new": 1}), Other({}))),
        (["a", {"type": "text"}], (Other(["a", {"type": "text"}]),)),
        ({"type": "text", "text": "a"}, (Text("a"),)),
        ("", None),
        ([], None),
        (5, None),
    ],
)
def test_and_2_what_is_no_known_part_is_kept_as_it_came(content: Any, read: Any) -> None:
    """A part keeps its place, a list of other things is one part, and nothing is no content."""
    assert read_message({"role": "user", "content": content}).content == read


def test_parts_are_read_up_to_a_limit_and_counted() -> None:
    """Nobody shows more of them."""
    message = read_message({"content": [{"type": "text", "text": "a"}] * (MAX_READ_PARTS + 1)})
    assert (len(message.parts), message.part_count) == (MAX_READ_PARTS, MAX_READ_PARTS + 1)


def test_tools_are_read_with_what_their_type_describes() -> None:
    """A provider's own has no name but its type; what is no tool has no type."""
    described = {"name": "f", "description": "d", "parameters": {"type": "object"}}
    assert read_tool({"type": "function", "function": described}) == Tool(
        type="function",
        name="f",
        description="d",
        parameters={"type": "object"},
        value={"type": "function", "function": described},
    )
    assert read_tool({"type": "web_search"}) == Tool(
        type="web_search", value={"type": "web_search"}
    )
    assert read_tool(5) == Tool(type="", value=5)


def test_a_list_is_read_where_it_is_looked_at() -> None:
    """Of a million messages few are shown."""
    read = ChatRequest({"messages": [{"role": "user", "content": str(n)} for n in range(4)]})
    conversation = read.read_messages()
    assert len(conversation) == 4
    assert conversation[-1] == Message("user", "3")
    assert [message.content for message in conversation[1:3]] == ["1", "2"]
    assert [message.content for message in reversed(conversation)] == ["3", "2", "1", "0"]
