"""The user's own prices."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.charges import Charges
from telemetry.errors import ConfigurationError
from telemetry.pricing.price_table import MAX_USD_PER_MILLION, Price, PriceTable

BY_RANK = [
    Price(model="gpt-4o-mini", provider="azure", input=1),
    Price(model="GPT-4o-mini", input=2),
    Price(model="gpt-4o-*", provider="azure", input=3),
    Price(model="gpt-4o-*", input=4),
    Price(model="gpt-*", provider="azure", input=5),
    Price(model="gpt-*", input=6),
    Price(model="*", provider="azure", input=7),
    Price(model="*", input=8),
]


@pytest.mark.parametrize("first", range(len(BY_RANK)))
def test_the_most_specific_price_wins(first: int) -> None:
    """In any order of the settings: each wins over all after it."""
    for ranks in itertools.islice(itertools.permutations(BY_RANK[first:]), 0, None, 97):
        assert PriceTable(ranks).find("gpt-4o-mini", "azure") is BY_RANK[first]


def test_of_equally_specific_patterns_the_first_wins() -> None:
    """The order of the settings decides."""
    a, b = Price(model="gpt-?o", input=1), Price(model="gpt-4?", input=2)
    assert PriceTable([a, b]).find("gpt-4o", None) is a
    assert PriceTable([b, a]).find("gpt-4o", None) is b


@pytest.mark.parametrize(
    ("pattern", "provider", "model", "at", "found"),
    [
        ("GPT-4o", None, "gpt-4O", None, True),
        ("gpt-4o", None, "gpt-4o-mini", None, False),
        ("gpt-4?", None, "gpt-4o", "openai", True),
        ("gpt-[34]*", None, "gpt-4o", None, True),
        ("gpt-[!34]*", None, "gpt-4o", None, False),
        ("Qwen/*", None, "qwen/qwen3-8b", None, True),
        ("gpt-4o", "openai", "gpt-4o", None, False),
        ("gpt-4o", "OpenAI", "gpt-4o", "openai", True),
        ("gpt-4o", "openai", "gpt-4o", "azure", False),
        ("a.c", None, "abc", None, False),
        ("*", None, "\udcff\n", None, True),
    ],
)
def test_a_price_matches_names_and_patterns_in_any_letter_case(
    pattern: str, provider: str | None, model: str, at: str | None, found: bool
) -> None:
    """Shell patterns over the whole name, and the provider where it has one."""
    price = Price(model=pattern, provider=provider, input=1)
    assert PriceTable([price]).find(model, at) is (price if found else None)


def test_an_empty_table_finds_nothing() -> None:
    """No prices are no mistake."""
    assert PriceTable().find("gpt-4o", "openai") is None


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"model": "", "input": 1}, "name of a model"),
        ({"model": "m", "provider": "", "input": 1}, "empty provider"),
        ({"model": "m"}, "'m' has no rate"),
        ({"model": "m", "input": -1}, "input = -1"),
        ({"model": "m", "output": math.nan}, "output = nan"),
        ({"model": "m", "cache_read": math.inf}, "cache_read = inf"),
        ({"model": "m", "reasoning": MAX_USD_PER_MILLION + 1}, "reasoning = 1000001"),
        ({"model": "m", "input_audio": 10**400}, "input_audio = 1"),
    ],
)
def test_a_price_that_is_none_is_refused(members: dict[str, Any], words: str) -> None:
    """A configuration mistake, named when it is made."""
    with pytest.raises(ConfigurationError, match=words):
        Price(**members)


def test_free_and_dear_prices_are_taken() -> None:
    """The ends of what a rate may be."""
    assert Price(model="m", input=0).input == 0
    assert Price(model="m", output=MAX_USD_PER_MILLION).output == MAX_USD_PER_MILLION


def test_two_prices_of_one_model_are_refused() -> None:
    """Of the same provider, letter case aside; those of different providers are two prices."""
    with pytest.raises(ConfigurationError, match="two prices of 'gpt-4O'"):
        PriceTable([Price(model="gpt-4o", input=1), Price(model="gpt-4O", input=2)])
    with pytest.raises(ConfigurationError, match="two prices"):
        PriceTable(
            [
                Price(model="m", provider="Azure", input=1),
                Price(model="m", provider="azure", input=1),
            ]
        )
    PriceTable([Price(model="m", provider="azure", input=1), Price(model="m", input=1)])


@given(st.text(alphabet="ab*?[]!-\\", min_size=1), st.text(alphabet="ab*?[]!-\\"))
def test_any_text_is_a_pattern_and_any_name_is_looked_up(pattern: str, name: str) -> None:
    """Nothing raises, and a name without wildcards finds itself."""
    table = PriceTable([Price(model=pattern, input=1)])
    table.find(name, None)
    if not set(pattern) & set("*?["):
        assert table.find(pattern, None) is not None


def test_a_price_of_searches_is_a_rate_like_others() -> None:
    """Bounded alike; without one, searches leave the cost open."""
    price = Price(model="m", input=1, web_search=10)
    assert price.fee(Charges()) == 0.0
    assert price.fee(Charges(web_searches=3)) == 0.03
    assert Price(model="m", input=1).fee(Charges(web_searches=1)) is None
    assert price.fee(Charges(file_searches=1)) is None
    assert price.fee(Charges(unknown=("x",))) is None
    with pytest.raises(ConfigurationError, match="web_search = -1"):
        Price(model="m", input=1, web_search=-1)
