"""On what terms a call is billed, and what is billed besides its tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.messages.said import read_answer as read_message
from codec.apis.responses.said import read_response
from codec.text.jsontext import encode_json
from telemetry.pricing.price_table import Price, PriceTable
from telemetry.pricing.pricing import Pricing
from telemetry.pricing.terms import Terms, find_charges, find_terms
from tests.telemetry.exchanges import make_exchange, make_response

if TYPE_CHECKING:
    from telemetry.pricing.span_cost import SpanCost

AT_NS = 1_793_880_000_000_000_000  # November 2026
HOUR = {
    "input_tokens": 0,
    "output_tokens": 0,
    "cache_creation_input_tokens": 100_000,
    "cache_creation": {"ephemeral_5m_input_tokens": 40_000, "ephemeral_1h_input_tokens": 60_000},
}
SEARCHED = {
    "input_tokens": 1000,
    "output_tokens": 1000,
    "server_tool_use": {"web_search_requests": 3},
}
SAID = {"type": "message", "input_tokens": 2, "output_tokens": 500}
ADVICE = {
    "type": "advisor_message",
    "model": "claude-opus-4-1",
    "input_tokens": 159_419,
    "output_tokens": 7_805,
}
ADVISED = {**SAID, "iterations": [SAID, ADVICE]}
LONG = {"type": "message", "input_tokens": 150_000, "output_tokens": 0}


def cost_of(
    usage: dict[str, Any],
    *prices: Price,
    model: str = "claude-sonnet-4-5",
    content: tuple[Any, ...] = (),
    **asked: Any,
) -> SpanCost | None:
    """The cost of a message at Anthropic with these counts."""
    body = {"type": "message", "model": model, "content": [*content], "stop_reason": "end_turn"}
    return Pricing(PriceTable(prices)).price(
        make_exchange(
            {"model": model, **asked},
            start_ns=AT_NS,
            provider="anthropic",
            response=read_message(encode_json(body | {"usage": usage}).encode()),
        )
    )


def total(usage: dict[str, Any], *prices: Price, **members: Any) -> float | None:
    cost = cost_of(usage, *prices, **members)
    return None if cost is None else cost.total


@pytest.mark.parametrize(
    ("usage", "model", "expected"),
    [
        pytest.param(HOUR, "claude-sonnet-4-5", 0.51, id="writes for an hour cost more"),
        pytest.param(HOUR, "claude-haiku-5-5", 0.017, id="where the price has tiers, too"),
        pytest.param(SEARCHED, "claude-sonnet-4-5", 0.048, id="ten dollars per thousand searches"),
        pytest.param(SEARCHED, "claude-3-haiku", None, id="searches that have no listed price"),
        pytest.param(ADVISED, "claude-sonnet-4-5", 2.984166, id="an advisor's price is its own"),
        pytest.param({**SAID, "iterations": [SAID, {**ADVICE, "model": "mine"}]},
                     "claude-sonnet-4-5", None, id="an advisor that is not listed"),
        pytest.param({**SAID, "speed": "fast"}, "claude-opus-4-8", 0.02502, id="fast"),
        pytest.param({**SAID, "speed": "fast"}, "claude-haiku-4-5", None, id="fast, not listed"),
        pytest.param({**SAID, "speed": "standard"}, "claude-opus-4-8", 0.01251, id="not fast"),
        pytest.param({**SAID, "service_tier": "priority"}, "claude-haiku-4-5", None, id="priority"),
        pytest.param({**SAID, "service_tier": "standard"}, "claude-haiku-4-5", 0.002502,
                     id="standard"),
        pytest.param({**SAID, "service_tier": "batch"}, "claude-haiku-4-5", 0.001251, id="batch"),
        pytest.param({**SAID, "service_tier": "batch", "speed": "fast"}, "claude-opus-4-8", None,
                     id="two prices at once"),
        pytest.param({**SAID, "inference_geo": "us"}, "claude-haiku-4-5", None, id="a place"),
        pytest.param({**SAID, "inference_geo": "global"}, "claude-haiku-4-5", 0.002502,
                     id="any place"),
        pytest.param({**LONG, "input_tokens": 300_000, "iterations": [LONG, LONG]},
                     "claude-sonnet-4-5", 0.9, id="neither of two steps is long"),
        pytest.param({**LONG, "input_tokens": 300_000}, "claude-sonnet-4-5", 1.8, id="one is"),
        pytest.param({**LONG, "iterations": [LONG, LONG]}, "claude-sonnet-4-5", None,
                     id="steps that do not come to the counts"),
    ],
)  # fmt: skip
def test_the_total_is_the_listed_one_or_none(
    usage: dict[str, Any], model: str, expected: float | None
) -> None:
    """Never a part as the whole."""
    cost = cost_of(usage, model=model)
    assert (None if cost is None else cost.total) == expected


@pytest.mark.parametrize(
    ("told", "found", "expected"),
    [
        pytest.param({}, [{"type": "web_search_result", "url": "u"}], None, id="no count"),
        pytest.param({"server_tool_use": None}, [], None, id="a null for it"),
        pytest.param({"server_tool_use": {"web_search_requests": 0}}, [], None, id="a zero"),
        pytest.param({"server_tool_use": {"web_search_requests": 1}}, [], 0.028, id="counted"),
        pytest.param({}, {"type": "web_search_tool_result_error", "error_code": "unavailable"},
                     0.018, id="a search that failed costs nothing"),
    ],
)  # fmt: skip
def test_a_search_that_nobody_counted_leaves_the_total_open(
    told: dict[str, Any], found: Any, expected: float | None
) -> None:
    """A relay may drop Anthropic's count of searches; their results stand in the message."""
    usage = {"input_tokens": 1000, "output_tokens": 1000, **told}
    block = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": found}
    cost = cost_of(usage, content=(block,))
    assert (None if cost is None else cost.total) == expected


def test_what_is_beside_the_tokens_is_in_the_total_alone() -> None:
    """Its shares are those of the model that answered, and of its tokens."""
    for usage, beside in ((SEARCHED, 0.03), (ADVISED, 2.97666)):
        cost = cost_of(usage)
        assert cost is not None
        assert cost.total is not None
        assert cost.prompt is not None
        assert cost.completion is not None
        assert cost.total - cost.prompt - cost.completion == pytest.approx(beside)


OWN = Price(model="claude-*", input=1.0, output=10.0)
WRITES = Price(model="claude-*", input=1.0, output=10.0, cache_write=2.0)


@pytest.mark.parametrize(
    ("usage", "prices", "expected"),
    [
        pytest.param(HOUR, [OWN], 0.1, id="one rate for all tokens"),
        pytest.param(HOUR, [WRITES], None, id="writes have a rate, and those for an hour none"),
        pytest.param(HOUR, [Price(model="*", input=1.0, output=1.0, cache_write=2.0,
                                  cache_write_1h=3.0)], 0.26, id="both have one"),
        pytest.param(SEARCHED, [OWN], None, id="searches without a price"),
        pytest.param(SEARCHED, [Price(model="*", input=1.0, output=10.0, web_search=5.0)], 0.026,
                     id="searches with one"),
        pytest.param(ADVISED, [OWN], 0.242471, id="the advisor's model has a price"),
        pytest.param(ADVISED, [Price(model="claude-sonnet-*", input=1.0, output=10.0)], None,
                     id="it has none"),
        pytest.param({**SAID, "speed": "fast", "service_tier": "priority"}, [OWN], 0.005002,
                     id="own prices hold on any terms"),
    ],
)  # fmt: skip
def test_the_users_own_prices_obey_the_same_rule(
    usage: dict[str, Any], prices: list[Price], expected: float | None
) -> None:
    """What they do not cover leaves the total open."""
    assert total(usage, *prices) == (expected if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("asked", "answered", "expected"),
    [
        ({}, {}, Terms()),
        ({"service_tier": "auto"}, {}, Terms()),
        ({"service_tier": "on_demand"}, {}, Terms()),
        ({"serviceTier": "unspecified"}, {}, Terms()),
        ({"service_tier": "flex"}, {"service_tier": "flex"}, Terms("flex")),
        ({"service_tier": "flex"}, {"service_tier": "default"}, Terms("default")),
        ({"service_tier": "flex"}, {}, None),
        ({"service_tier": "priority"}, {}, None),
        ({"serviceTier": "FLEX"}, {}, None),
        ({"speed": "fast"}, {}, None),
        ({"speed": "standard"}, {}, Terms()),
        ({"inference_geo": "us"}, {}, None),
    ],
)
def test_what_was_asked_for_and_not_answered_is_not_known(
    asked: dict[str, Any], answered: dict[str, Any], expected: Terms | None
) -> None:
    """The ordinary price is a guess then."""
    exchange = make_exchange({"model": "m", **asked}, response=make_response(**answered))
    assert find_terms(exchange, find_charges(exchange)) == expected


@pytest.mark.parametrize(
    ("asked", "is_known"),
    [
        ({"model": "gpt-4o"}, True),
        ({"model": "gpt-4o", "web_search_options": None}, True),
        ({"model": "gpt-4o", "web_search_options": {}}, False),
        ({"model": "gpt-4o-search-preview"}, False),
        ({"model": "gpt-5-search-api"}, False),
    ],
)
def test_a_chat_that_may_search_does_not_tell_how_often(
    asked: dict[str, Any], is_known: bool
) -> None:
    """Searches are billed each: their number is then unknown."""
    charges = find_charges(make_exchange(asked, response=make_response()))
    assert (charges.unknown == ()) is is_known


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ([], 0.01125),
        ([{"type": "web_search_call", "action": {"type": "search"}}], 0.02125),
        ([{"type": "file_search_call"}], 0.01375),
        ([{"type": "code_interpreter_call"}], None),
    ],
)
def test_the_tools_of_a_response_are_billed(
    output: list[dict[str, Any]], expected: float | None
) -> None:
    """OpenAI's: ten dollars per thousand searches of the web, 2.50 of files."""
    body = {
        "object": "response",
        "status": "completed",
        "model": "gpt-5",
        "output": output,
        "usage": {"input_tokens": 1000, "output_tokens": 1000, "total_tokens": 2000},
    }
    cost = Pricing(PriceTable()).price(
        make_exchange(
            {"model": "gpt-5"},
            start_ns=AT_NS,
            provider="openai",
            response=read_response(encode_json(body).encode()),
        )
    )
    assert (None if cost is None else cost.total) == expected
