"""``telemetry.observing.exchange``: messages that are read once are those of their request."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from codec.apis.table import get_api
from codec.parts import Message
from telemetry.observing.exchange import Exchange, ReadMessages
from telemetry.privacy.switches import PrivacySwitches
from telemetry.spans.rules import SpanRules
from tests.telemetry.exchanges import build_exchange_attributes, make_exchange

TOOL = "a_tool_to_be_hidden"
BROUGHT: dict[str, Any] = {
    "model": "m-1",
    "input": [
        {"type": "message", "role": "user", "content": "hi"},
        {"type": "mcp_list_tools", "server_label": "s", "tools": [{"name": TOOL}]},
    ],
}


def read_before(exchange: Exchange) -> Exchange:
    """Return the same exchange, its messages read already."""
    request = exchange.request
    assert request is not None
    messages = [*request.read_messages()]
    return replace(exchange, read=ReadMessages(request, messages, messages))


def test_messages_that_are_read_are_those_of_the_request_alone() -> None:
    """Another request has its own messages, and none has none."""
    exchange = read_before(make_exchange())
    assert exchange.read is not None
    assert exchange.read_messages() is exchange.read.messages
    assert exchange.read_observations(exchange.read.messages) is exchange.read.parsed
    assert exchange.read_observations(others := [Message(role="user", content="no")]) is others
    other = get_api("chat.completions").asked({"messages": [{"role": "user", "content": "no"}]})
    assert [one.content for one in replace(exchange, request=other).read_messages()] == ["no"]
    assert replace(exchange, request=None).read_messages() == ()
    assert exchange.without_content("observer_failed").read is None


def test_what_is_hidden_is_hidden_of_messages_that_are_read() -> None:
    """A span is the same whether somebody has read the messages before, hidden tools included."""
    exchange = make_exchange(BROUGHT, endpoint="responses", path="/v1/responses")
    for hides in (False, True):
        rules = SpanRules(privacy=PrivacySwitches(hide_llm_tools=hides))
        attributes = build_exchange_attributes(read_before(exchange), rules)
        assert attributes == build_exchange_attributes(exchange, rules)
        assert (TOOL in str(attributes)) is not hides
