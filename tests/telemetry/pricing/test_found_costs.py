"""Why a cost is unknown, what it means where a subscription pays, and how old its prices are."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from msgspec.structs import fields

from codec.cost import Cost
from codec.usage import Usage
from telemetry.facts import COST_BASES, COST_GAPS
from telemetry.pricing import listing
from telemetry.pricing.catalogue import find_list_date
from telemetry.pricing.price_table import Price, PriceTable
from telemetry.pricing.pricing import Pricing
from telemetry.pricing.span_cost import CostBasis, CostGap, CostSource, FoundCost, SpanCost
from telemetry.spans.rules import SpanRules
from tests.telemetry.columns import columns_of
from tests.telemetry.exchanges import build_exchange_attributes, make_exchange, make_response

USAGE = Usage(prompt=1000, completion=200, cache_read=400)
NOW_NS = 1_793_880_000_000_000_000  # November 2026
MINI = "gpt-4o-mini"


def find(
    *prices: Price,
    model: str = MINI,
    asked: dict[str, Any] | None = None,
    answer: dict[str, Any] | None = None,
    **members: Any,
) -> FoundCost:
    """What is known of the cost of a call at OpenAI."""
    found = Pricing(PriceTable(prices)).find(
        make_exchange(
            {"model": model, **(asked or {})},
            **{
                "start_ns": NOW_NS,
                "server_address": "api.openai.com",
                "response": make_response(**{"model": model, "usage": USAGE, **(answer or {})}),
                **members,
            },
        )
    )
    assert isinstance(found, FoundCost)
    return found


def test_the_words_are_those_of_the_facts() -> None:
    """They are written out there, so that a list of calls imports no prices."""
    assert tuple(CostGap) == COST_GAPS
    assert tuple(CostBasis) == COST_BASES


@pytest.mark.parametrize(
    ("members", "gap"),
    [
        ({}, None),
        ({"server_address": "vllm.internal"}, CostGap.UNKNOWN_PROVIDER),
        ({"model": "of-our-own"}, CostGap.UNKNOWN_MODEL),
        ({"model": "of-our-own", "provider": "openai"}, CostGap.UNKNOWN_MODEL),
        ({"provider": "nobody"}, CostGap.UNKNOWN_PROVIDER),
        ({"answer": {"service_tier": "of-a-dream"}}, CostGap.UNPRICED_TERMS),
        ({"asked": {"service_tier": "flex"}}, CostGap.UNPRICED_TERMS),
        ({"asked": {"web_search_options": {}}}, CostGap.UNPRICED_TOOL),
        ({"answer": {"usage": Usage(prompt=1, completion=1, prompt_audio=1)}}, "unpriced_tokens"),
        ({"answer": {"usage": Usage(prompt=1, completion=1, total=9)}}, CostGap.NO_USAGE),
        ({"answer": {"usage": None}}, CostGap.NO_USAGE),
    ],
)
def test_why_the_list_has_no_cost(members: dict[str, Any], gap: CostGap | None) -> None:
    """There is a cost, or a reason, and never both."""
    found = find(**members)
    assert found.gap == gap
    assert (found.cost is None) == (gap is not None)


@pytest.mark.parametrize(
    ("price", "members", "gap"),
    [
        (Price(model="*", input=1, output=1), {}, None),
        (Price(model="*", input=1), {}, CostGap.UNPRICED_TOKENS),
        (
            Price(model="*", input=1, output=1),
            {"asked": {"web_search_options": {}}},
            CostGap.UNPRICED_TOOL,
        ),
        (
            Price(model="*", input=1, output=1),
            {"answer": {"usage": Usage(prompt=5)}},
            CostGap.NO_USAGE,
        ),
    ],
)
def test_why_the_users_price_gives_no_whole_cost(
    price: Price, members: dict[str, Any], gap: CostGap | None
) -> None:
    """A part of it may be known."""
    found = find(price, **members)
    assert found.gap == gap
    assert found.cost is not None
    assert (found.cost.total is None) == (gap is not None)


def test_a_call_that_is_not_billed_by_tokens_lacks_nothing() -> None:
    """One that failed, one without an answer, and a reported cost."""
    nothing = FoundCost(None, None)
    assert find(response=None) == nothing
    assert find(answer={"usage": None}, response_status=429) == nothing
    assert find(answer={"cost": Cost(total=0.5), "usage": None}).gap is None
    assert find(answer={"usage": None}, endpoint="moderations") == nothing


def test_where_a_subscription_pays_the_cost_is_a_list_price() -> None:
    """Not what the provider reports, and not the user's own price."""
    listed = find(is_subscription=True).cost
    assert listed is not None
    assert (listed.source, listed.basis) == (CostSource.GENAI_PRICES, CostBasis.LIST)
    ordinary = find().cost
    assert ordinary is not None
    assert (ordinary.basis, ordinary.total) == (None, listed.total)
    for other in (
        find(Price(model="*", input=1, output=1), is_subscription=True),
        find(answer={"cost": Cost(total=0.5)}, is_subscription=True),
    ):
        assert other.cost is not None
        assert other.cost.basis is None


@pytest.mark.parametrize(
    ("host", "model", "other"),
    [
        ("chatgpt.com", MINI, "api.openai.com"),
        ("api.individual.githubcopilot.com", "gpt-5-mini", "api.githubcopilot.com"),
    ],
)
def test_a_login_has_the_listed_prices(host: str, model: str, other: str) -> None:
    """ChatGPT's are those of OpenAI; all plans of Copilot have those of Copilot."""
    sold, listed = find(server_address=host, model=model), find(server_address=other, model=model)
    assert listed.cost is not None
    assert sold.cost == listed.cost
    unknown = find(server_address=host, model="of-our-own")
    assert unknown.gap == CostGap.UNKNOWN_MODEL


def test_the_list_has_the_day_of_its_newest_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """Announced prices do not count."""
    found = find_list_date()
    assert found is not None
    assert date(2026, 1, 1) <= date.fromisoformat(found) <= datetime.now(UTC).date()
    cost = find().cost
    assert cost is not None
    assert cost.list_date == found
    own = find(Price(model="*", input=1, output=1)).cost
    assert own is not None
    assert own.list_date is None
    monkeypatch.setattr(listing, "_list_days", lambda: iter([date(2999, 1, 1)]))
    assert find_list_date() is None
    monkeypatch.setattr(listing, "_list_days", lambda: 1 / 0)
    assert find_list_date() is None, "some other version of the package"


def test_all_of_it_reaches_the_span_and_the_columns() -> None:
    """The saving, the reason and the meaning as columns; source, meaning and day as metadata."""
    rules = SpanRules(pricing=Pricing(PriceTable(())))
    exchange = make_exchange(
        {"model": MINI},
        start_ns=NOW_NS,
        server_address="api.openai.com",
        is_subscription=True,
        response=make_response(model=MINI, usage=USAGE),
    )
    columns = columns_of(exchange, rules)
    assert (columns.saved_usd, columns.cost_basis, columns.cost_gap) == (None, "list", None)
    metadata = str(build_exchange_attributes(exchange, rules)["metadata"])
    for member in ("genai-prices", '"cost_basis":"list"', f'"cost_list_date":"{find_list_date()}"'):
        assert member in metadata.replace(": ", ":")
    unknown = make_exchange({"model": "of-our-own"}, response=make_response(usage=USAGE))
    assert columns_of(unknown, rules).cost_gap == "unknown_provider"
    assert columns_of(unknown, SpanRules()).cost_gap is None, "no costs are wanted"
    assert {field.name for field in fields(SpanCost)} >= {"saved", "basis", "list_date"}
