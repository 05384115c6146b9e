"""Whole spans of calls of Messages, by hand from the tables of ``docs/apis.md#messages``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from codec.apis.table import get_api
from codec.text.jsontext import decode_json, encode_json
from telemetry.frames.ending import EndKind
from telemetry.observing.exchange import Outcome
from telemetry.pricing.price_table import PriceTable
from telemetry.pricing.pricing import Pricing
from telemetry.pricing.span_cost import CostSource, SpanCost
from telemetry.privacy.switches import PrivacySwitches
from telemetry.spans.rules import SpanRules
from tests.codec.apis.messages.events import START, STOP, begin, delta, end, text, write_event
from tests.telemetry.exchanges import build_exchange_attributes
from tests.telemetry.observed import observe
from tests.telemetry.tap_frames import begin as open_exchange
from tests.telemetry.tap_frames import exchange_frames

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange

USAGE = {
    "input_tokens": 20,
    "cache_read_input_tokens": 100,
    "cache_creation_input_tokens": 50,
    "output_tokens": 9,
    "output_tokens_details": {"thinking_tokens": 4},
}
COUNTS = {
    "llm.token_count.prompt": 170,
    "llm.token_count.completion": 9,
    "llm.token_count.total": 179,
    "llm.token_count.prompt_details.cache_read": 100,
    "llm.token_count.prompt_details.cache_write": 50,
    "llm.token_count.completion_details.reasoning": 4,
    "gen_ai.usage.input_tokens": 170,
    "gen_ai.usage.output_tokens": 9,
    "gen_ai.usage.cache_read.input_tokens": 100,
    "gen_ai.usage.cache_creation.input_tokens": 50,
}
SHOWN = SpanRules(shows_genai_content=True)
CONTENT = "message_content"
HI = [{"role": "user", "content": "Hi"}]


def ask(
    asked: dict[str, Any],
    *pieces: bytes | dict[str, Any],
    path: str = "/v1/messages",
    status: int = 200,
    **head: Any,
) -> Exchange:
    """The record of a call."""
    answered = [
        piece if isinstance(piece, bytes) else encode_json(piece).encode() for piece in pieces
    ]
    is_stream = isinstance(pieces[0], bytes)
    kind = "text/event-stream" if is_stream else "application/json"
    body = encode_json({"model": "m-1", "max_tokens": 50, "messages": HI, **asked}).encode()
    frames = exchange_frames(
        *answered, asked=body, headers=(("content-type", kind),), status=status
    )
    opened = open_exchange(endpoint="messages", path=path, **head)
    return observe([opened, *list(frames)[1:]])


def answer(*content: dict[str, Any], reason: str = "end_turn", **members: Any) -> dict[str, Any]:
    """A whole message."""
    head = {"id": "msg-1", "type": "message", "role": "assistant", "model": "m-1-2026"}
    return {**head, "content": [*content], "stop_reason": reason, "usage": USAGE, **members}


def span(exchange: Exchange, *prefixes: str) -> dict[str, Any]:
    """Attributes under these names."""
    attributes = build_exchange_attributes(exchange, SHOWN)
    return {key: value for key, value in attributes.items() if key.startswith(prefixes)}


def test_a_plain_message() -> None:
    """The system prompt first; text is a part even where it is all."""
    asked = {
        "system": [{"type": "text", "text": "Be kind", "cache_control": {"type": "ephemeral"}}],
        "temperature": 0.5,
        "top_k": 3,
        "stop_sequences": ["END"],
        "service_tier": "standard_only",
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
        "metadata": {"user_id": "u-1"},
    }
    answered = answer({"type": "text", "text": "Hello"})
    exchange = ask(asked, answered)
    attributes = build_exchange_attributes(exchange, SHOWN)
    expected = {
        "llm.input_messages.0.message.role": "system",
        f"llm.input_messages.0.message.contents.0.{CONTENT}.type": "text",
        f"llm.input_messages.0.message.contents.0.{CONTENT}.text": "Be kind",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.content": "Hi",
        "llm.output_messages.0.message.role": "assistant",
        f"llm.output_messages.0.message.contents.0.{CONTENT}.type": "text",
        f"llm.output_messages.0.message.contents.0.{CONTENT}.text": "Hello",
        "llm.tools.0.tool.name": "f",
        "llm.tools.0.tool.description": "d",
        "llm.finish_reason": "end_turn",
        "llm.system": "anthropic",
        "llm.model_name": "m-1-2026",
        "openinference.span.kind": "LLM",
        "user.id": "u-1",
        "gen_ai.operation.name": "chat",
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.model": "m-1",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_k": 3,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.response.finish_reasons": ("end_turn",),
        "gen_ai.response.id": "msg-1",
        **COUNTS,
    }
    assert {key: attributes.get(key) for key in expected} == expected
    assert not [key for key in attributes if key.startswith("openai.")]
    assert exchange.api.span_name == "Message"
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
    assert decode_json(str(attributes["output.value"])) == answered
    parameters = decode_json(str(attributes["llm.invocation_parameters"]))
    assert parameters.keys().isdisjoint({"messages", "system", "tools"})
    assert parameters["model"] == "m-1"
    assert decode_json(str(attributes["gen_ai.system_instructions"])) == [
        {"type": "text", "content": "Be kind"}
    ]
    assert decode_json(str(attributes["gen_ai.input.messages"])) == [
        {"role": "user", "parts": [{"type": "text", "content": "Hi"}]}
    ]
    assert decode_json(str(attributes["gen_ai.output.messages"])) == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "Hello"}],
            "finish_reason": "stop",
        }
    ]


def test_thinking_text_and_calls_keep_their_order() -> None:
    """Each call is a part at its place, and one of the message's calls.

    See ``docs/contract/apis.md#calls-in-their-place``.
    """
    stream = (
        START,
        begin(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="Hm"),
        delta(0, "signature_delta", signature="c2ln"),
        begin(1, "server_tool_use", id="s-1", name="web_search", input={}),
        delta(1, "input_json_delta", partial_json='{"query": "q"}'),
        begin(2, "web_search_tool_result", tool_use_id="s-1", content=[]),
        begin(3),
        text("Found", 3),
        begin(4, "tool_use", id="t-1", name="f", input={}),
        begin(5, "redacted_thinking", data="b3Bh"),
        end("tool_use", **USAGE),
        STOP,
    )
    exchange = ask({"tools": [{"name": "f"}, {"type": "web_search_1", "name": "ws"}]}, *stream)
    prefix = "llm.output_messages.0.message"
    part, call = f"{prefix}.contents", f"{prefix}.tool_calls"
    searched = {
        "tool_call.id": "s-1",
        "tool_call.function.name": "web_search",
        "tool_call.function.arguments": '{"query":"q"}',
    }
    called = {
        "tool_call.id": "t-1",
        "tool_call.function.name": "f",
        "tool_call.function.arguments": "{}",
    }
    assert span(exchange, "llm.output_messages") == {
        f"{prefix}.role": "assistant",
        f"{part}.0.{CONTENT}.type": "reasoning",
        f"{part}.0.{CONTENT}.text": "Hm",
        f"{part}.0.{CONTENT}.signature": "c2ln",
        f"{part}.1.{CONTENT}.type": "tool_use",
        **{f"{part}.1.{key}": value for key, value in searched.items()},
        f"{part}.2.{CONTENT}.type": "text",
        f"{part}.2.{CONTENT}.text": "Found",
        f"{part}.3.{CONTENT}.type": "tool_use",
        **{f"{part}.3.{key}": value for key, value in called.items()},
        f"{part}.4.{CONTENT}.type": "reasoning",
        f"{part}.4.{CONTENT}.data": "b3Bh",
        **{f"{call}.0.{key}": value for key, value in searched.items()},
        **{f"{call}.1.{key}": value for key, value in called.items()},
    }
    assert span(exchange, *COUNTS) == COUNTS
    assert exchange.anomalies == ()
    [said] = decode_json(span(exchange, "gen_ai.output.messages")["gen_ai.output.messages"])
    kinds = ["reasoning", "tool_call", "text", "tool_call"]
    assert [part["type"] for part in said["parts"]] == kinds  # what is opaque has no part there


def test_results_of_tools_are_messages_of_their_own() -> None:
    """Two of one message do not overwrite each other, and the rest of it comes after them."""
    asked = {
        "messages": [
            *HI,
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Wait"},
                    {"type": "tool_use", "id": "t-1", "name": "f", "input": {"a": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t-1", "content": "42"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "t-2",
                        "content": [{"type": "text", "text": "x"}],
                    },
                    {"type": "text", "text": "Go on"},
                ],
            },
        ]
    }
    prefix = "llm.input_messages"
    call = {
        "tool_call.id": "t-1",
        "tool_call.function.name": "f",
        "tool_call.function.arguments": '{"a":1}',
    }
    assert span(ask(asked, answer()), prefix) == {
        f"{prefix}.0.message.role": "user",
        f"{prefix}.0.message.content": "Hi",
        f"{prefix}.1.message.role": "assistant",
        f"{prefix}.1.message.contents.0.{CONTENT}.type": "text",
        f"{prefix}.1.message.contents.0.{CONTENT}.text": "Wait",
        f"{prefix}.1.message.contents.1.{CONTENT}.type": "tool_use",
        **{f"{prefix}.1.message.contents.1.{key}": value for key, value in call.items()},
        **{f"{prefix}.1.message.tool_calls.0.{key}": value for key, value in call.items()},
        f"{prefix}.2.message.role": "tool",
        f"{prefix}.2.message.tool_call_id": "t-1",
        f"{prefix}.2.message.content": "42",
        f"{prefix}.3.message.role": "tool",
        f"{prefix}.3.message.tool_call_id": "t-2",
        f"{prefix}.3.message.content": '[{"type":"text","text":"x"}]',
        f"{prefix}.4.message.role": "user",
        f"{prefix}.4.message.contents.0.{CONTENT}.type": "text",
        f"{prefix}.4.message.contents.0.{CONTENT}.text": "Go on",
    }


def test_images_and_documents() -> None:
    """In base64, by URL, by the id of a file; the text of a document stays in the body."""
    image = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    blocks = [
        {"type": "image", "source": image},
        {"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}},
        {"type": "search_result", "content": []},
        {"type": "image", "source": {"type": "file", "file_id": "file-1"}},
        {
            "type": "document",
            "title": "A",
            "source": {"type": "text", "media_type": "text/plain", "data": "words"},
        },
        {"type": "document", "source": {"type": "url", "url": "https://x.example/a.pdf"}},
        {"type": "container_upload", "file_id": "file-2"},
    ]
    prefix = "llm.input_messages.0.message.contents"
    document = f"{CONTENT}.document.document"
    exchange = ask({"messages": [{"role": "user", "content": blocks}]}, answer())
    assert span(exchange, prefix) == {
        f"{prefix}.0.{CONTENT}.type": "image",
        f"{prefix}.0.{CONTENT}.image.image.url": "data:image/png;base64,aGk=",
        f"{prefix}.1.{CONTENT}.type": "image",
        f"{prefix}.1.{CONTENT}.image.image.url": "https://x.example/a.png",
        f"{prefix}.2.{CONTENT}.type": "image",
        f"{prefix}.3.{CONTENT}.type": "document",
        f"{prefix}.3.{document}.mime_type": "text/plain",
        f"{prefix}.3.{document}.name": "A",
        f"{prefix}.4.{CONTENT}.type": "document",
        f"{prefix}.4.{document}.url": "https://x.example/a.pdf",
        f"{prefix}.5.{CONTENT}.type": "document",
        f"{prefix}.5.{document}.id": "file-2",
    }


SESSION = "0a1b2c3d-0000-4000-8000-001122334455"


@pytest.mark.parametrize(
    "user",
    [
        f"user_aabb_account_ccdd_session_{SESSION}",
        f"user_aabb_account__session_{SESSION}",
        encode_json({"device_id": "aabb", "account_uuid": "ccdd", "session_id": SESSION}),
    ],
)
def test_the_session_of_claude_code_is_taken_and_never_the_account(user: str) -> None:
    """It stands in the user's id; the metadata have neither.

    See ``docs/contract/apis.md#claude-code``.
    """
    exchange = ask({"metadata": {"user_id": user, "k": "v"}}, answer())
    attributes = span(exchange, "session.id", "user.id", "gen_ai.conversation.id", "metadata")
    metadata = decode_json(attributes.pop("metadata"))
    assert attributes == {"session.id": SESSION, "gen_ai.conversation.id": SESSION}
    assert (metadata["k"], "user_id" in metadata) == ("v", False)


@pytest.mark.parametrize("user", ["u-1", "{", '{"session_id": 7}', "user_a_account_b_session_"])
def test_any_other_user_is_a_user(user: str) -> None:
    """And no session is made of it."""
    attributes = span(ask({"metadata": {"user_id": user}}, answer()), "session.id", "user.id")
    assert attributes == {"user.id": user}


@pytest.mark.parametrize(
    "user", ["user_" + "_account_" * 100_000, '{"session_id": ' + "[]," * 90_000]
)
def test_a_user_too_long_for_an_id_is_not_looked_into(user: str) -> None:
    """A pattern took seconds for a hundred kilobytes, and telemetry stood still."""
    with mock.patch("codec.apis.claude_code.decode_json_object") as decode:
        asked = get_api("messages").decode_asked(
            encode_json({"messages": [], "metadata": {"user_id": user}}).encode()
        )
        assert asked.session_id is None
        assert asked.labels["user_id"] == user
    decode.assert_not_called()


def test_the_cost_that_openrouter_tells_is_the_spans() -> None:
    """With the shares that its upstream asked for (``docs/contract/apis.md#stated-cost``)."""
    shares = {
        "upstream_inference_cost": 0.5,
        "upstream_inference_prompt_cost": 0.125,
        "upstream_inference_completions_cost": 0.375,
    }
    billed: dict[str, Any] = {**USAGE, "cost": 0.5, "cost_details": shares}
    streamed = ask({"stream": True}, START, begin(0), text("Hi"), end(**billed), STOP)
    told = SpanCost(source=CostSource.PROVIDER, total=0.5, prompt=0.125, completion=0.375)
    for exchange in (ask({}, answer(usage=billed)), streamed):
        assert Pricing(PriceTable(()), catalogue=True).price(exchange) == told


def test_on_vertex_the_model_is_in_the_path() -> None:
    """And a stream is asked for there."""
    path = "/v1/projects/p/locations/l/publishers/anthropic/models/claude%40x@1:streamRawPredict"
    for asked_path in (path, f"{path}/"):
        exchange = ask({"model": None, "anthropic_version": "v"}, START, STOP, path=asked_path)
        assert exchange.request is not None
        assert exchange.request.stream
        assert span(exchange, "gen_ai.request.model") == {"gen_ai.request.model": "claude@x@1"}


@pytest.mark.parametrize(
    ("reason", "word", "refused"),
    [("refusal", "content_filter", True), ("pause_turn", "stop", False)],
)
def test_a_refusal_and_a_pause_are_no_errors(reason: str, word: str, *, refused: bool) -> None:
    """OK, with the provider's word, after text in the middle of a stream too."""
    exchange = ask({}, START, begin(0), text("I"), end(reason, **USAGE), STOP)
    assert (exchange.outcome, exchange.error_type) == (Outcome.COMPLETED, None)
    attributes = span(exchange, "llm.finish_reason", "gen_ai.output.messages", "metadata")
    assert attributes["llm.finish_reason"] == reason
    [said] = decode_json(attributes["gen_ai.output.messages"])
    assert said["finish_reason"] == word
    metadata = decode_json(attributes["metadata"])
    assert metadata.get("refused_choices") == ([0] if refused else None)


def test_an_error_in_a_stream_is_the_spans() -> None:
    """ERROR with its type, and what was said before."""
    error = write_event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    exchange = ask({}, START, begin(0), text("Hel"), error)
    assert (exchange.outcome, exchange.error_type) == (Outcome.STREAM_ERROR, "overloaded_error")
    assert exchange.error_message == "Overloaded"
    said = span(exchange, "llm.output_messages", "llm.token_count.completion")
    assert said[f"llm.output_messages.0.message.contents.0.{CONTENT}.text"] == "Hel"
    assert "llm.token_count.completion" not in said


def test_an_http_error_tells_the_providers_words() -> None:
    """Status and message, no output."""
    error = {"type": "invalid_request_error", "message": "max_tokens: required"}
    body = {"type": "error", "error": error, "request_id": "req-1"}
    exchange = ask({}, body, status=400)
    assert (exchange.outcome, exchange.error_type) == (Outcome.UPSTREAM_ERROR, "400")
    assert exchange.error_message == "max_tokens: required"
    assert not span(exchange, "output.", "llm.output")


@pytest.mark.parametrize("kind", [EndKind.UPSTREAM_BROKEN, EndKind.CLIENT_GONE])
def test_a_message_with_a_reason_to_end_is_whole_however_it_breaks_off(kind: EndKind) -> None:
    """The mark behind it says no more (``docs/contract/apis.md#messages-endings``)."""
    body = encode_json({"model": "m-1", "max_tokens": 50, "messages": HI, "stream": True}).encode()
    head = (("content-type", "text/event-stream"),)
    events = (START, begin(0), text("Hi"), end())
    frames = exchange_frames(*events, asked=body, headers=head, kind=kind)
    opened = open_exchange(endpoint="messages", path="/v1/messages")
    exchange = observe([opened, *list(frames)[1:]])
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ("no_message_stop",))


def test_a_long_screenshot_in_a_result_is_counted() -> None:
    """An agent that uses a computer sends all of them with every call."""
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo" + "A" * 40_000}
    result = {
        "type": "tool_result",
        "tool_use_id": "t-1",
        "content": [{"type": "image", "source": source}],
    }
    exchange = ask({"messages": [*HI, {"role": "user", "content": [result]}]}, answer())
    [said] = span(exchange, "llm.input_messages.1.message.content").values()
    named = "<40011 base64 characters, image/png>"
    assert decode_json(said) == [{"type": "image", "source": source | {"data": named}}]


@pytest.mark.parametrize(("servers", "is_odd"), [([], True), ([{"name": "s"}], False)])
def test_a_call_of_a_tool_that_a_server_may_offer_is_not_odd(
    servers: list[Any], *, is_odd: bool
) -> None:
    """Nobody knows what an MCP server has."""
    call = {"type": "tool_use", "id": "t", "name": "g", "input": {}}
    asked = {"tools": [{"name": "f"}], "mcp_servers": servers}
    exchange = ask(asked, answer(call, reason="tool_use"))
    assert ("tool_not_offered" in exchange.anomalies) is is_odd


def test_a_result_in_an_assistants_message_is_a_message_in_its_place() -> None:
    """What an MCP server answered stands between the model's own words."""
    content = [
        {"type": "text", "text": "First"},
        {"type": "mcp_tool_result", "tool_use_id": "t-1", "content": "42"},
        {"type": "text", "text": "Then"},
    ]
    asked = ask({"messages": [{"role": "assistant", "content": content}]}, answer()).request
    assert asked is not None
    assert [one.role for one in asked.read_messages()] == ["assistant", "tool", "assistant"]


def test_names_of_tools_in_parameters_are_hidden_with_them() -> None:
    """Those that a server may use, and those whose results are to be forgotten."""
    asked = {
        "mcp_servers": [{"name": "s", "tool_configuration": {"allowed_tools": ["canary-1"]}}],
        "context_management": {"edits": [{"exclude_tools": ["canary-2"]}]},
    }
    rules = SpanRules(privacy=PrivacySwitches(hide_llm_tools=True))
    assert "canary" not in json.dumps(build_exchange_attributes(ask(asked, answer()), rules))


def test_a_token_in_a_body_that_is_no_json_is_masked() -> None:
    """By its name (``docs/contract/apis.md#credentials-in-bodies``)."""
    body = b'{"model":"m","mcp_servers":[{"authorization_token":"tok_Ab1Ab1Ab1Ab1"}],"messages":['
    opened = open_exchange(endpoint="messages", path="/v1/messages")
    frames = exchange_frames(encode_json(answer()).encode(), asked=body)
    exchange = observe([opened, *list(frames)[1:]])
    assert "tok_Ab1" not in json.dumps(build_exchange_attributes(exchange, SHOWN))


def test_tokens_of_servers_are_never_recorded() -> None:
    """Whatever the switches say (``docs/contract/apis.md#credentials-in-bodies``)."""
    server = {"type": "url", "url": "https://mcp.example", "name": "s"}
    asked = {"mcp_servers": [server | {"authorization_token": "tok-0123456789"}]}
    exchange = ask(asked, answer({"type": "text", "text": "tok-0123456789"}))
    assert "tok-0123456789" not in json.dumps(build_exchange_attributes(exchange, SHOWN))


def test_a_body_of_another_shape_is_noted() -> None:
    """And is the span's input all the same."""
    exchange = ask({"messages": "Hi", "system": 7, "tools": {}}, answer())
    assert "request_undecodable" in exchange.anomalies
    assert span(exchange, "llm.input_messages") == {"llm.input_messages.0.message.role": "system"}
    exchange = ask({}, b'{"object": "other"}')
    assert (exchange.outcome, exchange.anomalies) == (Outcome.NOT_AN_ANSWER, ("foreign_chunk",))
