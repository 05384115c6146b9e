"""The list of genai-prices, and what it makes of a usage. Imported by the catalogue alone, late.

The package's entry point ``calc_price`` remembers every model name that it was asked for, without
a limit, so its providers are asked themselves.

Most models have one rate for each kind of token, whenever and however much. Their sums are done
here, where the package, asked once for the model, comes to the same to the last digit: it takes ten
times as long.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from decimal import Decimal
from math import isclose
from typing import TYPE_CHECKING, Any, Final

from genai_prices.data import providers
from genai_prices.types import ModelPrice, TieredPrices
from genai_prices.types import Usage as ListedUsage
from openinference.semconv.trace import OpenInferenceLLMProviderValues

from codec.usage import Usage
from telemetry.pricing.billing import Rates, bill
from telemetry.pricing.span_cost import CostSource, SpanCost
from telemetry.provider import infer_provider

if TYPE_CHECKING:
    from datetime import datetime

    from genai_prices.types import ModelInfo, PriceCalculation, Provider

__all__ = ("Listing", "find_listing", "find_makers")

_IDS: Final = {
    OpenInferenceLLMProviderValues.MISTRALAI.value: "mistral",
    OpenInferenceLLMProviderValues.XAI.value: "x-ai",
    OpenInferenceLLMProviderValues.MOONSHOT.value: "moonshotai",
}
"""The package's ids of the providers that ``llm.provider`` spells in another way."""

_LOOSE_PATTERNS: Final = frozenset({"azure", "modal"})
"""Ids whose pattern of hosts takes in hosts of customers: gateways at azure-api.net, apps at
modal.run. What runs there may be anybody's."""

_LOOSE_DOMAINS: Final = frozenset({OpenInferenceLLMProviderValues.AWS.value})
"""Values of ``llm.provider`` that a host of a customer gets as well: amazonaws.com. The package's
pattern knows which ones bill tokens."""

_ORDINARY_TIERS: Final = frozenset({None, "default", "standard", "on_demand"})
"""Service tiers at the listed price: none told, and OpenAI's, Google's and Groq's words for it."""

_KNOWN_RATES: Final = frozenset(
    {
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
"""Rates per token for kinds that a usage counts, or that are parts of these."""

_PLAIN_RATES: Final = frozenset(
    {
        "input_mtok",
        "output_mtok",
        "cache_read_mtok",
        "cache_write_mtok",
        "output_reasoning_mtok",
    }
)
"""Rates of which none is for a kind of token that is a part of two others."""

_PROBE: Final = Usage(
    prompt=1_009, cache_read=101, cache_write=11, completion=10_007, reasoning=1_013
)
"""A usage in which each kind of token counts, and no two alike."""

_PER_MILLION: Final = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Listing:
    """A model at a provider.

    Attributes:
        provider: that bills.
        model: its entry, which may be another provider's: Azure's stand under OpenAI.
    """

    provider: Provider
    model: ModelInfo
    _plain: dict[str | None, tuple[ModelPrice, Rates] | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """By the ordinary tiers that were met, the price at which the sums are done here."""

    def price(self, tokens: Usage, tier: str | None, at: datetime) -> SpanCost | None:
        """Return the cost of tokens at a service tier and a time; ``None`` if not known whole.

        Whatever the package raises comes through.
        """
        if tokens.prompt is None or tokens.completion is None:
            return None
        if tier in _ORDINARY_TIERS:
            if tier not in self._plain:
                self._plain[tier] = self._find_plain(tier, at)
            if (plain := self._plain[tier]) is not None:
                return _bill_plainly(tokens, *plain)
        if not self._knows_tier(tier, at):
            return None
        calculation = self._calculate(tokens, tier, at)
        rates = vars(calculation.model_price).items()
        given = {key for key, rate in rates if rate is not None}
        if any(key.endswith("_mtok") for key in given - _KNOWN_RATES):
            return None
        cost = bill(tokens, _rates_of(calculation.model_price, tokens), CostSource.GENAI_PRICES)
        if cost.prompt is None or cost.completion is None:
            return None  # no such rate, which the package takes for a rate of zero
        prompt, completion = float(calculation.input_price), float(calculation.output_price)
        if not (isclose(cost.prompt, prompt) and isclose(cost.completion, completion)):
            cost = SpanCost(source=CostSource.GENAI_PRICES)  # without details
        total = float(calculation.total_price)
        return replace(cost, prompt=prompt, completion=completion, total=total)

    def _find_plain(self, tier: str | None, at: datetime) -> tuple[ModelPrice, Rates] | None:
        """The price of a tier, if it is one for any time and length, and the package agrees."""
        variants = self.model.price_variants or ()
        if not isinstance(self.model.prices, ModelPrice) or any(
            variant.constraint is not None and tier and variant.when.get("service_tier") == tier
            for variant in variants
        ):
            return None
        try:
            theirs = self._calculate(_PROBE, tier, at)
            price = theirs.model_price
            given = {key: rate for key, rate in vars(price).items() if rate is not None}
            if any(isinstance(rate, TieredPrices) for rate in given.values()) or any(
                key.endswith("_mtok") for key in given.keys() - _PLAIN_RATES
            ):
                return None
            rates = _rates_of(price, _PROBE)
            ours = _bill_plainly(_PROBE, price, rates)
        except Exception:  # noqa: BLE001 - it is asked again for the usage itself
            return None
        shares = (theirs.input_price, theirs.output_price, theirs.total_price)
        agrees = (ours.prompt, ours.completion, ours.total) == tuple(map(float, shares))
        return (price, rates) if agrees else None

    def _knows_tier(self, tier: str | None, at: datetime) -> bool:
        """Tell whether a tier is an ordinary one, or has a price of its own at that time."""
        if tier in _ORDINARY_TIERS:
            return True
        if not any(self.model is model for model in self.provider.models):
            return False  # the package leaves tiers out where the entry is another provider's
        return any(
            variant.when == {"service_tier": tier}
            and (variant.constraint is None or variant.constraint.active(at))
            for variant in self.model.price_variants or ()
        )

    def _calculate(self, tokens: Usage, tier: str | None, at: datetime) -> PriceCalculation:
        return self.model.calc_price(
            ListedUsage(
                input_tokens=tokens.prompt,
                cache_read_tokens=tokens.cache_read,
                cache_write_tokens=tokens.cache_write,
                input_audio_tokens=tokens.prompt_audio,
                output_tokens=tokens.completion,
                output_reasoning_tokens=tokens.reasoning,
                output_audio_tokens=tokens.completion_audio,
            ),
            self.provider,
            genai_request_timestamp=at,
            price_context={"service_tier": tier} if tier else None,
        )


def _bill_plainly(tokens: Usage, price: ModelPrice, rates: Rates) -> SpanCost:
    """The cost at a price that has none but :data:`_PLAIN_RATES`, exact to the last digit."""
    prompt = _exact_cost(
        tokens.prompt,
        price.input_mtok,
        (tokens.cache_read, price.cache_read_mtok),
        (tokens.cache_write, price.cache_write_mtok),
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
    """The cost of a count whose details may have rates of their own, as Decimals."""
    cost: Decimal = rate * count
    for tokens, own in details:
        if tokens and own is not None:
            cost += (own - rate) * tokens
    return cost / _PER_MILLION


def find_listing(model: str, provider: str | None, host: str | None) -> Listing | None:
    """Look a model up; ``None`` where the provider is not known, or does not list it.

    Args:
        model: its name at the provider.
        provider: that the settings name: a value of ``llm.provider``, or an id of the package;
            ``None`` to tell it from the host.
        host: of the upstream.
    """
    found = _find_named(provider) if provider else _find_at(host)
    listed = found and found.find_model(model, all_providers=providers)
    return Listing(found, listed) if found and listed else None


def find_makers(model: str) -> list[Listing]:
    """Find who lists a model: its maker alone, where the package knows whose it is."""
    listed = [
        Listing(provider, found)
        for provider in providers
        if (found := provider.find_model(model)) is not None
    ]
    makers = [
        listing
        for listing in listed
        if (rule := listing.provider.model_match) is not None and rule.is_match(model)
    ]
    return makers[:1] or listed


def _find_named(provider: str) -> Provider | None:
    wanted = _IDS.get(provider.lower(), provider.lower())
    return next((listed for listed in providers if listed.id == wanted), None)


def _find_at(host: str | None) -> Provider | None:
    url = f"https://{(host or '').lower().rstrip('.')}"
    for listed in providers:
        match = re.match(listed.api_pattern, f"{url}/")
        if match and match.end() >= len(url) and listed.id not in _LOOSE_PATTERNS:
            return listed
    inferred = infer_provider(host)
    return _find_named(inferred) if inferred and inferred not in _LOOSE_DOMAINS else None


def _rates_of(price: ModelPrice, tokens: Usage) -> Rates:
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
        input_audio=rate(price.input_audio_mtok),
        output_audio=rate(price.output_audio_mtok),
        reasoning=rate(price.output_reasoning_mtok),
    )
