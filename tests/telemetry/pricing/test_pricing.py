"""Which source tells what an exchange cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from codec.cost import Cost
from codec.usage import Usage, decode_usage
from telemetry.pricing.price_table import Price, PriceTable
from telemetry.pricing.pricing import MAX_MODEL_CHARS, Pricing
from telemetry.pricing.span_cost import CostSource, SpanCost
from tests.telemetry.exchanges import make_exchange, make_response

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange

USAGE = Usage(prompt=1000, completion=200, cache_read=400)
NOW_NS = 1_793_880_000_000_000_000  # November 2026
MINI = "gpt-4o-mini-2024-07-18"


def exchange(
    asked: str = "gpt-4o-mini", *, at: str | None = "openai", host: str | None = None, **answer: Any
) -> Exchange:
    """An answered exchange at OpenAI."""
    return make_exchange(
        {"model": asked},
        start_ns=NOW_NS,
        provider=at,
        server_address=host,
        response=make_response(**{"model": MINI, "usage": USAGE, **answer}),
    )


def pricing(*prices: Price, catalogue: bool = True) -> Pricing:
    return Pricing(PriceTable(prices), catalogue=catalogue)


def test_the_provider_wins_then_the_settings_then_the_catalogue() -> None:
    """The first of them that knows the cost decides."""
    own = Price(model="gpt-4o-mini*", input=1, output=2)
    reported = pricing(own).price(exchange(cost=Cost(total=0.5)))
    assert reported == SpanCost(source=CostSource.PROVIDER, total=0.5)
    from_settings = pricing(own).price(exchange())
    assert from_settings is not None
    assert (from_settings.source, from_settings.total) == (CostSource.SETTINGS, 0.0014)
    listed = pricing().price(exchange())
    assert listed is not None
    assert (listed.source, listed.total) == (CostSource.GENAI_PRICES, 0.00024)
    assert pricing(catalogue=False).price(exchange()) is None


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        (Cost(total=0.0), (None, None, 0.0)),
        (Cost(total=5.0, prompt=1.0, completion=2.0), (1.0, 2.0, 5.0)),
        (Cost(prompt=1.0, completion=2.0), (1.0, 2.0, 3.0)),
        (Cost(prompt=0.0, completion=0.0), (0.0, 0.0, 0.0)),
        (Cost(prompt=1.0), (1.0, None, None)),
        (Cost(completion=2.0), (None, 2.0, None)),
        (Cost(prompt=1e308, completion=1e308), (1e308, 1e308, None)),
    ],
)
def test_a_reported_cost_stands_as_it_is(
    cost: Cost, expected: tuple[float | None, float | None, float | None]
) -> None:
    """Also without usage; a total is made of both shares only, and zero is one."""
    told = pricing().price(exchange(cost=cost, usage=None))
    assert told is not None
    assert (told.prompt, told.completion, told.total) == expected
    assert told.source is CostSource.PROVIDER


def test_without_usage_or_answer_there_is_no_cost() -> None:
    """An error answer has none, nor has a usage without counts."""
    priced = pricing(Price(model="*", input=1, output=1))
    assert priced.price(make_exchange(response_status=400)) is None
    assert priced.price(exchange(usage=None)) is None
    assert priced.price(exchange(usage=Usage())) is None


def test_the_answered_model_counts_before_the_asked_one() -> None:
    """In the table and in the catalogue."""
    answered, asked = Price(model=MINI, input=1), Price(model="gpt-4o-mini", input=2)
    for prices, prompt in (((answered, asked), 0.001), ((asked,), 0.002)):
        cost = pricing(*prices).price(exchange())
        assert cost is not None
        assert cost.prompt == prompt
    by_asked = pricing().price(exchange(model="deployment-7"))
    by_answered = pricing().price(exchange("deployment-7"))
    assert by_asked == by_answered == pricing().price(exchange())
    assert by_asked is not None
    assert pricing().price(exchange("deployment-7", model="deployment-7")) is None


def test_without_a_request_or_a_model_the_other_name_counts() -> None:
    """A request that could not be decoded, an answer that names none."""
    response = make_response(model=MINI, usage=USAGE)
    unread = make_exchange(provider="openai", response=response)
    unread = replace(unread, request=None)
    cost = pricing().price(exchange())
    assert cost is not None
    assert pricing().price(unread) == cost
    assert pricing().price(exchange(model=None)) == cost
    assert pricing(Price(model="*", input=1)).price(exchange("", model=None)) is None


def test_a_price_that_lacks_a_rate_leaves_the_share_open() -> None:
    """The catalogue, which knows the model, does not fill it."""
    cost = pricing(Price(model=MINI, input=1)).price(exchange())
    assert cost is not None
    assert (cost.prompt, cost.completion, cost.total) == (0.001, None, None)
    assert pricing(Price(model=MINI, cache_write=1)).price(exchange()) is None


def test_the_users_price_may_be_for_a_provider() -> None:
    """Named in the settings, or told from the host, as in ``llm.provider``."""
    priced = pricing(Price(model="*", provider="xai", input=1, output=1), catalogue=False)
    assert priced.price(exchange(at="xai")) is not None
    assert priced.price(exchange(at=None, host="api.x.ai")) is not None
    assert priced.price(exchange(at=None, host="localhost")) is None


def test_a_server_of_somebodys_own_is_billed_by_the_settings_alone() -> None:
    """R6: a vLLM that calls its model gpt-4o."""
    local = exchange(at=None, host="127.0.0.1")
    assert pricing().price(local) is None
    assert pricing(Price(model="gpt-*", input=0, output=0)).price(local) == SpanCost(
        source=CostSource.SETTINGS,
        prompt=0.0,
        completion=0.0,
        total=0.0,
        input=0.0,
        cache_read=0.0,
        output=0.0,
        saved=0.0,
    )


def test_reasoning_beside_the_completion_is_billed() -> None:
    """xAI: by the table and by the catalogue."""
    usage = decode_usage(
        {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 19,
            "completion_tokens_details": {"reasoning_tokens": 4},
        }
    )
    told = exchange(at="xai", model="grok-4", usage=usage)
    for priced in (pricing(), pricing(Price(model="grok-*", input=3, output=15))):
        cost = priced.price(told)
        assert cost is not None
        assert cost.total == pytest.approx(10 * 3e-6 + 9 * 15e-6)
        assert cost.reasoning == pytest.approx(4 * 15e-6)


def test_the_service_tier_is_the_answered_one() -> None:
    """What the catalogue knows of it: flex costs less, and no price is made up for another."""
    ordinary, flex, unknown = (
        pricing().price(exchange(model="gpt-5", service_tier=tier))
        for tier in ("default", "flex", "provisioned")
    )
    assert ordinary is not None
    assert flex is not None
    assert (flex.total or 0) < (ordinary.total or 0)
    assert unknown is None
    own = pricing(Price(model="gpt-5", input=1, output=1))
    assert own.price(exchange(model="gpt-5", service_tier="provisioned")) is not None


def test_names_beyond_the_limit_are_not_looked_up() -> None:
    """A client may ask for a model of a megabyte; the answered name still counts."""
    priced = pricing(Price(model="*", input=1), catalogue=False)
    assert priced.price(exchange("x" * MAX_MODEL_CHARS, model=None)) is not None
    assert priced.price(exchange("x" * (MAX_MODEL_CHARS + 1), model=None)) is None
    assert priced.price(exchange("x" * (MAX_MODEL_CHARS + 1))) is not None


COUNTS = {*Usage.__struct_fields__} - {"raw", "anomalies"}
counts = st.none() | st.integers(0, 2**63 - 1)
amounts = st.none() | st.floats(0, allow_infinity=False)


@given(
    model=st.none() | st.sampled_from([MINI, "grok-4", "gemini-2.5-flash"]) | st.text(),
    usage=st.none()
    | st.builds(Usage, **{kind: counts for kind in Usage.__struct_fields__ if kind in COUNTS}),
    cost=st.none() | st.builds(Cost, total=amounts, prompt=amounts, completion=amounts),
    at=st.none() | st.sampled_from(["openai", "xai", "google"]) | st.text(),
    tier=st.none() | st.sampled_from(["default", "flex"]) | st.text(),
)
def test_nothing_raises_and_every_amount_is_finite(
    model: str | None, usage: Usage | None, cost: Cost | None, at: str | None, tier: str | None
) -> None:
    """Whatever was answered."""
    answered = exchange(at=at, model=model, usage=usage, cost=cost, service_tier=tier)
    for priced in (PRICED, pricing(Price(model="g*", input=1, reasoning=9), catalogue=False)):
        told = priced.price(answered)
        if told is not None:
            names = [name for name in SpanCost.__struct_fields__ if name != "source"]
            values = [getattr(told, name) for name in names]
            assert all(value is None or 0 <= value < float("inf") for value in values)


PRICED = pricing()
