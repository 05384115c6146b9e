"""The user's own prices. Each holds for every service tier, speed and place: the user pays that."""

from __future__ import annotations

from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING

from telemetry.errors import ConfigurationError
from telemetry.pricing.billing import Rates

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codec.charges import Charges

MAX_USD_PER_MILLION = 1_000_000
"""A dollar per token. The dearest models cost 600 per million: a higher rate mistakes the unit. The
limit also keeps amounts within what a float can hold."""

MAX_REMEMBERED_MODELS = 1_024
"""Models whose price is remembered. Clients name the models: they must not fill the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price(Rates):
    """The rates of a model, in US dollars per million tokens.

    Attributes:
        model: a name, or a shell pattern of names (``*``, ``?``, ``[...]``). Letter case does not
            matter.
        provider: the value of ``llm.provider`` that it holds for; ``None`` for all, and for calls
            without one.
        web_search: dollars per thousand searches of the web by the provider's tool.

    Raises:
        ConfigurationError: no model, an empty provider, no rate, or a rate that is not an amount.
    """

    model: str
    provider: str | None = None
    web_search: float | None = None

    def __post_init__(self) -> None:
        if not self.model:
            raise ConfigurationError("a price needs the name of a model, or a pattern")
        if self.provider is not None and not self.provider:
            raise ConfigurationError(
                f"the price of {self.model!r} has an empty provider; leave it out for any"
            )
        rates = {rate.name: getattr(self, rate.name) for rate in fields(Rates)}
        given = {name: rate for name, rate in rates.items() if rate is not None}
        if not given:
            raise ConfigurationError(
                f"the price of {self.model!r} has no rate; give one of {', '.join(rates)}"
            )
        if self.web_search is not None:
            given["web_search"] = self.web_search
        for name, rate in given.items():
            if not 0 <= rate <= MAX_USD_PER_MILLION:  # NaN is neither
                raise ConfigurationError(
                    f"the price of {self.model!r} has {name} = {rate}; a rate is in US dollars per"
                    f" million tokens, or thousand searches, from 0 to {MAX_USD_PER_MILLION}"
                )

    def fee(self, charges: Charges) -> float | None:
        """What the provider's tools cost; ``None`` if that is unknown."""
        if charges.unknown or charges.file_searches:
            return None
        if charges.web_searches and self.web_search is None:
            return None
        return charges.web_searches * (self.web_search or 0.0) / _PER_THOUSAND

    @property
    def is_pattern(self) -> bool:
        """Whether the model is a pattern."""
        return not _WILDCARDS.isdisjoint(self.model)

    def matches(self, model: str, provider: str | None) -> bool:
        """Tell whether the entry is the price of this model at this provider."""
        if self.provider is not None and self.provider.lower() != (provider or "").lower():
            return False
        name, wanted = model.lower(), self.model.lower()
        return fnmatchcase(name, wanted) if self.is_pattern else name == wanted


_WILDCARDS = frozenset("*?[")
_PER_THOUSAND = 1_000


class PriceTable:
    """All prices of the user.

    Args:
        prices: in the user's order; any number.

    Raises:
        ConfigurationError: two prices for the same model and provider.
    """

    def __init__(self, prices: Iterable[Price] = ()) -> None:
        self._prices = sorted(
            prices,
            key=lambda price: (price.is_pattern, -len(price.model), price.provider is None),
        )
        seen: set[tuple[str, str | None]] = set()
        for price in self._prices:
            key = (price.model.lower(), price.provider and price.provider.lower())
            if key in seen:
                raise ConfigurationError(f"there are two prices of {price.model!r}; keep one")
            seen.add(key)
        self._remembered = lru_cache(maxsize=MAX_REMEMBERED_MODELS)(self._look_up)

    def find(self, model: str, provider: str | None) -> Price | None:
        """The price of a model at a provider, a value of ``llm.provider``.

        The most specific one wins: a whole name before a pattern, then a longer pattern before a
        shorter one, then a price for one provider before one for all, then the order given.
        """
        return self._remembered(model, provider)

    def _look_up(self, model: str, provider: str | None) -> Price | None:
        return next((price for price in self._prices if price.matches(model, provider)), None)
