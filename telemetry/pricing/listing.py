"""The list of genai-prices, and the cost of a usage by it. Imported by the catalogue alone, late.

The package's entry point ``calc_price`` remembers every model name that it was asked for, without
a limit, so its providers are asked directly.

Most models have one rate for each kind of token, at any time and for any length. Their sums are
done here, if the package, asked once for the model, gets the same result to the last digit: it
takes ten times as long.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from math import isclose
from typing import TYPE_CHECKING, Final

from genai_prices.data import providers
from genai_prices.types import ModelPrice
from genai_prices.types import Usage as ListedUsage
from msgspec.structs import replace
from openinference.semconv.trace import OpenInferenceLLMProviderValues

from codec.usage import Usage
from telemetry.pricing.billing import bill, find_saved
from telemetry.pricing.listed_rates import (
    are_known,
    are_plain,
    bill_plainly,
    rates_of,
    without_hour,
)
from telemetry.pricing.span_cost import CostGap, CostSource, SpanCost
from telemetry.provider import infer_provider, is_copilot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genai_prices.types import ModelInfo, PriceCalculation, Provider

    from codec.charges import Charges
    from telemetry.pricing.billing import Rates

_IDS: Final = {
    OpenInferenceLLMProviderValues.MISTRALAI.value: "mistral",
    OpenInferenceLLMProviderValues.XAI.value: "x-ai",
    OpenInferenceLLMProviderValues.MOONSHOT.value: "moonshotai",
}
"""The package's ids of the providers that ``llm.provider`` spells in another way."""

_COPILOT: Final = "github-copilot"

_LOOSE_PATTERNS: Final = frozenset({"azure", "modal"})
"""Ids whose pattern of hosts includes hosts of customers: gateways at azure-api.net, apps at
modal.run. Any server may run there."""

_LOOSE_DOMAINS: Final = frozenset({OpenInferenceLLMProviderValues.AWS.value})
"""Values of ``llm.provider`` that hosts of customers get as well: amazonaws.com. The package's
pattern knows which hosts bill tokens."""

_ORDINARY_TIERS: Final = frozenset({None, "default", "standard", "on_demand"})
"""Service tiers at the listed price: no word, and the words of OpenAI, Google and Groq for it."""

_ONE_RATE_FOR_ALL: Final = frozenset({"google"})
"""Ids of providers that have a rate for sound only if it differs from that for text."""

_ORDINARY_SPEEDS: Final = frozenset({None, "standard"})

_PROBE: Final = Usage(
    prompt=1_009,
    cache_read=101,
    cache_write=11,
    cache_write_1h=5,
    completion=10_007,
    reasoning=1_013,
)
"""A usage with a different count for each kind of token."""

MAX_CACHED_PROVIDERS: Final = 256
"""Providers of which it is remembered whether they are listed; hosts are those of the settings."""

_PER_THOUSAND: Final = 1_000
_BATCH: Final = "batch"
"""The service tier of Anthropic's batches, which is a way of processing in the package."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A model at a provider.

    Attributes:
        provider: the one that bills.
        model: its entry, which may be another provider's: Azure's models stand under OpenAI.
    """

    provider: Provider
    model: ModelInfo
    _plain: dict[str | None, tuple[ModelPrice, Rates] | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """By the ordinary tiers that were met, the price at which the sums are done here."""

    def price(
        self, tokens: Usage, tier: str | None, at: datetime, *, speed: str | None = None
    ) -> SpanCost | None:
        """Return the cost of tokens on these terms at a time; ``None`` unless all is known.

        It raises whatever the package raises.
        """
        if tokens.prompt is None or tokens.completion is None:
            return None
        chosen = _choose(tier, speed)
        if not chosen:
            if tier not in self._plain:
                self._plain[tier] = self._find_plain(tier, at)
            if (plain := self._plain[tier]) is not None:
                lacks_rate = self._lacks_rate(tokens, plain[0])
                return None if lacks_rate else bill_plainly(tokens, *plain)
        if not self._has_price(chosen, at):
            return None
        calculation = self._calculate(tokens, chosen or _context(tier), at)
        price = calculation.model_price
        if not are_known(price, tokens) or self._lacks_rate(tokens, price):
            return None
        cost = bill(tokens, rates_of(price, tokens), CostSource.GENAI_PRICES)
        if cost.prompt is None or cost.completion is None:
            return None  # no such rate: the package would bill it at zero
        prompt, completion = float(calculation.input_price), float(calculation.output_price)
        if not (isclose(cost.prompt, prompt) and isclose(cost.completion, completion)):
            saved = find_saved(tokens, rates_of(price, tokens))
            cost = SpanCost(source=CostSource.GENAI_PRICES, saved=saved)  # without details
        total = float(calculation.total_price)
        return replace(cost, prompt=prompt, completion=completion, total=total)

    def find_gap(
        self, tokens: Usage, tier: str | None, at: datetime, *, speed: str | None = None
    ) -> CostGap:
        """Find why :meth:`price` has no cost on these terms at a time."""
        if tokens.prompt is None or tokens.completion is None:
            return CostGap.NO_USAGE
        if not self._has_price(_choose(tier, speed), at):
            return CostGap.UNPRICED_TERMS
        return CostGap.UNPRICED_TOKENS

    def _find_plain(self, tier: str | None, at: datetime) -> tuple[ModelPrice, Rates] | None:
        """The price of a tier, if it is one for any time and length, and the package agrees."""
        variants = self.model.price_variants or ()
        if not isinstance(self.model.prices, ModelPrice) or any(
            variant.constraint is not None and tier and variant.when.get("service_tier") == tier
            for variant in variants
        ):
            return None
        try:
            theirs = self._calculate(_PROBE, _context(tier), at)
            price = theirs.model_price
            if not are_plain(price):
                return None
            probe, rates = without_hour(_PROBE, price), rates_of(price, _PROBE)
            ours = bill_plainly(probe, price, rates)
        except Exception:  # noqa: BLE001 - the package is asked again with the usage itself
            return None
        shares = (theirs.input_price, theirs.output_price, theirs.total_price)
        agrees = (ours.prompt, ours.completion, ours.total) == tuple(map(float, shares))
        return (price, rates) if agrees else None

    def fee(self, charges: Charges, at: datetime) -> float | None:
        """Return what the provider's tools cost; ``None`` unless all of it is known."""
        if charges.unknown:
            return None
        if not (charges.web_searches or charges.file_searches):
            return 0.0
        price, fee = self.model.get_prices(at), 0.0
        for count, listed in (
            (charges.web_searches, price.web_searches_kcount),
            (charges.file_searches, price.storage_searches_kcount),
        ):
            if count and not isinstance(listed, Decimal):
                return None
            fee += count * float(listed) / _PER_THOUSAND if isinstance(listed, Decimal) else 0.0
        return fee

    def _has_price(self, chosen: dict[str, str], at: datetime) -> bool:
        """Tell whether there is a price on these special terms at that time."""
        if not chosen:
            return True
        if not any(self.model is model for model in self.provider.models):
            return False  # the package leaves tiers out if the entry is another provider's
        return any(
            variant.when == chosen and (variant.constraint is None or variant.constraint.active(at))
            for variant in self.model.price_variants or ()
        )

    def _lacks_rate(self, tokens: Usage, price: ModelPrice) -> bool:
        """Tell whether there are tokens of a kind that costs more than others and has no rate."""
        if tokens.cache_write_1h and price.cache_write_1h_mtok is None:
            return True
        if self.provider.id in _ONE_RATE_FOR_ALL:
            return False
        is_heard = bool(tokens.prompt_audio) and price.input_audio_mtok is None
        return is_heard or (bool(tokens.completion_audio) and price.output_audio_mtok is None)

    def _calculate(self, tokens: Usage, context: dict[str, str], at: datetime) -> PriceCalculation:
        tokens = without_hour(tokens, self.model.get_prices(at))
        return self.model.calc_price(
            ListedUsage(
                input_tokens=tokens.prompt,
                cache_read_tokens=tokens.cache_read,
                cache_write_tokens=tokens.cache_write,
                cache_write_1h_tokens=tokens.cache_write_1h,
                input_audio_tokens=tokens.prompt_audio,
                cache_audio_read_tokens=tokens.cache_read_audio,
                output_tokens=tokens.completion,
                output_reasoning_tokens=tokens.reasoning,
                output_audio_tokens=tokens.completion_audio,
            ),
            self.provider,
            genai_request_timestamp=at,
            price_context=context or None,
        )


def _choose(tier: str | None, speed: str | None) -> dict[str, str]:
    """The special terms, in the package's words."""
    chosen = {} if tier in _ORDINARY_TIERS else {"service_tier": str(tier)}
    if tier == _BATCH:
        chosen = {"processing": _BATCH}
    return chosen if speed in _ORDINARY_SPEEDS else {**chosen, "speed": str(speed)}


def _context(tier: str | None) -> dict[str, str]:
    return {"service_tier": tier} if tier else {}


def find_listing(model: str, provider: str | None, host: str | None) -> Listing | None:
    """Look a model up; ``None`` if the provider is unknown, or does not list it.

    Args:
        model: its name at the provider.
        provider: the one that the settings name: a value of ``llm.provider``, or an id of the
            package; ``None`` to find it by the host.
        host: of the upstream.
    """
    found = _find_named(provider) if provider else _find_at(host)
    listed = found and found.find_model(model, all_providers=providers)
    return Listing(found, listed) if found and listed else None


@lru_cache(maxsize=MAX_CACHED_PROVIDERS)
def is_listed(provider: str | None, host: str | None) -> bool:
    """Tell whether the list has a provider: the one that the settings name, or that of a host."""
    found = _find_named(provider) if provider else _find_at(host)
    return found is not None


def find_newest_day() -> date | None:
    """Find the newest day on which one of the listed prices began.

    The package does not say when its list was made. Prices that begin later are announced ones.
    """
    today = datetime.now(UTC).date()
    return max((day for day in _list_days() if day <= today), default=None)


def _list_days() -> Iterator[date]:
    for provider in providers:
        for model in provider.models:
            prices = [] if isinstance(model.prices, ModelPrice) else model.prices
            for one in (*prices, *(model.price_variants or ())):
                day = getattr(one.constraint, "start_date", None)
                if isinstance(day, date):
                    yield day


def find_makers(model: str) -> list[Listing]:
    """Find the providers that list a model: only its maker, if the package knows it."""
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
    if is_copilot(host):  # plans have hosts, too, which the package does not know
        return _find_named(_COPILOT)
    inferred = infer_provider(host)
    return _find_named(inferred) if inferred and inferred not in _LOOSE_DOMAINS else None
