"""Exchanges made by hand, for the tests of what becomes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.apis.table import get_api
from codec.chat.answer import ChatMessage, ChatResponse, Choice
from codec.text.jsontext import encode_json
from codec.usage import Usage
from telemetry.attribute_values import AttributeValue, clean_attributes
from telemetry.observing.exchange import Exchange
from telemetry.span_identity import SpanIdentity
from telemetry.spans.exchange_attributes import build_span_content
from telemetry.spans.rules import SpanRules

if TYPE_CHECKING:
    from collections.abc import Iterable

START_NS = 1_700_000_000_000_000_000
FIRST_CHUNK_NS = START_NS + 250_000_000
FIRST_CONTENT_NS = START_NS + 260_500_000
END_NS = START_NS + 2_000_000_000
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID = "b7ad6b7169203331"
IDENTITY = SpanIdentity(trace_id=TRACE_ID, span_id=SPAN_ID)

ASKED: dict[str, Any] = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
USAGE = Usage(
    prompt=12,
    completion=3,
    total=15,
    raw={"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
)


def make_exchange(request: dict[str, Any] | None = None, **members: Any) -> Exchange:
    """An exchange with the given request and members, and the plainest of everything else."""
    body = ASKED if request is None else request
    api = get_api(members.get("endpoint", "chat.completions"))
    defaults: dict[str, Any] = {
        "identity": IDENTITY,
        "endpoint": "chat.completions",
        "method": "POST",
        "path": "/v1/chat/completions",
        "upstream": "default",
        "request": api.asked(body),
        "request_body": encode_json(body).encode("utf-8", "surrogatepass"),
        "start_ns": START_NS,
        "end_ns": END_NS,
    }
    return Exchange(**{**defaults, **members})


def build_exchange_attributes(
    exchange: Exchange, rules: SpanRules | None = None
) -> dict[str, AttributeValue]:
    """All attributes of an exchange's span."""
    rules = rules or SpanRules()
    return {**build_span_content(exchange, rules, rules.mask(exchange))[0]}


def make_response(
    *messages: ChatMessage, finish_reason: str | None = "stop", **members: Any
) -> Any:
    """An answer with one choice per message, all with the same finish reason."""
    choices = tuple(
        Choice(index=index, message=message, finish_reason=finish_reason)
        for index, message in enumerate(messages)
    )
    defaults: dict[str, Any] = {"model": "gpt-4o-2024-08-06", "choices": choices, "usage": USAGE}
    return ChatResponse(**{**defaults, **members})


def cleaned(pairs: Iterable[tuple[str, object]]) -> dict[str, AttributeValue]:
    """The attributes that a span would have of these."""
    return clean_attributes(pairs)[0]
