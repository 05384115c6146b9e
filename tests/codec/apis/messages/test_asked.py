"""``codec.apis.messages``: what a request asks for (``docs/contract/apis.md#messages-request``)."""

from __future__ import annotations

from typing import Any

import pytest

from codec.apis.messages.asked import MessageRequest
from codec.apis.messages.route import MESSAGES as MESSAGES_API
from codec.parts import Media, ToolResult
from codec.text.base64_text import MAX_KEPT_CHARS

VERTEX = "/v1/projects/p/locations/l/publishers/anthropic/models/claude%40m"
MESSAGES: dict[str, Any] = {"messages": []}
SCHEMA = {"type": "json_schema", "schema": {}}


def media(source: Any, **block: Any) -> Media:
    """An image as a part."""
    content = [{"type": "image", "source": source, **block}]
    request = MessageRequest({"messages": [{"role": "user", "content": content}]})
    [message] = request.read_messages()
    [part] = message.parts
    assert isinstance(part, Media)
    return part


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({}, "messages is not a list"),
        ({"messages": {}}, "messages is not a list"),
        (MESSAGES | {"system": 5}, "system is neither text nor a list"),
        (MESSAGES | {"tools": {}}, "tools is not a list"),
        (MESSAGES | {"system": "s", "tools": []}, None),
        (MESSAGES | {"system": [], "tools": None}, None),
    ],
)
def test_what_makes_it_no_request_is_said(body: dict[str, Any], fault: str | None) -> None:
    """By the member that is wrong."""
    assert MessageRequest(body).fault == fault


@pytest.mark.parametrize("slash", ["", "/"])
def test_vertex_names_model_and_stream_in_the_path(slash: str) -> None:
    """A model of the body's wins; either may ask for a stream."""
    plain, streamed = (f"{VERTEX}:{method}{slash}" for method in ("rawPredict", "streamRawPredict"))
    ask = MESSAGES_API.ask
    assert [ask({}, path).model for path in (plain, streamed)] == ["claude@m"] * 2
    assert ask({"model": "m-1"}, plain).model == "m-1"
    assert ask({}, streamed).stream
    assert not ask({}, plain).stream
    assert ask({"stream": True}, plain).stream
    assert not ask({"stream": "yes"}, "/v1/messages").stream


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"stop_sequences": ["a"]}, {"stop": ["a"]}),
        ({"output_config": {"format": SCHEMA}}, {"response_format": SCHEMA}),
        ({"output_format": SCHEMA}, {"response_format": SCHEMA}),
        ({"output_config": {"effort": "low"}}, {"reasoning_effort": "low"}),
        ({"output_config": 5, "service_tier": "auto"}, {}),
    ],
)
def test_parameters_have_the_names_of_chats(body: dict[str, Any], expected: Any) -> None:
    """Those that chats have under another one; a tier is Anthropic's own."""
    names = ("stop", "response_format", "reasoning_effort", "service_tier")
    options = MessageRequest(body).options
    assert {name: options[name] for name in names if name in options} == expected


def test_tools_of_the_clients_and_of_the_provider() -> None:
    """Of the former the type may lack; of a server's nobody knows the names."""
    body: dict[str, Any] = {
        "tools": [
            {"name": "f", "input_schema": {"type": "object"}},
            {"type": "custom", "name": "g", "description": "d"},
            {"type": "web_search_20250305", "name": "web_search"},
            5,
        ]
    }
    told = [(tool.type, tool.name, tool.title) for tool in MessageRequest(body).read_tools()]
    assert told == [
        ("function", "f", "f"),
        ("function", "g", "g"),
        ("web_search_20250305", "web_search", "web_search"),
        ("", None, None),
    ]
    assert MessageRequest(body).offered_names == frozenset({"f", "g", "web_search"})
    assert MessageRequest(body | {"mcp_servers": [{}]}).offered_names is None


def test_images_come_as_base64_by_url_and_by_id() -> None:
    """The first becomes a URL; an id may stand in the source or beside it."""
    told = media({"type": "base64", "media_type": "image/png", "data": "aGk="})
    assert (told.url, told.mime_type) == ("data:image/png;base64,aGk=", "image/png")
    assert media({"type": "url", "url": "https://h/i.png"}).url == "https://h/i.png"
    assert media({"type": "file", "file_id": "f-1"}).file_id == "f-1"
    assert media({}, file_id="f-2").file_id == "f-2"
    assert media({"type": "base64", "data": 5}).url is None


@pytest.mark.parametrize("size", [MAX_KEPT_CHARS, MAX_KEPT_CHARS + 1])
def test_of_blocks_a_long_screenshot_is_counted(size: int) -> None:
    """One that may be shown stays; the body has all of it either way."""
    source = {"type": "base64", "media_type": "image/png", "data": "A" * size}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"source": source}]}
    request = MessageRequest({"messages": [{"role": "user", "content": [result]}]})
    [message] = request.read_messages()
    [part] = message.parts
    assert isinstance(part, ToolResult)
    assert ("A" * size in str(part.content)) is (size == MAX_KEPT_CHARS)
    assert request.body["messages"][0]["content"][0]["content"][0]["source"]["data"] == "A" * size


@pytest.mark.parametrize(("told", "is_error"), [(True, True), (False, False), ("true", False)])
def test_a_result_says_that_its_tool_failed(told: object, is_error: bool) -> None:
    """By the JSON value ``true`` and nothing else."""
    result = {"type": "tool_result", "tool_use_id": "t", "content": "no", "is_error": told}
    request = MessageRequest({"messages": [{"role": "user", "content": [result]}]})
    [message] = request.read_messages()
    [part] = message.parts
    assert isinstance(part, ToolResult)
    assert part.is_error is is_error


@pytest.mark.parametrize(
    ("choice", "forces"),
    [
        ({"type": "any"}, True),
        ({"type": "tool", "name": "f"}, True),
        ({"type": "auto"}, False),
        ({"type": "none"}, False),
        (None, False),
        (5, False),
    ],
)
def test_a_choice_forces_a_call(choice: object, forces: bool) -> None:
    """Of any tool, or of one."""
    assert MessageRequest({"messages": [], "tool_choice": choice}).forces_tool is forces


@pytest.mark.parametrize(("choice", "forces"), [("any", False), ("tool", True)])
def test_a_choice_among_several_forces_none(choice: str, forces: bool) -> None:
    """An agent whose answer is a tool's call asks so; who names one wants that call alone."""
    tools = [{"name": name} for name in ("f", "g")]
    body = {"messages": [], "tools": tools, "tool_choice": {"type": choice, "name": "f"}}
    assert MessageRequest(body).forces_tool is forces
