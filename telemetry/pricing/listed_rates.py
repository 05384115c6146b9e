"""The rates of a listed price, and sums at a price whose rates are plain. Imported late.

The sums equal those of the package to the last digit, because they are done in Decimals.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from genai_prices.types import TieredPrices
from msgspec.structs import replace

from telemetry.pricing.billing import Rates, bill
from telemetry.pricing.span_cost import CostSource, SpanCost

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice

    from codec.usage import Usage

_KNOWN_RATES: Final = frozenset(
    {
        "requests_kcount",
        "web_searches_kcount",
        "storage_searches_kcount",
        "input_mtok",
        "output_mtok",
        "cache_read_mtok",
        "cache_write_mtok",
        "cache_write_5m_mtok",
        "cache_write_1h_mtok",
        "input_audio_mtok",
        "cache_audio_read_mtok",
        "output_audio_mtok",
        "output_reasoning_mtok",
    }
)
"""Rates for kinds that a usage counts, or parts of these, and for requests and searches. Nothing
counts what else is billed, such as hours of sound."""

_IMAGE_RATES: Final = frozenset({"input_image_mtok", "cache_image_read_mtok"})
"""Rates that do not matter without images in the request."""

_PLAIN_RATES: Final = frozenset(
    {
        "input_mtok",
        "output_mtok",
        "cache_read_mtok",
        "cache_write_mtok",
        "cache_write_1h_mtok",
        "output_reasoning_mtok",
    }
)
"""Rates for kinds of token that are each a part of at most one other."""
_PER_MILLION: Final = Decimal(1_000_000)


def are_known(price: ModelPrice, tokens: Usage) -> bool:
    """Tell whether a usage counts everything that a price has a rate for."""
    unknown = _given(price) - _KNOWN_RATES
    return unknown <= _IMAGE_RATES if tokens.prompt_image == 0 else not unknown


def are_plain(price: ModelPrice) -> bool:
    """Tell whether a price has one rate for each kind of token, however many there are."""
    given = _given(price)
    if any(isinstance(getattr(price, key), TieredPrices) for key in given):
        return False
    return given <= _KNOWN_RATES and {key for key in given if key.endswith("_mtok")} <= _PLAIN_RATES


def _given(price: ModelPrice) -> set[str]:
    return {key for key, rate in vars(price).items() if rate is not None}


def rates_of(price: ModelPrice, tokens: Usage) -> Rates:
    """The rates for a prompt of that length."""
    prompt = tokens.prompt or 0

    def rate(listed: Decimal | TieredPrices | None) -> float | None:
        if isinstance(listed, TieredPrices):
            reached = (tier.price for tier in reversed(listed.tiers) if prompt > tier.start)
            listed = next(reached, listed.base)
        return None if listed is None else float(listed)

    return Rates(
        input=rate(price.input_mtok),
        output=rate(price.output_mtok),
        cache_read=rate(price.cache_read_mtok),
        cache_write=rate(price.cache_write_mtok),
        cache_write_1h=rate(price.cache_write_1h_mtok),
        input_audio=rate(price.input_audio_mtok),
        output_audio=rate(price.output_audio_mtok),
        reasoning=rate(price.output_reasoning_mtok),
    )


def without_hour(tokens: Usage, price: ModelPrice) -> Usage:
    """Leave out writes for an hour if they have no rate, as the package wants it."""
    if tokens.cache_write_1h is None or price.cache_write_1h_mtok is not None:
        return tokens
    return replace(tokens, cache_write_1h=None)


def bill_plainly(tokens: Usage, price: ModelPrice, rates: Rates) -> SpanCost:
    """The cost at a price with only :data:`_PLAIN_RATES`, exact to the last digit."""
    written, hour = tokens.cache_write, tokens.cache_write_1h
    prompt = _exact_cost(
        tokens.prompt,
        price.input_mtok,
        (tokens.cache_read, price.cache_read_mtok),
        (written - hour if written and hour else written, price.cache_write_mtok),
        (hour, price.cache_write_1h_mtok),
    )
    completion = _exact_cost(
        tokens.completion, price.output_mtok, (tokens.reasoning, price.output_reasoning_mtok)
    )
    return replace(
        bill(tokens, rates, CostSource.GENAI_PRICES),
        prompt=float(prompt),
        completion=float(completion),
        total=float(prompt + completion),
    )


def _exact_cost(count: Any, rate: Any, *details: tuple[int | None, Any]) -> Decimal:
    """The cost of a count whose details may have separate rates, as Decimals."""
    cost: Decimal = rate * count
    for tokens, own in details:
        if tokens and own is not None:
            cost += (own - rate) * tokens
    return cost / _PER_MILLION
