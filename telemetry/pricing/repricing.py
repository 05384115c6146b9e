"""What calls would have cost at another model: the same tokens at its price."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from codec.usage import Usage
from telemetry.errors import ConfigurationError
from telemetry.pricing.billing import bill
from telemetry.pricing.span_cost import CostSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.pricing.listing import Listing
    from telemetry.pricing.price_table import PriceTable
    from telemetry.pricing.span_cost import SpanCost


@dataclass(frozen=True, slots=True)
class Repricing:
    """A price at which the cost of calls is computed again.

    Attributes:
        name: the model that has the price: ``openai/gpt-5``, or the model of a user's price.
    """

    name: str
    _ask: Callable[[Usage], SpanCost | None]

    def price(self, prompt: int | None, completion: int | None, cached: int | None) -> float | None:
        """Return the dollars for a call's tokens; ``None`` unless both counts are known.

        Writes to a cache and audio have no column, so they cost as much as other tokens.
        """
        if prompt is None or completion is None or (cached or 0) > prompt:
            return None
        cost = self._ask(Usage(prompt=prompt, completion=completion, cache_read=cached))
        return None if cost is None else cost.total


def find_repricing(name: str, table: PriceTable, *, now_ns: int) -> Repricing:
    """Find the price of a model, or of ``PROVIDER/MODEL``: the user's, or else a listed one.

    Args:
        name: the model.
        table: the user's own prices.
        now_ns: when the calls are made, in nanoseconds since the epoch: prices change.

    Raises:
        ConfigurationError: nobody lists it, or several do.
    """
    provider, slash, model = name.partition("/")
    own = table.find(name, None) or (table.find(model, provider) if slash else None)
    if own is not None:
        return Repricing(own.model, partial(bill, rates=own, source=CostSource.SETTINGS))
    listing, at = _find_listing(name), datetime.fromtimestamp(now_ns / 1e9, UTC)
    named = f"{listing.provider.id}/{listing.model.id}"
    return Repricing(named, lambda tokens: listing.price(tokens, None, at))


def _find_listing(name: str) -> Listing:
    """Find a model in the list, which has prices of a model *at a provider*.

    Without a provider it is the model's maker, or the only one that lists it. Nobody guesses among
    several (R6).

    Raises:
        ConfigurationError: nobody lists it, or several do.
    """
    from telemetry.pricing.listing import find_listing, find_makers  # noqa: PLC0415 - large

    provider, slash, model = name.partition("/")
    if slash and (found := find_listing(model, provider, None)) is not None:
        return found
    makers = find_makers(name)
    if not makers:
        raise ConfigurationError(
            f"nobody lists a price of {name!r}; name it PROVIDER/MODEL, or give its price in the"
            " settings"
        )
    if len(makers) > 1:
        named = ", ".join(f"{listing.provider.id}/{name}" for listing in makers[:6])
        raise ConfigurationError(f"several providers list {name!r}: name one of {named}")
    return makers[0]
