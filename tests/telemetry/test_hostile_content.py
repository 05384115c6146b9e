"""Hostile content from frames to the store: the span is kept, or cut with a mark, and can be sent.

``docs/contract/spans.md#phoenix-ingest``: Phoenix takes 4 MiB by gRPC, and protobuf takes no lone
surrogate.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.resources import Resource

from codec.text.jsontext import decode_json, encode_json
from telemetry.conversation_position import ConversationForm
from telemetry.service import TelemetryService
from telemetry.spans.otlp.decoding import decode_spans
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.rules import SpanRules
from telemetry.store.store import Store
from tests.telemetry.tap_frames import exchange_frames

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOOL = {
    "type": "function",
    "function": {"name": "f", "description": "d" * 200, "parameters": {"type": "object"}},
}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 20_000_000}}


def nested(depth: int) -> Any:
    """An object in an object, so many times."""
    return decode_json('{"a":' * depth + "1" + "}" * depth)


def ask(*messages: Any, **members: Any) -> dict[str, Any]:
    return {"model": "m-asked", "messages": list(messages), **members}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return {"id": "chatcmpl-1", "model": "m-answered", "choices": [choice], "usage": usage}


HELLO = answer({"content": "Hello"})

BODY = {"input.value", "llm.invocation_parameters"}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], set[str]]] = {
    "NUL": (ask(user("a\0b")), answer({"content": "c\0d"}), set()),
    "lone surrogates": (ask(user("a\ud800b")), answer({"content": "\udfff"}), set()),
    "strings of 10 MB": (
        ask(user("x" * 10_000_000)),
        answer({"content": "y" * 10_000_000}),
        {
            "input.value",
            "output.value",
            "llm.input_messages.0.message.content",
            "llm.output_messages.0.message.content",
        },
    ),
    "1,000 tool calls": (
        ask(user("?")),
        answer({"tool_calls": [CALL] * 1_000}),
        {"message.tool_calls"},
    ),
    "10,000 messages": (ask(*[user("hi")] * 10_000), HELLO, {"llm.input_messages"}),
    "deep nesting": (ask(user("?"), tools=[nested(400)], metadata=nested(400)), HELLO, set()),
    "100 messages, 30 tools, an image of 20 MB": (
        ask(*[user("word " * 400)] * 99, user([IMAGE]), tools=[TOOL] * 30),
        HELLO,
        set(),
    ),
    "one key of 5 MB": (ask(user("?"), **{"k" * 5_000_000: 1}), HELLO, BODY),
    "a million numbers": (
        ask(user("?"), logit_bias={str(n): n for n in range(300_000)}),
        HELLO,
        BODY,
    ),
}


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store.open(tmp_path / "traces.db") as opened:
        yield opened


def record(store: Store, asked: dict[str, Any], answered: dict[str, Any]) -> Mapping[str, Any]:
    """The attributes of the stored span, which must be small enough to send."""
    rules = SpanRules(conversations=ConversationForm.LINKS)  # no run is to be ended meanwhile
    recorder = SpanRecorder(Resource.get_empty(), build_span_limits(), rules)
    service = TelemetryService(recorder, store, rules=rules, now_ns=time.time_ns)
    body, data = (
        encode_json(value).encode("utf-8", "backslashreplace") for value in (asked, answered)
    )
    for frame in exchange_frames(data, asked=body):
        service.feed(frame)
    service.commit()
    assert service.counts.failed == 0
    [pending] = store.read_due(10, MAX_MESSAGE_BYTES, time.time_ns())
    assert len(pending.span) < MAX_MESSAGE_BYTES
    [span] = decode_spans(pending.span)
    return span.attributes


@pytest.mark.parametrize(("asked", "answered", "cut"), CASES.values(), ids=CASES)
def test_the_essentials_arrive(
    store: Store, asked: dict[str, Any], answered: dict[str, Any], cut: set[str]
) -> None:
    """Model, counts, finish reason, input and output are there, and what was cut is noted."""
    attributes = record(store, asked, answered)
    assert attributes["llm.model_name"] == "m-answered"
    assert attributes["llm.token_count.total"] == 9
    assert attributes["llm.finish_reason"] == "stop"
    assert attributes["input.value"]
    assert attributes["output.value"]
    assert attributes["llm.output_messages.0.message.role"] == "assistant"
    metadata = decode_json(attributes["metadata"])
    assert metadata["outcome"] == "completed"
    assert metadata.get("cut", {}).keys() == cut


def test_a_long_conversation_keeps_its_newest_messages(store: Store) -> None:
    """Of 10,000 messages the last ones are attributes, and the number of all is noted."""
    asked, answered, _ = CASES["10,000 messages"]
    attributes = record(store, asked, answered)
    assert attributes["llm.input_messages.9999.message.content"] == "hi"
    assert "llm.input_messages.0.message.content" not in attributes
    assert decode_json(attributes["metadata"])["cut"]["llm.input_messages"] == 10_000
