"""Whole spans of calls of the Responses API, by hand from the tables.

See ``docs/apis.md#responses``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json, encode_json
from telemetry.observing.exchange import Outcome
from telemetry.privacy.switches import PrivacySwitches
from telemetry.spans.rules import SpanRules
from tests.codec.apis.responses.events import added, delta, done, ended, write_event
from tests.telemetry.exchanges import build_exchange_attributes
from tests.telemetry.observed import observe
from tests.telemetry.tap_frames import begin, exchange_frames

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange

USAGE = {
    "input_tokens": 20,
    "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 0},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 4},
    "total_tokens": 29,
}
COUNTS = {
    "llm.token_count.prompt": 20,
    "llm.token_count.completion": 9,
    "llm.token_count.total": 29,
    "llm.token_count.prompt_details.cache_read": 5,
    "llm.token_count.prompt_details.cache_write": 0,
    "llm.token_count.completion_details.reasoning": 4,
    "gen_ai.usage.input_tokens": 20,
    "gen_ai.usage.output_tokens": 9,
    "gen_ai.usage.cache_read.input_tokens": 5,
    "gen_ai.usage.cache_creation.input_tokens": 0,
    "gen_ai.usage.reasoning.output_tokens": 4,
}
CREATED = write_event("response.created", response={"id": "r-1", "model": "m-1-2026"})
SHOWN = SpanRules(shows_genai_content=True)
JSON_KEYS = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.definitions")


def respond(asked: dict[str, Any], *pieces: bytes | dict[str, Any], **head: Any) -> Exchange:
    """The record of a call."""
    answered = [
        piece if isinstance(piece, bytes) else encode_json(piece).encode() for piece in pieces
    ]
    is_stream = isinstance(pieces[0], bytes)
    kind = "text/event-stream" if is_stream else "application/json"
    body = encode_json({"model": "m-1", "stream": is_stream, **asked}).encode()
    frames = exchange_frames(*answered, asked=body, headers=(("content-type", kind),))
    opened = begin(endpoint="responses", path="/v1/responses", **head)
    return observe([opened, *list(frames)[1:]])


def span(exchange: Exchange, *prefixes: str, rules: SpanRules = SHOWN) -> dict[str, Any]:
    """Attributes under these names, JSON read."""
    attributes = build_exchange_attributes(exchange, rules)
    return {
        key: decode_json(str(value)) if key in JSON_KEYS else value
        for key, value in attributes.items()
        if key.startswith(prefixes)
    }


def message(text: str) -> dict[str, Any]:
    """An item that is text."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "i-1", "role": "assistant", "content": [part]}


def test_a_plain_text() -> None:
    """Instructions first, then the input without a hole; text is a part."""
    asked = {
        "input": "Hi",
        "instructions": "Be kind",
        "max_output_tokens": 50,
        "temperature": 0.5,
        "text": {"format": {"type": "json_object"}},
        "conversation": {"id": "conv-1"},
        "previous_response_id": "r-0",
        "prompt": {"id": "p-1", "version": "3"},
        "safety_identifier": "u-1",
    }
    answer = {
        "id": "r-1",
        "object": "response",
        "status": "completed",
        "model": "m-1-2026",
        "service_tier": "default",
        "output": [message("Hello")],
        "usage": USAGE,
    }
    exchange = respond(asked, answer)
    attributes = build_exchange_attributes(exchange, SHOWN)
    expected = {
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": "Be kind",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.content": "Hi",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.contents.0.message_content.type": "text",
        "llm.output_messages.0.message.contents.0.message_content.text": "Hello",
        "llm.finish_reason": "completed",
        "llm.system": "openai",
        "llm.model_name": "m-1-2026",
        "openinference.span.kind": "LLM",
        "session.id": "conv-1",
        "user.id": "u-1",
        "prompt.id": "p-1",
        "gen_ai.conversation.id": "conv-1",
        "gen_ai.operation.name": "chat",
        "gen_ai.output.type": "json",
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.model": "m-1",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.response.finish_reasons": ("completed",),
        "gen_ai.response.id": "r-1",
        "openai.api.type": "responses",
        "openai.response.service_tier": "default",
        **COUNTS,
    }
    assert {key: attributes.get(key) for key in expected} == expected
    assert exchange.api.span_name == "Response"
    assert exchange.outcome is Outcome.COMPLETED
    assert decode_json(str(attributes["output.value"])) == answer
    parameters = decode_json(str(attributes["llm.invocation_parameters"]))
    assert parameters.keys().isdisjoint({"input", "instructions", "tools"})
    metadata = decode_json(str(attributes["metadata"]))
    assert (metadata["previous_response_id"], metadata["prompt_version"]) == ("r-0", "3")
    assert span(exchange, "gen_ai.output.messages")["gen_ai.output.messages"] == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "Hello"}],
            "finish_reason": "stop",
        }
    ]


def test_tools_and_their_outputs() -> None:
    """A call is known by its call id; an output is a tool's message; a custom call has an input."""
    call = {"type": "function_call", "id": "i-1", "call_id": "c-1", "name": "f", "arguments": "{}"}
    custom = {"type": "custom_tool_call", "id": "i-2", "call_id": "c-2", "name": "g", "input": "x"}
    asked = {
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            call,
            {"type": "function_call_output", "call_id": "c-1", "output": "42"},
            {"type": "custom_tool_call_output", "call_id": "c-2", "output": [{"a": 1}]},
            {"type": "item_reference", "id": "x"},
        ],
        "tools": [
            {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}},
            {"type": "custom", "name": "g"},
        ],
    }
    stream = (CREATED, done(0, call), done(1, custom), ended(output=[], usage=USAGE))
    exchange = respond(asked, *stream)
    prefix = "llm.input_messages"
    assert span(exchange, prefix) == {
        f"{prefix}.0.message.role": "user",
        f"{prefix}.0.message.contents.0.message_content.type": "text",
        f"{prefix}.0.message.contents.0.message_content.text": "Hi",
        f"{prefix}.1.message.role": "assistant",
        f"{prefix}.1.message.tool_calls.0.tool_call.id": "c-1",
        f"{prefix}.1.message.tool_calls.0.tool_call.function.name": "f",
        f"{prefix}.1.message.tool_calls.0.tool_call.function.arguments": "{}",
        f"{prefix}.2.message.role": "tool",
        f"{prefix}.2.message.tool_call_id": "c-1",
        f"{prefix}.2.message.content": "42",
        f"{prefix}.3.message.role": "tool",
        f"{prefix}.3.message.tool_call_id": "c-2",
        f"{prefix}.3.message.content": '[{"a":1}]',
        f"{prefix}.4.message.role": "assistant",
    }
    prefix = "llm.output_messages"
    assert span(exchange, prefix) == {
        f"{prefix}.0.message.role": "assistant",
        f"{prefix}.0.message.tool_calls.0.tool_call.id": "c-1",
        f"{prefix}.0.message.tool_calls.0.tool_call.function.name": "f",
        f"{prefix}.0.message.tool_calls.0.tool_call.function.arguments": "{}",
        f"{prefix}.1.message.role": "assistant",
        f"{prefix}.1.message.tool_calls.0.tool_call.id": "c-2",
        f"{prefix}.1.message.tool_calls.0.tool_call.function.name": "g",
        f"{prefix}.1.message.tool_calls.0.tool_call.function.arguments": '{"input":"x"}',
    }
    names = span(
        exchange, "llm.tools.0.tool.name", "llm.tools.0.tool.desc", "llm.tools.1.tool.name"
    )
    assert [*names.values()] == ["f", "d", "g"]
    said = span(exchange, "gen_ai.output.messages")["gen_ai.output.messages"]
    assert said == [
        {
            "role": "assistant",
            "parts": [
                {"type": "tool_call", "name": "f", "id": "c-1", "arguments": {}},
                {"type": "tool_call", "name": "g", "id": "c-2", "arguments": {"input": "x"}},
            ],
            "finish_reason": "tool_call",
        }
    ]
    assert "tool_not_offered" not in exchange.anomalies


def test_in_opentelemetrys_message_all_parts_keep_their_order() -> None:
    """Text, a call, text: the items of one choice (``docs/contract/apis.md#responses-answer``)."""
    call = {"type": "function_call", "call_id": "c-1", "name": "f", "arguments": "{}"}
    output = [message("A"), call, message("B")]
    answer = {"object": "response", "status": "completed", "output": output, "usage": USAGE}
    [said] = span(respond({"input": "Hi"}, answer), "gen_ai.output")["gen_ai.output.messages"]
    assert [part.get("content", "f") for part in said["parts"]] == ["A", "f", "B"]


def test_reasoning_with_encrypted_content() -> None:
    """Of the past and of the answer; what is long and opaque is left out, and noted."""
    summary = [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]
    item = {"type": "reasoning", "id": "rs-1", "summary": summary, "encrypted_content": "gAAA"}
    long = item | {"encrypted_content": "x" * 5_000}
    refusal = {"type": "refusal", "refusal": "No"}
    declined = {"type": "message", "role": "assistant", "content": [refusal]}
    exchange = respond({"input": [item]}, CREATED, done(0, long), done(1, declined), ended())
    part = "message.contents.0.message_content"
    assert span(exchange, "llm.input_messages") == {
        "llm.input_messages.0.message.role": "assistant",
        f"llm.input_messages.0.{part}.type": "reasoning",
        f"llm.input_messages.0.{part}.text": "a\nb",
        f"llm.input_messages.0.{part}.id": "rs-1",
        f"llm.input_messages.0.{part}.encrypted_content": "gAAA",
    }
    assert span(exchange, "llm.output_messages") == {
        "llm.output_messages.0.message.role": "assistant",
        f"llm.output_messages.0.{part}.type": "reasoning",
        f"llm.output_messages.0.{part}.text": "a\nb",
        f"llm.output_messages.0.{part}.id": "rs-1",
        "llm.output_messages.1.message.role": "assistant",
        f"llm.output_messages.1.{part}.type": "text",
        f"llm.output_messages.1.{part}.text": "No",
    }
    metadata = decode_json(str(span(exchange, "metadata")["metadata"]))
    assert metadata["cut"] == {"message_content.encrypted_content": 5_000}
    assert metadata["refused_choices"] == [1]
    [said] = span(exchange, "gen_ai.output.messages")["gen_ai.output.messages"]
    assert [part["type"] for part in said["parts"]] == ["reasoning", "text"]


def test_tools_of_the_providers_own() -> None:
    """Each is called by its item's type, with what the model asked as JSON; so are past calls."""
    items = [
        {"type": "web_search_call", "id": "ws-1", "action": {"type": "search", "query": "q"}},
        {"type": "code_interpreter_call", "id": "ci-1", "code": "1+1"},
        {"type": "mcp_list_tools", "id": "l-1"},
        {"type": "mcp_call", "id": "mcp-1", "name": "roll", "arguments": "{}"},
        {"type": "image_generation_call", "id": "g-1", "result": "aGk=", "output_format": "webp"},
        {"type": "compaction", "id": "k-1"},
    ]
    secret = "tok-0123456789"
    headers = {"X-Mine": "hdr-0123456789"}
    tool = {"type": "mcp", "server_label": "dice", "authorization": secret, "headers": headers}
    inner = {"type": "additional_tools", "tools": [tool | {"authorization": "inner-987654"}]}
    asked = {"input": [*items, inner], "tools": [{"type": "web_search"}, tool]}
    answer = {"object": "response", "status": "completed", "output": items, "tools": [tool]}
    exchange = respond(asked, answer)
    prefix = "llm.output_messages"
    call = "message.tool_calls.0.tool_call"
    said = span(exchange, prefix)
    assert {key: value for key, value in said.items() if not key.endswith("role")} == {
        f"{prefix}.0.{call}.id": "ws-1",
        f"{prefix}.0.{call}.function.name": "web_search_call",
        f"{prefix}.0.{call}.function.arguments": '{"type":"search","query":"q"}',
        f"{prefix}.1.{call}.id": "ci-1",
        f"{prefix}.1.{call}.function.name": "code_interpreter_call",
        f"{prefix}.1.{call}.function.arguments": '{"code":"1+1"}',
        f"{prefix}.3.{call}.id": "mcp-1",
        f"{prefix}.3.{call}.function.name": "roll",
        f"{prefix}.3.{call}.function.arguments": "{}",
        f"{prefix}.4.message.contents.0.message_content.type": "image",
        f"{prefix}.4.message.contents.0.message_content.image.image.url": (
            "data:image/webp;base64,aGk="
        ),
    }
    assert [said[f"{prefix}.{at}.message.role"] for at in range(6)] == ["assistant"] * 6
    past = {
        **{f"llm.input_messages.{at}.message.role": "assistant" for at in range(7)},
        **{
            key.replace("output", "input", 1): value
            for key, value in said.items()
            if key.startswith((f"{prefix}.0.", f"{prefix}.1."))
        },
    }
    assert span(exchange, "llm.input_messages") == past
    names = span(exchange, "llm.tools.0.tool.name", "llm.tools.1.tool.name")
    assert [*names.values()] == ["web_search", "dice"]
    whole = str(build_exchange_attributes(exchange, SHOWN))
    assert not [word for word in (secret, "hdr-0123456789", "inner-987654") if word in whole]
    assert "tool_not_offered" not in exchange.anomalies


def test_tools_that_an_item_brings() -> None:
    """Codex offers all of its own so."""
    inner = [{"type": "custom", "name": "exec"}, {"type": "function", "name": "wait"}]
    namespace = {"type": "namespace", "name": "functions", "tools": inner}
    items = [{"type": "additional_tools", "role": "developer", "tools": [namespace]}]
    exchange = respond(
        {"input": items, "tools": [{"type": "web_search"}]},
        {"object": "response", "status": "completed", "output": [], "usage": USAGE},
    )
    tools = span(exchange, "llm.tools.")
    assert tools["llm.tools.0.tool.name"] == "web_search"
    assert tools["llm.tools.1.tool.name"] == "exec"
    assert tools["llm.tools.2.tool.name"] == "wait"
    assert decode_json(tools["llm.tools.2.tool.json_schema"]) == inner[1]
    hidden = SpanRules(privacy=PrivacySwitches(hide_llm_tools=True), shows_genai_content=True)
    assert span(exchange, "llm.tools", "gen_ai.tool", rules=hidden) == {}


@pytest.mark.parametrize("inner", [[], None, "exec", {}])
def test_a_namespace_without_tools_is_shown_as_it_is(inner: object) -> None:
    """Show its name and all that it says."""
    namespace = {"type": "namespace", "name": "functions", "tools": inner}
    exchange = respond(
        {"input": "Hi", "tools": [namespace]},
        {"object": "response", "status": "completed", "output": [], "usage": USAGE},
    )
    tools = span(exchange, "llm.tools.")
    assert tools["llm.tools.0.tool.name"] == "functions"
    assert decode_json(tools["llm.tools.0.tool.json_schema"]) == namespace


def test_a_response_that_failed() -> None:
    """ERROR with its code, and what was said before; the counts if they came."""
    error = {"code": "server_error", "message": "it broke"}
    item = message("")
    exchange = respond(
        {"input": "Hi"},
        CREATED,
        added(0, item | {"content": []}),
        delta("Hel"),
        ended("failed", error=error, usage=USAGE, output=[]),
    )
    assert (exchange.outcome, exchange.error_type) == (Outcome.STREAM_ERROR, "server_error")
    assert exchange.error_message == "it broke"
    attributes = span(exchange, "llm.", "gen_ai.", "error.type")
    assert attributes["llm.output_messages.0.message.contents.0.message_content.text"] == "Hel"
    assert attributes["llm.finish_reason"] == "failed"
    assert attributes["error.type"] == "server_error"
    assert attributes["gen_ai.output.messages"][0]["finish_reason"] == "error"
    assert {key: attributes[key] for key in COUNTS} == COUNTS


@pytest.mark.parametrize(
    ("reason", "word"), [("max_output_tokens", "length"), ("content_filter", "content_filter")]
)
def test_a_response_that_is_incomplete(reason: str, word: str) -> None:
    """OK, and the reason is the finish reason."""
    end = ended("incomplete", incomplete_details={"reason": reason}, output=[message("Hel")])
    exchange = respond({"input": "Hi"}, CREATED, end)
    assert (exchange.outcome, exchange.error_type) == (Outcome.COMPLETED, None)
    attributes = span(exchange, "llm.finish", "gen_ai.response.fin", "gen_ai.output.mess")
    assert attributes["llm.finish_reason"] == reason
    assert attributes["gen_ai.response.finish_reasons"] == (reason,)
    assert attributes["gen_ai.output.messages"][0]["finish_reason"] == word


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_a_response_in_the_background_is_complete_and_says_so(status: str) -> None:
    """No counts, and nothing invented."""
    exchange = respond({"input": "Hi"}, {"object": "response", "status": status, "output": []})
    assert exchange.outcome is Outcome.COMPLETED
    assert span(exchange, "llm.finish", "llm.token") == {"llm.finish_reason": status}
    assert "no_usage" not in exchange.anomalies


def test_a_stream_that_breaks_off_has_no_finish_reason() -> None:
    """ERROR, and the items so far."""
    exchange = respond({"input": "Hi"}, CREATED, added(0, message("")), delta("Hel"))
    assert (exchange.outcome, exchange.error_type) == (Outcome.TRUNCATED, "stream_truncated")
    assert "llm.finish_reason" not in span(exchange, "llm.finish")


def test_a_cancelled_response_is_no_error() -> None:
    """Somebody stopped it by another request."""
    exchange = respond({"input": "Hi"}, {"object": "response", "status": "cancelled"})
    assert (exchange.outcome, exchange.error_type) == (Outcome.CANCELLED, None)
    assert span(exchange, "llm.finish") == {"llm.finish_reason": "cancelled"}


def test_tools_of_a_stored_prompt_are_those_of_the_answer() -> None:
    """Where the request has none."""
    answer = {
        "object": "response",
        "prompt": {"id": "p"},
        "tools": [{"type": "function", "name": "f"}],
    }
    exchange = respond({"prompt": {"id": "p"}}, answer)
    assert span(exchange, "llm.tools.0.tool.name") == {"llm.tools.0.tool.name": "f"}
    answer.pop("prompt")
    assert not span(respond({"input": "Hi"}, answer), "llm.tools")


def test_a_header_may_set_another_session_than_the_conversation() -> None:
    """OpenTelemetry's conversation is the provider's all the same."""
    headers = (("x-session-id", "mine"), ("content-type", "application/json"))
    answer = {"object": "response", "status": "completed"}
    exchange = respond({"input": "Hi", "conversation": "conv-1"}, answer, headers=headers)
    attributes = span(exchange, "session.id", "gen_ai.conversation.id")
    assert attributes == {"session.id": "mine", "gen_ai.conversation.id": "conv-1"}


@pytest.mark.parametrize(
    "switches",
    [
        PrivacySwitches(hide_inputs=True),
        PrivacySwitches(hide_input_text=True),
        PrivacySwitches(hide_input_messages=True),
    ],
)
def test_an_answer_that_repeats_its_request_shows_none_of_it(switches: PrivacySwitches) -> None:
    """A response has the instructions, the tools and the parameters in it."""
    asked = {"input": "canary-1", "instructions": "canary-2", "text": {"x": "canary-3"}}
    answer = {"object": "response", "status": "completed", "output": [message("Hello")], **asked}
    exchange = respond(asked, answer)
    attributes = build_exchange_attributes(exchange, SpanRules(privacy=switches))
    assert "canary" not in json.dumps(attributes)
    assert "Hello" in str(attributes["output.value"])


def test_hidden_tools_are_hidden_in_items_as_well() -> None:
    """An MCP server's, those that a search found, and those that a request adds on its way."""

    def items(number: int) -> list[dict[str, Any]]:
        tool = {"type": "function", "name": f"canary-{number}", "parameters": {}}
        kinds = ("mcp_list_tools", "tool_search_output", "additional_tools")
        return [{"type": kind, "call_id": "c", "tools": [tool]} for kind in kinds]

    asked = {"input": [{"role": "user", "content": "Hi"}, *items(1)], "tools": items(2)[0]["tools"]}
    answer = {"object": "response", "status": "completed", "output": [*items(3), message("Hello")]}
    exchange = respond(asked, answer | {"tools": asked["tools"]})
    assert "canary-1" in str(build_exchange_attributes(exchange, SHOWN))
    rules = SpanRules(privacy=PrivacySwitches(hide_llm_tools=True), shows_genai_content=True)
    attributes = build_exchange_attributes(exchange, rules)
    assert "canary" not in json.dumps(attributes)
    assert decode_json(str(attributes["input.value"]))["input"][1]["type"] == "mcp_list_tools"
    assert "Hello" in str(attributes["output.value"])


def test_an_answer_that_broke_off_repeats_its_request_as_well() -> None:
    """Its text is hidden whole where something of the request is."""
    frames = exchange_frames(b'{"output": [], "tools": [{"name": "canary', asked=b'{"input": "Hi"}')
    opened = begin(endpoint="responses", path="/v1/responses")
    exchange = observe([opened, *list(frames)[1:]])
    assert exchange.undecoded_body
    rules = SpanRules(privacy=PrivacySwitches(hide_llm_tools=True))
    assert build_exchange_attributes(exchange, rules)["output.value"] == "__REDACTED__"
