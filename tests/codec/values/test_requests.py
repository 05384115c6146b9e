"""Requests as values, and back to their bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.errors import MalformedRequest
from codec.values.messages import ChatMessage, OtherMessage
from codec.values.parts import MediaPart, OtherPart, TextPart
from codec.values.requests import (
    GenerationParameters,
    RequestValues,
    decode_request_values,
    encode_request_values,
)
from codec.values.tools import ToolChoice, ToolDefinition
from tests.codec.values.test_splice import texts, values

FULL = (
    b'{ "model":"m-1", "messages":[{"role":"system","content":"Be brief."},'
    b'{"role":"user","content":"Where does the river \\u0045lbe rise?"}],'
    b' "temperature":0.70, "max_tokens":1e2, "tools":[{"type":"function","function":'
    b'{"name":"atlas","description":"Looks up","parameters":{"type":"object"}}}],'
    b' "tool_choice":"auto"}'
)


def decode(**members: Any) -> RequestValues:
    """The values of a request with these members."""
    return decode_request_values(json.dumps(members).encode())


def test_a_request_is_read_by_name() -> None:
    """Messages, model, parameters, tools and choice; all other keys are extra.

    See ``docs/contract/sources.md#s4-5`` and ``docs/contract/sources.md#s4-t7``.
    """
    request = decode_request_values(FULL.replace(b"1e2", b"100"))
    assert request.model == "m-1"
    assert request.messages == (
        ChatMessage(role="system", content="Be brief."),
        ChatMessage(role="user", content="Where does the river Elbe rise?"),
    )
    assert request.params == GenerationParameters(
        temperature=0.7, max_tokens=100, max_tokens_key="max_tokens"
    )
    assert request.tools == (
        ToolDefinition(name="atlas", description="Looks up", parameters={"type": "object"}),
    )
    assert request.tool_choice == ToolChoice(mode="auto")
    assert request.extra == {}


def test_what_is_not_modelled_is_extra() -> None:
    """The seed and the response format; the stream flag has a field of its own.

    See ``docs/contract/sources.md#s4-5`` and ``docs/contract/sources.md#s4-t8``.
    """
    request = decode(seed=3, stream=True, response_format={"type": "text"}, model=None)
    assert request.extra == {"seed": 3, "response_format": {"type": "text"}}
    assert request.stream is True
    assert (request.model, request.tools) == (None, None)


def test_controls_are_typed() -> None:
    """Each in its field, or in extra by its type (``docs/contract/sources.md#s4-t9``)."""
    controls: dict[str, Any] = {
        "store": True,
        "user": "u-1",
        "metadata": {"team": "sea"},
        "service_tier": "flex",
        "parallel_tool_calls": False,
        "top_logprobs": 2,
        "stream": False,
    }
    request = decode(**controls)
    assert {name: getattr(request, name) for name in controls} == controls
    assert request.extra == {}
    odd = {"store": "yes", "user": 5, "top_logprobs": True, "stream": 1}
    assert decode(**odd).extra == odd


@pytest.mark.parametrize(
    ("members", "params"),
    [
        (
            {"max_completion_tokens": 70, "max_tokens": 8},
            GenerationParameters(max_tokens=70, max_tokens_key="max_completion_tokens"),
        ),
        (
            {"max_completion_tokens": -2, "max_tokens": 8},
            GenerationParameters(max_tokens=8, max_tokens_key="max_tokens"),
        ),
        ({"max_tokens": 8.0}, None),
        ({"max_tokens": True}, None),
        ({"temperature": "warm"}, None),
        ({"temperature": float("nan")}, None),
        ({"top_p": False}, None),
        ({"top_p": 1}, GenerationParameters(top_p=1)),
        ({"stop": "FIN"}, GenerationParameters(stop=("FIN",))),
        ({"stop": ["FIN", "\n"]}, GenerationParameters(stop=("FIN", "\n"))),
        ({"stop": [1]}, None),
        ({"stop": []}, None),
        ({}, None),
    ],
)
def test_parameters_are_those_that_are_usable(
    members: dict[str, Any], params: GenerationParameters | None
) -> None:
    """A limit under its own key, a stop string as a list of one.

    See ``docs/contract/sources.md#s4-6`` and ``docs/contract/sources.md#s4-7`` and
    ``docs/contract/sources.md#s4-8`` and ``docs/contract/sources.md#s4-t15``.
    """
    assert decode(**members).params == params


@pytest.mark.parametrize(
    ("value", "choice"),
    [
        ("required", ToolChoice(mode="required")),
        ({"type": "function", "function": {"name": "atlas"}}, ToolChoice(function="atlas")),
        ({"type": "allowed_tools"}, ToolChoice(native={"type": "allowed_tools"})),
        (
            {"type": "function", "function": {"name": "atlas", "x": 1}},
            ToolChoice(native={"type": "function", "function": {"name": "atlas", "x": 1}}),
        ),
        (None, None),
    ],
)
def test_tool_choice_has_three_forms(value: Any, choice: ToolChoice | None) -> None:
    """A word, a function, or as given (``docs/contract/sources.md#s4-9``)."""
    assert decode(tool_choice=value).tool_choice == choice


@pytest.mark.parametrize(
    "body",
    [
        b'{"tools":"hammer"}',
        b'{"tool_choice":[]}',
        b'{"messages":{}}',
        b"[1]",
        b'"a body"',
        b"{oops",
        b"\xff",
    ],
)
def test_what_is_no_request_is_refused(body: bytes) -> None:
    """Members of no possible form, another type, no JSON (``docs/contract/sources.md#s4-10``)."""
    with pytest.raises(MalformedRequest, match=r"."):
        decode_request_values(body)


def test_a_request_without_messages_has_none() -> None:
    """An empty list, and none is written (``docs/contract/sources.md#s4-t10``)."""
    assert decode(model="m-1").messages == ()
    assert encode_request_values(decode(model="m-2"), b'{"model":"m-1"}') == b'{"model":"m-2"}'


def test_image_parts_are_read_and_written() -> None:
    """Changed ones are written with type, key and URL (``docs/contract/sources.md#s4-t11``)."""
    parts = [
        {"type": "text", "text": "Which flag?", "cache_control": {"type": "ephemeral"}},
        {"type": "image_url", "image_url": {"url": "https://flags/1", "detail": "high"}},
        {"type": "image_url", "image_url": "https://flags/2"},
    ]
    original = json.dumps({"messages": [{"role": "user", "content": parts}]}).encode()
    request = decode_request_values(original)
    (message,) = request.messages
    assert isinstance(message, ChatMessage)
    assert message.content == (
        TextPart(text="Which flag?", extra={"cache_control": {"type": "ephemeral"}}),
        MediaPart(url="https://flags/1", detail="high"),
        MediaPart(url="https://flags/2"),
    )
    assert message.text == "Which flag?"
    other = replace(message, content=(*message.content[:2], MediaPart(url="https://flags/3")))
    encoded = encode_request_values(replace(request, messages=(other,)), original)
    parts[2] = {"type": "image_url", "image_url": {"url": "https://flags/3"}}
    assert json.loads(encoded) == {"messages": [{"role": "user", "content": parts}]}  # noqa: TID251 - not by the codec


def test_nothing_changed_changes_nothing() -> None:
    """Not a byte, whatever is modelled.

    See ``docs/contract/sources.md#s4-4`` and ``docs/contract/sources.md#s4-t12``.
    """
    assert encode_request_values(decode_request_values(FULL), FULL) == FULL


def test_only_what_changed_is_written() -> None:
    """A model, a new control; extra wins over a field (``docs/contract/sources.md#s4-t13``)."""
    request = decode_request_values(FULL)
    extra = dict(request.extra) | {"user": "v", "seed": 1}
    changed = replace(request, model="m-2", store=True, user="u", extra=extra)
    encoded = encode_request_values(changed, FULL)
    assert encoded.startswith(FULL.replace(b"m-1", b"m-2")[:-1])
    assert encoded.endswith(b',"store":true,"user":"v","seed":1}')


def test_the_limit_is_written_under_its_own_key() -> None:
    """Under the key that it came by.

    See ``docs/contract/sources.md#s4-6`` and ``docs/contract/sources.md#s4-t14``.
    """
    original = b'{"max_completion_tokens": 200 }'
    request = decode_request_values(original)
    assert request.params is not None
    less = replace(request, params=replace(request.params, max_tokens=100))
    assert encode_request_values(less, original) == b'{"max_completion_tokens": 100 }'


def test_messages_that_make_no_sense_stay() -> None:
    """Another role, a custom call, no object; unknown members as well."""
    messages = [
        {"role": "developer", "content": "Mind the gap.", "x": {"y": 1}},
        {"role": "function", "name": "atlas", "content": "found"},
        {"role": "assistant", "tool_calls": [
            {"type": "custom", "id": "c", "custom": {"name": "row", "input": "fast"}},
            {"type": "function", "id": "d", "function": {"name": "f", "arguments": {"a": 1}}},
            "odd",
        ], "reasoning_content": "why", "audio": {"id": "q"}},
        7,
    ]  # fmt: skip
    original = json.dumps({"model": "m-1", "messages": messages}, indent=1).encode()
    request = decode_request_values(original)
    assert len(request.messages) == 4
    assert request.messages[3] == OtherMessage(native=7)
    assistant = request.messages[2]
    assert isinstance(assistant, ChatMessage)
    assert assistant.reasoning == "why"
    assert assistant.tool_calls is not None
    assert [call.name for call in assistant.tool_calls] == ["row", "f", None]
    encoded = encode_request_values(replace(request, model="m-2"), original)
    assert encoded == original.replace(b"m-1", b"m-2")
    said = replace(assistant, content="Aye", tool_calls=assistant.tool_calls[:2])
    fewer = replace(request, messages=(*request.messages[:2], said))
    messages[2] = messages[2] | {"content": "Aye", "tool_calls": messages[2]["tool_calls"][:2]}  # type: ignore[operator,index]
    assert json.loads(encode_request_values(fewer, original))["messages"] == messages[:3]  # noqa: TID251 - not by the codec


def test_content_of_any_form_is_read() -> None:
    """A list, nothing, or another type, which stays."""
    request = decode(messages=[{"content": ["bare"]}, {"content": None}, {"content": 5}])
    contents = [message.content for message in request.messages if isinstance(message, ChatMessage)]
    assert contents == [(OtherPart(native="bare"),), None, None]
    assert request.messages[2] == ChatMessage(extra={"content": 5})


@given(st.dictionaries(st.sampled_from([*decode().to_json(), "model", "messages", "tools", "stop",
       "max_tokens", "stream", "user", "tool_choice", "x"]), values).flatmap(texts))  # fmt: skip
def test_encoding_what_was_decoded_changes_nothing(text: str) -> None:
    """For any body that decodes at all (``docs/contract/sources.md#s4-4``)."""
    body = text.encode("utf-8", "backslashreplace")
    try:
        request = decode_request_values(body)
    except MalformedRequest:
        return
    assert encode_request_values(request, body) == body


def test_tools_that_are_none_stay() -> None:
    """Null and others keep their places among those that change."""
    original = b'{"tools":[null, {"type":"function","function":{"name":"atlas"}},7 ]}'
    request = decode_request_values(original)
    assert request.tools is not None
    nothing, atlas, seven = request.tools
    changed = replace(request, tools=(nothing, replace(atlas, name="globe"), seven))
    assert encode_request_values(changed, original) == original.replace(b"atlas", b"globe")
    turned = replace(request, tools=(seven, nothing))
    assert encode_request_values(turned, original) == b'{"tools":[7, null ]}'
