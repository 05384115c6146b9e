"""``telemetry.spans.genai_messages``: content in the words of OpenTelemetry."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from codec.chat.answer import ChatMessage, ChatResponse, Choice, ToolCall
from codec.chat.request import ChatRequest
from telemetry.errors import ConfigurationError
from telemetry.spans.flattening import (
    MAX_FLATTENED_ATTRIBUTES,
    MAX_FLATTENED_CHOICES,
    MAX_FLATTENED_PARTS,
    MAX_FLATTENED_TEXT_CHOICES,
    MAX_FLATTENED_TOOL_CALLS,
    MAX_FLATTENED_TOOLS,
)
from telemetry.spans.genai_messages import (
    VARIABLE,
    build_genai_content_attributes,
    reads_genai_content,
)
from tests.telemetry.exchanges import make_exchange, make_response
from tests.telemetry.genai_schema import check_messages, check_tools

strict = msgspec.json.Decoder()
"""As readers are: it refuses NaN."""

PNG = "data:image/png;base64,QUJD"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=9), values),
    max_leaves=8,
)


def told(request: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    """The content attributes of an exchange, decoded."""
    exchange = make_exchange(request, **members)
    pairs = build_genai_content_attributes(exchange, image_max_length=100)
    attributes = {key: strict.decode(str(value)) for key, value in pairs if value is not None}
    for key, value in attributes.items():
        check = check_tools if key == "gen_ai.tool.definitions" else check_messages
        check(value)
    return attributes


def parts_of(message: dict[str, Any]) -> Any:
    """The parts of a request's only message."""
    return told({"messages": [message]})["gen_ai.input.messages"][0]["parts"]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("", False),
        ("NO_CONTENT", False),
        ("event_only", False),
        ("SPAN_ONLY", True),
        ("span_and_event", True),
        ("true", True),
        ("False", False),
    ],
)
def test_the_standard_variable_turns_it_on(value: str, wanted: bool) -> None:
    """No content by default, and no events (``docs/contract/spans.md#genai-messages``)."""
    assert reads_genai_content({VARIABLE: value}) is wanted
    assert reads_genai_content({}) is False


def test_another_word_is_refused() -> None:
    """It would be guessed at otherwise."""
    with pytest.raises(ConfigurationError, match=VARIABLE):
        reads_genai_content({VARIABLE: "all"})


def test_a_conversation_with_tools() -> None:
    """A system message stays where it was (``docs/contract/sources.md#s4-25``)."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"q": [1]}'}}
    request = {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "name": "ann", "content": "Hi"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "42"},
        ],
        "tools": [{"type": "function", "function": {"name": "f"}}],
    }
    answer = ChatMessage(
        role="assistant",
        content="It is 42.",
        reasoning="Hm.",
        tool_calls=(ToolCall(id="c2", name="g", arguments='{"broken'),),
    )
    attributes = told(request, response=make_response(answer, finish_reason="tool_calls"))
    assert attributes["gen_ai.tool.definitions"] == [{"type": "function", "name": "f"}]
    assert attributes["gen_ai.input.messages"] == [
        {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
        {"role": "user", "parts": [{"type": "text", "content": "Hi"}], "name": "ann"},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "name": "f", "id": "c1", "arguments": {"q": [1]}}],
        },
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "c1", "response": "42"}],
        },
    ]
    assert attributes["gen_ai.output.messages"] == [
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "Hm."},
                {"type": "text", "content": "It is 42."},
                {"type": "tool_call", "name": "g", "id": "c2", "arguments": '{"broken'},
            ],
            "finish_reason": "tool_call",
        }
    ]
    assert "gen_ai.system_instructions" not in attributes


@pytest.mark.parametrize(("depth", "is_value"), [(512, True), (513, False), (990, False)])
def test_arguments_that_nest_too_deeply_stay_text(depth: int, *, is_value: bool) -> None:
    """The limit is ours, and no interpreter's."""
    arguments = "[" * depth + "]" * depth
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    [part] = parts_of({"role": "assistant", "tool_calls": [call]})
    assert isinstance(part["arguments"], str) is not is_value


def test_the_deprecated_call_and_a_refusal() -> None:
    """Both are said in the forms there are."""
    call = {"name": "f", "arguments": "{}"}
    assert parts_of({"role": "assistant", "function_call": call}) == [
        {"type": "tool_call", "name": "f", "arguments": {}}
    ]
    answer = ChatMessage(refusal="No.", function_call=ToolCall(name="f", arguments="1"))
    response = make_response(answer, finish_reason="content_filter")
    [output] = told(response=response)["gen_ai.output.messages"]
    assert output == {
        "role": "assistant",
        "parts": [
            {"type": "text", "content": "No."},
            {"type": "tool_call", "name": "f", "arguments": 1},
        ],
        "finish_reason": "content_filter",
    }


@pytest.mark.parametrize(
    ("came", "error_type", "wanted"),
    [
        ("stop", None, "stop"),
        ("function_call", None, "tool_call"),
        ("abort", "abort", "error"),
        ("insufficient_system_resource", "insufficient_system_resource", "error"),
        ("eos_token", None, "eos_token"),
        ("stop", "stream_truncated", "stop"),
        (None, "stream_truncated", "error"),
        (None, None, None),
    ],
)
def test_finish_reasons(came: str | None, error_type: str | None, wanted: str | None) -> None:
    """In the schema's words; R6: of an answer that the client left, none."""
    choice = Choice(index=0, message=ChatMessage(content="a"), finish_reason=came)
    response = ChatResponse(choices=(choice,))
    [output] = told(response=response, error_type=error_type)["gen_ai.output.messages"]
    assert output.get("finish_reason") == wanted


def test_an_assistant_in_the_history() -> None:
    """What it thought, refused and called, also a custom tool; arguments of either form."""
    calls: list[Any] = [
        {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "5"}},
        {"id": 5, "function": {"name": "f", "arguments": {"q": 1}}},
        {"id": "c2", "function": None},
        "no call",
    ]
    message = {
        "role": "assistant",
        "reasoning_content": "Hm.",
        "reasoning": "not twice",
        "content": None,
        "refusal": "No.",
        "tool_calls": calls,
    }
    assert parts_of(message) == [
        {"type": "reasoning", "content": "Hm."},
        {"type": "text", "content": "No."},
        {"type": "tool_call", "id": "c1", "name": "sql", "arguments": "5"},
        {"type": "tool_call", "name": "f", "arguments": {"q": 1}},
        {"type": "tool_call", "id": "c2", "name": ""},
    ]
    assert parts_of({"role": "assistant", "reasoning": "Hm."}) == parts_of(message)[:1]
    assert parts_of({"role": "assistant", "tool_calls": "none"}) == []


@pytest.mark.parametrize("message", [None, "hi", {}, {"role": 5, "content": "a"}, {"role": ""}])
def test_what_has_no_role_is_left_out(message: Any) -> None:
    """The schema wants one, and it is not guessed."""
    assert told({"messages": [message]}) == {}
    kept = told({"messages": [message, {"role": "user", "content": "a"}]})
    assert len(kept["gen_ai.input.messages"]) == 1


def test_what_no_json_can_hold_costs_no_other() -> None:
    """The other messages are kept."""
    said = {"role": "user", "content": "a"}
    exchange = make_exchange({})
    body = {"messages": [said, {"role": "tool", "content": [10**5000]}, said]}
    exchange = replace(exchange, request=ChatRequest(body))
    attributes = dict(build_genai_content_attributes(exchange, image_max_length=100))
    assert len(strict.decode(str(attributes["gen_ai.input.messages"]))) == 2


@pytest.mark.parametrize(
    ("tool", "wanted"),
    [
        (
            {"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}},
            {"type": "function", "name": "f", "description": "d", "parameters": {}},
        ),
        ({"function": {"name": "f"}}, {"type": "function", "name": "f"}),
        ({"type": "custom", "custom": {"name": "c"}}, {"type": "custom", "name": "c"}),
        ({"type": "web_search"}, {"type": "web_search", "name": "web_search"}),
        ({"type": "function", "function": {"name": 5}}, None),
        ({"type": "function", "function": "f"}, None),
        ("f", None),
    ],
)
def test_tools(tool: Any, wanted: dict[str, Any] | None) -> None:
    """Type and name, which the schema wants, and what is known besides."""
    expected = {} if wanted is None else {"gen_ai.tool.definitions": [wanted]}
    assert told({"tools": [tool]}) == expected


def test_a_legacy_completion() -> None:
    """A prompt is what a user says; token ids are no text."""
    request = {"model": "m", "prompt": ["Once", [1, 2]], "tools": [{}]}
    response = make_response(ChatMessage(content="upon"))
    attributes = told(request, response=response, endpoint="completions")
    assert attributes["gen_ai.input.messages"] == [
        {"role": "user", "parts": [{"type": "text", "content": "Once"}]}
    ]
    assert attributes["gen_ai.output.messages"][0]["parts"] == [{"type": "text", "content": "upon"}]
    assert "gen_ai.tool.definitions" not in attributes


def test_where_there_is_nothing_to_say_nothing_is_said() -> None:
    """Embeddings, requests that nobody could read, refused calls, empty lists."""
    assert told(endpoint="embeddings", response=make_response(ChatMessage(content="a"))) == {}
    unread = replace(make_exchange(), request=None)
    assert list(build_genai_content_attributes(unread, image_max_length=1)) == []
    refused = told(response=make_response(ChatMessage(content="a")), response_status=400)
    assert "gen_ai.output.messages" not in refused
    assert told({"messages": []}) == {}


def test_the_newest_messages_stay() -> None:
    """Of more messages than are flattened."""
    messages = [{"role": "user", "content": str(number)} for number in range(6_000)]
    told_messages = told({"messages": messages})["gen_ai.input.messages"]
    assert len(told_messages) == 5_000
    assert told_messages[-1]["parts"][0]["content"] == "5999"


def test_parts_are_bounded_all_together() -> None:
    """Five million of them would be minutes of work."""
    message = {"role": "user", "content": ["x"] * (MAX_FLATTENED_PARTS + 1)}
    messages = told({"messages": [message] * 5_000})["gen_ai.input.messages"]
    assert len(messages) == MAX_FLATTENED_ATTRIBUTES // MAX_FLATTENED_PARTS


@pytest.mark.parametrize(
    ("endpoint", "limit"),
    [("chat.completions", MAX_FLATTENED_CHOICES), ("completions", MAX_FLATTENED_TEXT_CHOICES)],
)
def test_choices_tools_and_calls_are_bounded(endpoint: str, limit: int) -> None:
    """As OpenInference's twins are."""
    calls = (ToolCall(name="f"),) * (MAX_FLATTENED_TOOL_CALLS + 1)
    response = make_response(ChatMessage(tool_calls=calls), *(ChatMessage(content="a"),) * limit)
    request = {"tools": [{"function": {"name": "f"}}] * (MAX_FLATTENED_TOOLS + 1)}
    attributes = told(request, response=response, endpoint=endpoint)
    assert len(attributes["gen_ai.output.messages"]) == limit
    assert len(attributes["gen_ai.output.messages"][0]["parts"]) == MAX_FLATTENED_TOOL_CALLS
    if endpoint == "chat.completions":
        assert len(attributes["gen_ai.tool.definitions"]) == MAX_FLATTENED_TOOLS


NAMES = (
    *("role", "content", "name", "tool_calls", "function_call", "refusal", "reasoning", "type"),
    *("text", "image_url", "url", "file", "file_data", "function", "custom", "arguments", "input"),
)
members = st.sampled_from(NAMES)
words = st.sampled_from(["user", "tool", "assistant", "text", "image_url", "file", "data:,", PNG])
objects = st.recursive(
    json_values | words,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(members, values, max_size=5),
    max_leaves=20,
)


@given(
    st.lists(objects | st.fixed_dictionaries({"role": words}, optional={"content": objects})),
    st.lists(objects),
)
def test_whatever_json_a_client_sends_the_schema_holds(messages: list[Any], tools: Any) -> None:
    """Nothing raises, and what is told keeps to the published schema."""
    told({"messages": messages, "tools": tools})
