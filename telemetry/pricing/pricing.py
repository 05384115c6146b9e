"""The cost of an exchange by the best source (``docs/contract/spans.md#cost``).

A cost that the provider reported wins, then the user's own price, then the catalogue. The first
source that knows the model decides alone: a price of the user that lacks a rate leaves the share
open, and the catalogue does not fill it. A part never counts as the whole: the total includes an
advisor's steps and searches, or there is no total. Without a usage and a reported cost there is no
cost (R6).

Where a subscription pays, a computed cost is the list price, and says so.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from codec.apis.api import SpanKind
from codec.charges import Step
from telemetry.pricing.billing import bill, count_billed_tokens, sum_up
from telemetry.pricing.catalogue import Catalogue
from telemetry.pricing.span_cost import (
    NOTHING_FOUND,
    CostBasis,
    CostGap,
    CostSource,
    FoundCost,
    SpanCost,
)
from telemetry.pricing.terms import find_charges
from telemetry.provider import infer_provider

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.charges import Charges
    from codec.cost import Cost
    from telemetry.observing.exchange import Exchange
    from telemetry.pricing.price_table import Price, PriceTable

MAX_MODEL_CHARS = 1024
"""The longest name of a model that is looked up. Time and memory of a look-up grow with the length:
1.2 ms for a name of this length that is listed nowhere. Clients may ask for any name; answered ones
are no longer than this, and listed ones have less than a hundred characters."""


_OWN = CostSource.SETTINGS

_BILLED_BY_TOKENS: Final = frozenset({SpanKind.LLM, SpanKind.EMBEDDING, SpanKind.RERANKER})
"""Kinds of calls of which it is worth saying that tokens are missing. Speech and pictures are often
billed by other units, and moderations cost nothing."""

_FIRST_ERROR: Final = 400


class Pricing:
    """Prices exchanges. For one thread.

    Args:
        table: the user's own prices.
        catalogue: whether to look into genai-prices.
    """

    def __init__(self, table: PriceTable, *, catalogue: bool = True) -> None:
        self._table = table
        self._catalogue = Catalogue() if catalogue else None

    def price(self, exchange: Exchange) -> SpanCost | None:
        """Return the cost of an exchange; ``None`` if no part of it is known. Never raises."""
        return self.find(exchange).cost

    def find(self, exchange: Exchange) -> FoundCost:
        """Find the cost of an exchange, and why it is unknown. Never raises.

        The model is the answered one or, if that has no price, the one asked for: the user knows
        the names of deployments, and the catalogue those with dates.
        """
        response, request = exchange.response, exchange.request
        if response is None:
            return NOTHING_FOUND
        if response.cost is not None:
            cost = _reported(response.cost)
            return FoundCost(cost) if cost.known else NOTHING_FOUND
        if response.usage is None:
            is_lack = (
                exchange.api.span_kind in _BILLED_BY_TOKENS
                and (exchange.response_status or 0) < _FIRST_ERROR
            )
            return FoundCost(gap=CostGap.NO_USAGE) if is_lack else NOTHING_FOUND
        provider = exchange.provider or infer_provider(exchange.server_address)
        asked = request.model if request else None
        names = (response.model, asked)
        models = [name for name in names if name and len(name) <= MAX_MODEL_CHARS]
        charges = find_charges(exchange)
        found = charges.steps or (Step(None, response.usage),)
        steps = [Step(step.model, count_billed_tokens(step.tokens, provider)) for step in found]
        for model in models:
            if (price := self._table.find(model, provider)) is not None:
                return self._bill(steps, price, provider, charges)
        if self._catalogue is None:
            return NOTHING_FOUND
        listed = self._catalogue.find(steps, models, exchange, charges)
        if listed.cost is not None and exchange.is_subscription:
            return FoundCost(replace(listed.cost, basis=CostBasis.LIST))
        return listed

    def _bill(
        self, steps: Sequence[Step], price: Price, provider: str | None, charges: Charges
    ) -> FoundCost:
        """Bill steps at the user's own prices, each at its model's."""
        costs = [bill(step.tokens, price, _OWN) for step in steps if step.model is None]
        fee, others = price.fee(charges), [step for step in steps if step.model is not None]
        beside, gap = [fee], None
        for step in others:
            other = self._table.find(step.model or "", provider)
            beside.append(None if other is None else bill(step.tokens, other, _OWN).total)
            if other is None:
                gap = CostGap.UNKNOWN_MODEL
        cost = sum_up(costs, beside)
        if cost.total is None:
            gap = gap or (CostGap.UNPRICED_TOOL if fee is None else _find_lack(steps))
        return FoundCost(cost if cost.known else None, gap)


def _find_lack(steps: Sequence[Step]) -> CostGap:
    """Tell whether tokens lack a count or a price."""
    is_counted = all(None not in {step.tokens.prompt, step.tokens.completion} for step in steps)
    return CostGap.UNPRICED_TOKENS if is_counted else CostGap.NO_USAGE


def _reported(cost: Cost) -> SpanCost:
    """The cost that the provider reported. A missing total is the sum of both shares."""
    total = cost.total
    if total is None and cost.prompt is not None and cost.completion is not None:
        total = cost.prompt + cost.completion
    return SpanCost(
        source=CostSource.PROVIDER,
        prompt=cost.prompt,
        completion=cost.completion,
        total=total if total is not None and isfinite(total) else None,
    )
