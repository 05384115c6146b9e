"""``telemetry.pricing.repricing``: what tokens would have cost elsewhere."""

from __future__ import annotations

import pytest

from telemetry.errors import ConfigurationError
from telemetry.pricing.price_table import Price, PriceTable
from telemetry.pricing.repricing import find_repricing

NOW_NS = 1_790_000_000_000_000_000

OWN = PriceTable(
    [Price(model="house", input=1.0, output=10.0, cache_read=0.1), Price(model="o/x", input=2.0)]
)


def test_the_users_own_price_wins() -> None:
    """Cached tokens have their rate, and the list is not asked."""
    repricing = find_repricing("house", OWN, now_ns=NOW_NS)
    assert repricing.name == "house"
    assert repricing.price(1_000_000, 0, 500_000) == pytest.approx(0.55)
    assert find_repricing("o/x", OWN, now_ns=NOW_NS).price(1_000_000, 1, None) is None
    gpt = PriceTable([Price(model="gpt-*", provider="openai", input=3.0, output=3.0)])
    assert find_repricing("openai/gpt-5", gpt, now_ns=NOW_NS).price(10**6, 0, 0) == 3.0


def test_a_model_is_its_makers() -> None:
    """OpenAI's model at OpenAI's price, however many providers list it."""
    repricing = find_repricing("gpt-5", PriceTable(), now_ns=NOW_NS)
    assert repricing.name == "openai/gpt-5"
    assert repricing.price(1_000_000, 1_000_000, None) == pytest.approx(11.25)
    named = find_repricing("openai/gpt-5", PriceTable(), now_ns=NOW_NS)
    assert named.price(1_000, 1_000, 10) == repricing.price(1_000, 1_000, 10)


def test_nobody_guesses() -> None:
    """Between providers, or where there is no price."""
    with pytest.raises(ConfigurationError, match="nobody lists a price of 'my-model'"):
        find_repricing("my-model", PriceTable(), now_ns=NOW_NS)
    with pytest.raises(ConfigurationError, match="nobody lists a price of 'openai/none'"):
        find_repricing("openai/none", PriceTable(), now_ns=NOW_NS)


def test_counts_that_are_not_known_have_no_cost() -> None:
    """Nor more cached tokens than there are."""
    repricing = find_repricing("house", OWN, now_ns=NOW_NS)
    assert repricing.price(None, 5, None) is None
    assert repricing.price(5, None, None) is None
    assert repricing.price(5, 5, 6) is None
