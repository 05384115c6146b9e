"""Recorded calls for tests: exchanges as the observer makes them, through the real recorder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.resources import Resource

from codec.chat.answer import ChatMessage, ToolCall
from codec.usage import Usage
from proxy.reading.call import RecordedCall, decode_call
from telemetry.observing.exchange import Outcome
from telemetry.pricing.price_table import PriceTable
from telemetry.pricing.pricing import Pricing
from telemetry.reading.stored_calls import open_calls
from telemetry.recording import span_row
from telemetry.span_identity import SpanIdentity
from telemetry.spans.columns import build_columns
from telemetry.spans.otlp.encoding import encode_span
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.rules import SpanRules
from telemetry.spans.value_texts import ValueForm
from telemetry.store.store import Store
from tests.telemetry import exchanges
from tests.telemetry.exchanges import make_response

if TYPE_CHECKING:
    from pathlib import Path

    from codec.text.jsontext import JsonObject
    from telemetry.observing.exchange import Exchange
    from telemetry.store.rows import SpanRow

START_NS = 1_763_647_445_123_456_789
"""2025-11-20 14:04:05.123456789 UTC."""

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {"properties": {"city": {"type": "string"}, "unit": {}}},
    },
}


def span_id_of(number: int) -> str:
    """The span id of the n-th exchange; they all begin with ``0a``."""
    return f"0a{number:014x}"


def make_exchange(number: int = 1, **members: Any) -> Exchange:
    """A streamed chat that went well, changed by `members`; ``request_json`` is its request."""
    request: JsonObject = members.pop("request_json", None) or {
        "model": "gpt-demo",
        "stream": True,
        "temperature": 0.5,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello there"},
        ],
    }
    body = {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi, you."}}],
    }
    start_ns = START_NS + number * 1_000_000_000
    defaults: dict[str, Any] = {
        "identity": SpanIdentity(trace_id=f"{number:02x}" * 16, span_id=span_id_of(number)),
        "upstream": "demo",
        "server_address": "127.0.0.1",
        "server_port": 8080,
        "response_status": 200,
        "response": make_response(
            ChatMessage(role="assistant", content="Hi, you."),
            model="gpt-demo",
            usage=Usage(prompt=7, completion=2, total=9, cache_read=3, reasoning=0),
            body=body,
        ),
        "request_id": "req_1",
        "streamed": True,
        "start_ns": start_ns,
        "end_ns": start_ns + 342_000_000,
        "first_chunk_ns": start_ns + 131_000_000,
    }
    return exchanges.make_exchange(request, **{**defaults, **members})


def tell_span(exchange: Exchange) -> str:
    """All that the span of an exchange says."""
    recorder = SpanRecorder(Resource.get_empty(), build_span_limits(), SpanRules())
    span = recorder.record(exchange)
    assert span is not None
    return f"{span.to_json()}\n{encode_span(span)!r}"


def make_tools_exchange(number: int = 2) -> Exchange:
    """A chat whose answer calls a tool twice, after an earlier call and its result."""
    request = {
        "model": "gpt-demo",
        "stream": True,
        "tools": [TOOL, {"type": "custom"}],
        "messages": [
            {"role": "user", "content": "Weather?", "name": "ann"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_0",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": "not {json"},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_0", "content": "24 degrees"},
        ],
    }
    calls = tuple(
        ToolCall(id=f"call_{n}", name="get_weather", arguments=json.dumps({"city": city}))
        for n, city in enumerate(("Lisbon", "Oslo"), start=1)
    )
    message = ChatMessage(role="assistant", tool_calls=calls)
    response = make_response(message, finish_reason="tool_calls", model="gpt-demo", usage=None)
    return make_exchange(number, request_json=request, response=response)


def make_failed_exchange(number: int = 3, message: str = "Rate limit reached.") -> Exchange:
    """A chat that the upstream refused with 429."""
    return make_exchange(
        number,
        streamed=False,
        response=None,
        response_status=429,
        request_id=None,
        first_chunk_ns=None,
        outcome=Outcome.UPSTREAM_ERROR,
        error_type="429",
        error_message=message,
        error_body=json.dumps({"error": {"message": message}}),
    )


def make_row(exchange: Exchange, form: ValueForm = ValueForm.JSON) -> SpanRow:
    """The row that the store gets for an exchange."""
    rules = SpanRules(pricing=Pricing(PriceTable(()), catalogue=False), values=form)
    recorder = SpanRecorder(Resource({"service.name": "spantap"}), build_span_limits(), rules)
    span = recorder.record(exchange)
    assert span is not None
    return span_row.make_row(exchange, span, build_columns(exchange, span), exchange.end_ns)


def make_store(
    path: Path, *exchanges: Exchange, delivers: bool = False, form: ValueForm = ValueForm.JSON
) -> Path:
    """A store of these exchanges, closed again."""
    with Store.open(path, delivers=delivers) as store:
        store.add([make_row(exchange, form) for exchange in exchanges])
    return path


def read_call(path: Path, exchange: Exchange, form: ValueForm = ValueForm.JSON) -> RecordedCall:
    """The exchange as the store at `path` gives it back."""
    make_store(path, exchange, form=form)
    with open_calls(path) as reader:
        (stored,) = reader.find(exchange.identity.span_id)
    return decode_call(stored.summary, stored.span)
