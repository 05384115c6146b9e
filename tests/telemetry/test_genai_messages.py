"""``telemetry.genai_messages``: content in the words of OpenTelemetry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.answer import ChatResponse, Choice, Message, ToolCall
from codec.jsontext import decode_json
from telemetry.errors import ConfigurationError
from telemetry.genai_messages import (
    VARIABLE,
    build_genai_content_attributes,
    reads_genai_content,
)
from tests.telemetry.exchanges import make_exchange, make_response

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=9), values),
    max_leaves=8,
)


def told(request: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    """The content attributes of an exchange, decoded."""
    pairs = build_genai_content_attributes(make_exchange(request, **members))
    return {key: decode_json(value) for key, value in pairs if isinstance(value, str)}


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
    """Contract 7.2: no content is the default; events are not emitted."""
    assert reads_genai_content({VARIABLE: value}) is wanted
    assert reads_genai_content({}) is False


def test_another_word_is_refused() -> None:
    """It would be guessed at otherwise."""
    with pytest.raises(ConfigurationError, match=VARIABLE):
        reads_genai_content({VARIABLE: "all"})


def test_a_conversation_with_tools() -> None:
    """Rules 1, 3, 4: roles, parts, names; a system message stays where it was."""
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
    answer = Message(
        role="assistant",
        content="It is 42.",
        reasoning="Hm.",
        tool_calls=(ToolCall(id="c2", name="g", arguments='{"broken'),),
    )
    attributes = told(request, response=make_response(answer, finish_reason="tool_calls"))
    assert attributes["gen_ai.tool.definitions"] == request["tools"]
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


@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        (
            {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}},
            {"type": "uri", "modality": "image", "uri": "https://x.example/a.png"},
        ),
        (
            {"type": "image_url", "image_url": "data:image/png;base64,AAAA"},
            {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AAAA"},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "BBBB", "format": "wav"}},
            {"type": "blob", "modality": "audio", "mime_type": "audio/wav", "content": "BBBB"},
        ),
        (
            {"type": "file", "file": {"file_id": "file-1"}},
            {"type": "file", "modality": "document", "file_id": "file-1"},
        ),
        (
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,CC"}},
            {
                "type": "blob",
                "modality": "document",
                "mime_type": "application/pdf",
                "content": "CC",
            },
        ),
    ],
)
def test_rule_2_parts_of_every_kind(part: dict[str, Any], wanted: dict[str, Any]) -> None:
    """By reference, by content, by id."""
    assert parts_of({"role": "user", "content": [part]}) == [wanted]


@pytest.mark.parametrize(
    "part", ["x", {}, {"type": "text"}, {"type": "image_url"}, {"type": "file"}, {"type": "odd"}]
)
def test_rule_2_what_has_no_kind_is_left_out(part: Any) -> None:
    """The raw value has it."""
    assert parts_of({"role": "user", "content": [part]}) == []


def test_the_deprecated_call_and_a_refusal() -> None:
    """Both are said in the forms there are."""
    call = {"name": "f", "arguments": "{}"}
    assert parts_of({"role": "assistant", "function_call": call}) == [
        {"type": "tool_call", "name": "f", "arguments": {}}
    ]
    answer = Message(refusal="No.", function_call=ToolCall(name="f", arguments="1"))
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


def test_a_finish_reason_that_did_not_come_is_absent() -> None:
    """R6: a stream that was cut shows none."""
    response = ChatResponse(choices=(Choice(index=0, message=Message(content="a")),))
    [output] = told(response=response)["gen_ai.output.messages"]
    assert "finish_reason" not in output


def test_a_legacy_completion() -> None:
    """A prompt is what a user says; token ids are no text."""
    request = {"model": "m", "prompt": ["Once", [1, 2]], "tools": [{}]}
    response = make_response(Message(content="upon"))
    attributes = told(request, response=response, endpoint="completions")
    assert attributes["gen_ai.input.messages"] == [
        {"role": "user", "parts": [{"type": "text", "content": "Once"}]}
    ]
    assert attributes["gen_ai.output.messages"][0]["parts"] == [{"type": "text", "content": "upon"}]
    assert "gen_ai.tool.definitions" not in attributes


def test_where_there_is_nothing_to_say_nothing_is_said() -> None:
    """Embeddings, requests that nobody could read, refused calls, empty lists."""
    assert told(endpoint="embeddings", response=make_response(Message(content="a"))) == {}
    unread = replace(make_exchange(), request=None)
    assert list(build_genai_content_attributes(unread)) == []
    refused = told(response=make_response(Message(content="a")), response_status=400)
    assert "gen_ai.output.messages" not in refused
    assert told({"messages": []}) == {}


def test_rule_5_the_newest_messages_stay() -> None:
    """Of more messages than are flattened."""
    messages = [{"role": "user", "content": str(number)} for number in range(6_000)]
    told_messages = told({"messages": messages})["gen_ai.input.messages"]
    assert len(told_messages) == 5_000
    assert told_messages[-1]["parts"][0]["content"] == "5999"


@given(st.lists(json_values | st.dictionaries(st.sampled_from(["role", "content"]), json_values)))
def test_whatever_json_a_client_sends_the_schema_holds(messages: list[Any]) -> None:
    """Nothing raises, and each message has a role and a list of parts with a type each."""
    for message in told({"messages": messages}).get("gen_ai.input.messages", []):
        assert isinstance(message["role"], str)
        assert all(isinstance(part["type"], str) for part in message["parts"])
