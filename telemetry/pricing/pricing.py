"""The cost of an exchange by the best source (``span-contract.md`` 1.4, ``seeds.md`` N6).

Rules:

1. A cost that the provider reported wins, then the user's own price, then the catalogue.
2. The first source that knows the model speaks alone: a price of the user that lacks a rate leaves
   the share open, and the catalogue does not fill it.
3. No usage and no reported cost: no cost (R6).
4. The model is the answered one, or else, where that has no price, the one asked for: names of
   deployments are known to the user, names with dates to the catalogue.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from telemetry.pricing.billing import bill, count_billed_tokens
from telemetry.pricing.catalogue import Catalogue
from telemetry.pricing.span_cost import CostSource, SpanCost
from telemetry.provider import infer_provider

if TYPE_CHECKING:
    from codec.cost import Cost
    from telemetry.observing.exchange import Exchange
    from telemetry.pricing.price_table import PriceTable

__all__ = ("MAX_MODEL_CHARS", "Pricing")

MAX_MODEL_CHARS = 1024
"""The longest name of a model that is looked up, for a look takes time and memory by length: 1.2 ms
for a name of this length that is listed nowhere. Clients may ask for any; answered ones are no
longer than this, and listed ones have less than a hundred characters."""


class Pricing:
    """Prices exchanges. For one thread.

    Args:
        table: the user's own prices.
        catalogue: whether to look into genai-prices, where it is installed.
    """

    def __init__(self, table: PriceTable, *, catalogue: bool = True) -> None:
        self._table = table
        self._catalogue = Catalogue() if catalogue else None

    def price(self, exchange: Exchange) -> SpanCost | None:
        """Return the cost of an exchange; ``None`` where no part of it is known. Never raises."""
        response, request = exchange.response, exchange.request
        if response is None:
            return None
        if response.cost is not None:
            return _reported(response.cost)
        if response.usage is None:
            return None
        provider = exchange.provider or infer_provider(exchange.server_address)
        asked = request.model if request else None
        names = (response.model, asked)
        models = [name for name in names if name and len(name) <= MAX_MODEL_CHARS]
        tokens = count_billed_tokens(response.usage, provider)
        for model in models:
            if (price := self._table.find(model, provider)) is not None:
                cost = bill(tokens, price, CostSource.SETTINGS)
                return cost if cost.known else None
        if self._catalogue is None:
            return None
        return self._catalogue.price(tokens, models, exchange)


def _reported(cost: Cost) -> SpanCost:
    """The provider's own cost. A total that is not there is the sum of both shares, if they are."""
    total = cost.total
    if total is None and cost.prompt is not None and cost.completion is not None:
        total = cost.prompt + cost.completion
    return SpanCost(
        source=CostSource.PROVIDER,
        prompt=cost.prompt,
        completion=cost.completion,
        total=total if total is not None and isfinite(total) else None,
    )
