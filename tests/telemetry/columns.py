"""Columns of calls that are made by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.resources import Resource

from telemetry.pricing.price_table import PriceTable
from telemetry.pricing.pricing import Pricing
from telemetry.spans.columns import build_columns
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.rules import SpanRules
from tests.telemetry.exchanges import make_exchange

if TYPE_CHECKING:
    from telemetry.facts import CallColumns
    from telemetry.observing.exchange import Exchange

__all__ = ("PICTURE", "RULES", "ask", "columns_of", "user")

PICTURE = {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}

RULES = SpanRules(pricing=Pricing(PriceTable({}), catalogue=False))


def columns_of(exchange: Exchange, rules: SpanRules = RULES) -> CallColumns:
    """The columns of an exchange, whose span is recorded by these rules."""
    span = SpanRecorder(Resource.get_empty(), build_span_limits(), rules).record(exchange)
    assert span is not None
    return build_columns(exchange, span)


def ask(*messages: dict[str, Any], rules: SpanRules = RULES, **members: Any) -> CallColumns:
    """The columns of a chat with these messages."""
    return columns_of(make_exchange({"model": "m", "messages": [*messages]}, **members), rules)


def user(content: Any) -> dict[str, Any]:
    """A message of the user's."""
    return {"role": "user", "content": content}
