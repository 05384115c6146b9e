"""``codec.apis.responses.asked``: a request as the record has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.apis.responses.asked import ResponseRequest
from codec.parts import Media, Other, Reasoning, Text
from tests.codec.test_error_objects import json_values

if TYPE_CHECKING:
    from codec.parts import Message

MEMBERS = st.sampled_from(
    [
        "input", "instructions", "tools", "tool_choice", "text", "conversation", "prompt",
        "max_output_tokens", "previous_response_id", "model", "stream",
    ]
)  # fmt: skip
ITEMS = st.dictionaries(
    st.sampled_from(["type", "role", "content", "call_id", "output", "summary", "name", "input"]),
    json_values
    | st.sampled_from(["message", "reasoning", "function_call", "custom_tool_call", "x_output"])
    | st.lists(
        st.dictionaries(
            st.sampled_from(["type", "text", "image_url", "file_data", "input_audio"]),
            json_values
            | st.sampled_from(["input_text", "input_image", "input_file", "input_audio"]),
        ),
        max_size=3,
    ),
)


def read(*items: Any, **members: Any) -> list[Message]:
    """The messages of a request with these items."""
    return list(ResponseRequest({"input": list(items), **members}).read_messages())


@given(body=st.dictionaries(MEMBERS, json_values | st.lists(ITEMS, max_size=4), max_size=6))
def test_nothing_raises(body: dict[str, Any]) -> None:
    """Whatever stands in whatever member."""
    request = ResponseRequest(body)
    messages = request.read_messages()
    assert len([message.parts for message in messages]) == len(messages)
    assert len([tool.title for tool in request.read_tools()]) == len(request.read_tools())
    assert request.fault is None or isinstance(request.fault, str)
    for value in (request.model, request.conversation_id, request.prompt_id):
        assert value is None or isinstance(value, str)
    assert request.offered_names is None or isinstance(request.offered_names, frozenset)
    assert set(request.options) >= set(body)
    assert all(isinstance(text, str) for text in request.references.values())


def test_the_parts_of_a_message() -> None:
    """Text of any kind is text; pictures, sounds and files are media; all keep their places."""
    [message] = read(
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "a"},
                {"type": "output_text", "text": "b"},
                {"type": "refusal", "refusal": "c"},
                {"type": "reasoning_text", "text": "d"},
                {"type": "input_image", "image_url": "https://x/y.png"},
                {"type": "input_image", "file_id": "file-1"},
                {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
                {"type": "input_file", "file_url": "https://x/y.pdf"},
                {"type": "input_file", "file_data": "data:application/pdf;base64,aGk="},
                {"type": "tea"},
            ],
        }
    )
    assert message.parts == (
        *(Text("a"), Text("b"), Text("c"), Reasoning(text="d")),
        Media(kind="image", url="https://x/y.png"),
        Media(kind="image", file_id="file-1"),
        Media(kind="audio", data="aGk=", mime_type="audio/wav"),
        Media(kind="document", url="https://x/y.pdf"),
        Media(
            kind="document",
            url="data:application/pdf;base64,aGk=",
            mime_type="application/pdf",
        ),
        Other({"type": "tea"}),
    )


def test_items_that_say_nothing_keep_their_place() -> None:
    """Roles as sent, else the assistant's; what is no object has none."""
    messages = read({"type": "compaction"}, {"type": "additional_tools", "role": "developer"}, 5)
    assert [(message.role, message.parts) for message in messages] == [
        ("assistant", ()),
        ("developer", ()),
        (None, ()),
    ]


@pytest.mark.parametrize("body", [{"input": 5}, {"tools": {}}, {"tool_choice": 5}])
def test_what_is_no_request_for_a_response_is_told(body: dict[str, Any]) -> None:
    """The rest of it is read all the same."""
    assert ResponseRequest(body).fault is not None


@pytest.mark.parametrize("name", ["crm", None])
def test_tools_in_a_namespace_say_so(name: str | None) -> None:
    """Also where it has no name; the tools beside it have none."""
    grouped = {"type": "namespace", "name": name, "tools": [{"type": "function", "name": "f"}]}
    tools = ResponseRequest({"tools": [grouped, {"type": "custom", "name": "g"}]}).read_tools()
    assert [(tool.name, tool.namespace) for tool in tools] == [("f", name or ""), ("g", None)]


def test_what_may_be_called_is_known_where_all_tools_are_the_clients() -> None:
    """Not beside a tool of the provider's own, a stored prompt, or items that bring tools."""
    tools = [{"type": "function", "name": "f"}, {"type": "custom", "name": "g"}]
    brought = [{"type": "tool_search_output", "tools": []}]
    grouped = {"type": "namespace", "name": "n", "tools": tools}
    assert ResponseRequest({"tools": tools}).offered_names == frozenset("fg")
    assert ResponseRequest({"tools": [*tools, {"type": "web_search"}]}).offered_names is None
    assert ResponseRequest({"tools": [grouped]}).offered_names is None
    assert ResponseRequest({"tools": tools, "prompt": {"id": "p"}}).offered_names is None
    assert ResponseRequest({"tools": tools, "input": brought}).offered_names is None


def test_a_picture_is_asked_for_where_nothing_else_can_be_made() -> None:
    """The only tool is the one that makes them."""
    tools = [{"type": "image_generation"}]
    assert ResponseRequest({"tools": tools}).options["modalities"] == ["image"]
    assert "modalities" not in ResponseRequest({"tools": [*tools, {"type": "mcp"}]}).options
