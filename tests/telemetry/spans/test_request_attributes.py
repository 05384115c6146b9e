"""The request's side of a span, flattened."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from telemetry.spans import flattening, request_attributes
from telemetry.spans.flattening import (
    MAX_FLATTENED_MESSAGES,
    MAX_FLATTENED_PARTS,
    MAX_FLATTENED_TOOL_CALLS,
    MAX_FLATTENED_TOOLS,
    Flattening,
)
from telemetry.spans.request_attributes import (
    build_input_attributes,
    build_input_message_attributes,
    build_prompt_attributes,
    build_tool_attributes,
)
from tests.telemetry.exchanges import cleaned, make_exchange


def messages_of(*messages: Any) -> dict[str, Any]:
    """The attributes of the given input messages, their common prefix taken off."""
    exchange = make_exchange({"model": "m", "messages": list(messages)})
    attributes = cleaned(build_input_message_attributes(exchange, Flattening()))
    assert all(key.startswith("llm.input_messages.") for key in attributes)
    return {key.removeprefix("llm.input_messages."): value for key, value in attributes.items()}


def parts_of(*parts: Any) -> dict[str, Any]:
    """The attributes of a message's parts, their common prefix taken off."""
    attributes = messages_of({"content": list(parts)})
    prefix = "0.message.contents."
    assert all(key.startswith(prefix) for key in attributes)
    return {key.removeprefix(prefix): value for key, value in attributes.items()}


def test_conversation_with_tools() -> None:
    """Roles, texts, names, calls and results of a conversation, each under its own index."""
    arguments = '{"city": "Köln"'  # verbatim, though it is not JSON
    assert messages_of(
        {"role": "system", "content": "Be brief."},
        {"role": "user", "name": "ann", "content": "Weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}},
                {"id": "", "type": "function", "function": {"name": "g", "arguments": ""}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    ) == {
        "0.message.role": "system",
        "0.message.content": "Be brief.",
        "1.message.role": "user",
        "1.message.content": "Weather?",
        "1.message.name": "ann",
        "2.message.role": "assistant",
        "2.message.tool_calls.0.tool_call.id": "c1",
        "2.message.tool_calls.0.tool_call.function.name": "f",
        "2.message.tool_calls.0.tool_call.function.arguments": arguments,
        "2.message.tool_calls.1.tool_call.id": "",
        "2.message.tool_calls.1.tool_call.function.name": "g",
        "3.message.role": "tool",
        "3.message.tool_call_id": "c1",
        "3.message.content": "rain",
    }


def test_multimodal_parts() -> None:
    """Text, image, audio and file parts become text, image, audio and document contents."""
    assert parts_of(
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}},
        {"type": "image_url", "image_url": "data:image/png;base64,QQ=="},
        {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}},
        {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "mp3"}},
        {
            "type": "file",
            "file": {"file_data": "data:application/pdf;base64,QQ==", "filename": "a.pdf"},
        },
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "file", "file": {"file_data": "https://example.com/a.pdf"}},
    ) == {
        "0.message_content.type": "text",
        "0.message_content.text": "look",
        "1.message_content.type": "image",
        "1.message_content.image.image.url": "https://example.com/a.png",
        "2.message_content.type": "image",
        "2.message_content.image.image.url": "data:image/png;base64,QQ==",
        "3.message_content.type": "audio",
        "3.message_content.audio.audio.url": "data:audio/wav;base64,QUJD",
        "3.message_content.audio.audio.mime_type": "audio/wav",
        "4.message_content.type": "audio",
        "4.message_content.audio.audio.url": "data:audio/mpeg;base64,QUJD",
        "4.message_content.audio.audio.mime_type": "audio/mpeg",
        "5.message_content.type": "document",
        "5.message_content.document.document.url": "data:application/pdf;base64,QQ==",
        "5.message_content.document.document.mime_type": "application/pdf",
        "5.message_content.document.document.name": "a.pdf",
        "6.message_content.type": "document",
        "6.message_content.document.document.id": "file-1",
        "7.message_content.type": "document",
        "7.message_content.document.document.url": "https://example.com/a.pdf",
    }


@pytest.mark.parametrize(
    ("part", "attributes"),
    [
        ({"type": "text", "text": ""}, {"0.message_content.type": "text"}),
        ({"type": "text", "text": 5}, {"0.message_content.type": "text"}),
        ({"type": "image_url"}, {"0.message_content.type": "image"}),
        ({"type": "image_url", "image_url": [1]}, {"0.message_content.type": "image"}),
        ({"type": "input_audio", "input_audio": "x"}, {"0.message_content.type": "audio"}),
        (
            {"type": "input_audio", "input_audio": {"format": "wav"}},
            {
                "0.message_content.type": "audio",
                "0.message_content.audio.audio.mime_type": "audio/wav",
            },
        ),
        (
            {"type": "file", "file": {"file_data": "QUJD"}},
            {"0.message_content.type": "document"},
        ),
        (
            {"type": "file", "file": {"file_data": "data:,x"}},
            {
                "0.message_content.type": "document",
                "0.message_content.document.document.url": "data:,x",
            },
        ),
    ],
)
def test_malformed_parts_lose_only_what_is_malformed(
    part: dict[str, Any], attributes: dict[str, Any]
) -> None:
    """A part says what it has; base64 that is no URL is not called one."""
    assert parts_of(part) == attributes


def test_a_refusal_in_the_history_is_content() -> None:
    """As a member or as a part; beside content it is a part, as in an answer."""
    said = {"role": "assistant", "content": None, "refusal": "No"}
    assert messages_of(said)["0.message.content"] == "No"
    both = messages_of(said | {"content": "Aye"})
    assert both["0.message.contents.0.message_content.text"] == "Aye"
    assert both["0.message.contents.1.message_content.text"] == "No"
    assert "0.message.content" not in messages_of(said | {"refusal": ["No"]})
    assert parts_of({"type": "refusal", "refusal": "No"}) == {
        "0.message_content.type": "text",
        "0.message_content.text": "No",
    }


def test_what_is_left_out_leaves_a_hole() -> None:
    """Messages and parts keep their positions."""
    unknown: list[Any] = [{"type": "video", "refusal": "no"}, {}, {"type": ["text"]}]
    attributes = messages_of("no object", {"role": "user", "content": [*unknown, PART]})
    assert attributes == {
        "1.message.role": "user",
        "1.message.contents.3.message_content.type": "text",
        "1.message.contents.3.message_content.text": "t",
    }


PART = {"type": "text", "text": "t"}


@pytest.mark.parametrize("content", [["a", "b"], ["a", PART], [1], [None, {}]])
def test_list_of_other_things_is_dumped(content: list[Any]) -> None:
    """A content list that is not all objects is written as JSON text (1.2)."""
    assert messages_of({"content": content}) == {"0.message.content": json.dumps(content)}


def test_wrong_types_are_left_out() -> None:
    """A key that takes text gets text or nothing."""
    junk = {
        "role": 5,
        "name": ["n"],
        "tool_call_id": {},
        "function_call": "f",
        "tool_calls": ["x", {"id": 7, "function": {"name": None, "arguments": 3}}, {"function": 1}],
    }
    assert messages_of(junk, {"tool_calls": "x", "function_call": {"name": 1}}) == {}


def tools_of(*tools: Any) -> dict[str, Any]:
    """The attributes of the given tools."""
    return cleaned(build_tool_attributes(make_exchange({"tools": list(tools)}), Flattening()))


def test_tools() -> None:
    """The whole tool object as JSON, its name and description beside it (1.3)."""
    tool = {
        "type": "function",
        "function": {"name": "f", "description": "Größe", "parameters": {"type": "object"}},
    }
    attributes = tools_of(tool, {"type": "function", "function": {"name": "g"}}, "bad")
    schema = attributes.pop("llm.tools.0.tool.json_schema")
    assert json.JSONDecoder().decode(schema) == tool
    assert "Größe" in schema
    assert attributes == {
        "llm.tools.0.tool.name": "f",
        "llm.tools.0.tool.description": "Größe",
        "llm.tools.1.tool.json_schema": '{"type": "function", "function": {"name": "g"}}',
        "llm.tools.1.tool.name": "g",
        "llm.tools.2.tool.json_schema": '"bad"',
    }


def test_input_is_the_clients_own_text() -> None:
    """The input value is the body as it came, the parameters are what is no content."""
    body = b'{"stream":true, "model":"m" ,"seed":18446744073709551616,"messages":[],"tools":[]}'
    request = {
        "stream": True,
        "model": "m",
        "seed": 2**64,
        "messages": [],
        "tools": [],
        "functions": [],
    }
    exchange = make_exchange(request, request_body=body)
    assert cleaned(build_input_attributes(exchange)) == {
        "llm.invocation_parameters": '{"stream": true, "model": "m", "seed": 18446744073709551616}',
        "input.value": body.decode(),
        "input.mime_type": "application/json",
    }


@pytest.mark.parametrize(
    ("body", "attributes"),
    [
        (b'["a"]', {"input.value": '["a"]', "input.mime_type": "application/json"}),
        (b"{oops", {"input.value": "{oops"}),
        (b"\xff\xfe", {"input.value": "\ufffd\ufffd"}),
        (b"", {"input.value": ""}),
        (None, {}),
    ],
)
def test_undecodable_input(body: bytes | None, attributes: dict[str, str]) -> None:
    """A body that is no request is shown as far as it is text; one not captured is absent (R5)."""
    undecoded = replace(make_exchange(request_body=body), request=None)
    assert cleaned(build_input_attributes(undecoded)) == attributes
    assert cleaned(build_input_message_attributes(undecoded, Flattening())) == {}
    assert cleaned(build_tool_attributes(undecoded, Flattening())) == {}


MEMBERS = (
    "type",
    "role",
    "content",
    "name",
    "tool_call_id",
    "function_call",
    "tool_calls",
    "id",
    "function",
    "arguments",
    "description",
    "text",
    "image_url",
    "url",
    "input_audio",
    "data",
    "format",
    "file",
    "file_data",
    "filename",
    "file_id",
)
"""The member names that the builders look at."""

junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=5)
    | st.sampled_from(["text", "image_url", "input_audio", "file", "function"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(MEMBERS),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(messages=junk, tools=junk, other=junk)
def test_junk_never_raises(messages: Any, tools: Any, other: Any) -> None:
    """Any JSON in any place gives attributes that encode as UTF-8."""
    exchange = make_exchange({"messages": [messages], "tools": [tools], "other": other})
    pairs = chain(
        build_input_message_attributes(exchange, Flattening()),
        build_tool_attributes(exchange, Flattening()),
        build_input_attributes(exchange),
    )
    for value in cleaned(pairs).values():
        assert isinstance(value, str)
        assert value.encode()


def test_the_newest_messages_stay_under_their_own_indexes() -> None:
    """The oldest ones are cut, and stay in the body."""
    messages = [{"role": "user"}] * (MAX_FLATTENED_MESSAGES + 2)
    flattening = Flattening()
    keys = dict(build_input_message_attributes(make_exchange({"messages": messages}), flattening))
    assert list(keys) == [
        f"llm.input_messages.{index}.message.role" for index in range(2, len(messages))
    ]
    assert flattening.cut == {"llm.input_messages": len(messages)}


def test_the_first_tools_parts_and_calls_stay() -> None:
    """Each by its own limit, and noted with how many there were, the longest list's."""
    parts = [{"type": "image_url"}] * (MAX_FLATTENED_PARTS + 1)
    calls = [{"id": "c"}] * (MAX_FLATTENED_TOOL_CALLS + 1)
    tools: list[dict[str, str]] = [{}] * (MAX_FLATTENED_TOOLS + 1)
    request = {
        "messages": [
            {"content": parts + parts},
            {"content": parts, "tool_calls": calls},
            {"content": parts[1:], "tool_calls": calls[1:]},
        ],
        "tools": tools,
    }
    flattening = Flattening()
    messages = dict(build_input_message_attributes(make_exchange(request), flattening))
    assert (
        f"llm.input_messages.2.message.contents.{len(parts) - 2}.message_content.type" in messages
    )
    for count, name in (
        (MAX_FLATTENED_PARTS, "contents"),
        (MAX_FLATTENED_TOOL_CALLS, "tool_calls"),
    ):
        prefix = f"llm.input_messages.1.message.{name}."
        assert [int(key.split(".")[5]) for key in messages if key.startswith(prefix)] == [
            *range(count)
        ]
    offered = dict(build_tool_attributes(make_exchange(request), flattening))
    assert list(offered) == [
        f"llm.tools.{index}.tool.json_schema" for index in range(MAX_FLATTENED_TOOLS)
    ]
    assert flattening.cut == {
        "message.contents": 2 * len(parts),
        "message.tool_calls": len(calls),
        "llm.tools": len(tools),
    }


def test_prompts_of_a_legacy_completion_are_flattened() -> None:
    """By their position; token ids leave a hole (``docs/contract/spans.md#legacy-completions``)."""
    exchange = make_exchange({"prompt": ["Sail", [1, 2], "Row"]}, endpoint="completions")
    assert dict(build_prompt_attributes(exchange, Flattening())) == {
        "llm.prompts.0.prompt.text": "Sail",
        "llm.prompts.2.prompt.text": "Row",
    }
    assert not dict(build_prompt_attributes(make_exchange(request=None), Flattening()))


@pytest.mark.parametrize("prompt", ["", [""]])
def test_an_empty_prompt_is_one(prompt: object) -> None:
    """A model may begin with nothing; the in-process instrumentor tells of it, too."""
    exchange = make_exchange({"prompt": prompt}, endpoint="completions")
    assert dict(build_prompt_attributes(exchange, Flattening())) == {
        "llm.prompts.0.prompt.text": ""
    }


plain_messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "system", "\ud800"]), "content": st.text(min_size=1)}
)
odd_messages = st.sampled_from(
    [
        {"role": "", "content": "x"},
        {"role": "user", "content": ""},
        {"role": "user", "content": None},
        {"role": 5, "content": "x"},
        {"role": "user", "name": "n"},
        {"role": "user", "content": "x", "name": "n"},
        {"content": "x"},
        "ab",
        None,
    ]
)


@given(
    st.lists(plain_messages, max_size=12) | st.lists(plain_messages | odd_messages, max_size=4),
    st.integers(0, 30),
)
def test_plain_messages_are_flattened_as_any_others(messages: list[Any], room: int) -> None:
    """All at once come to what they come to one by one, and take the same room."""
    exchange = make_exchange({"messages": messages})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flattening, "MAX_FLATTENED_ATTRIBUTES", room)
        patch.setattr(request_attributes, "MAX_KEYED_MESSAGES", 10)
        short, long = Flattening(), Flattening()
        at_once = [*build_input_message_attributes(exchange, short)]
        patch.setattr(request_attributes, "_plain_messages", lambda _: None)
        assert at_once == [*build_input_message_attributes(exchange, long)]
    assert short.cut == long.cut
    left = [claimed for claimed in range(room + 1) if short.reserve(1)]
    assert left == [claimed for claimed in range(room + 1) if long.reserve(1)]


def test_plain_messages_need_no_step_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A usual conversation takes the short way."""
    messages = [{"role": "user", "content": f"Line {number}"} for number in range(100)]
    monkeypatch.delattr(request_attributes, "build_message_attributes")
    assert len(messages_of(*messages)) == 200
