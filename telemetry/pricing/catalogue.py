"""The prices that the package genai-prices bundles (``docs/contract/spans.md#cost``).

The package takes 13 MB and 0.15 s to import, so it is imported when the first call is to be priced;
a third of both is its HTTP client's. Only its bundled data is used: it is never asked to update
itself, and nothing goes to the network.

A price is one of a model *at a provider*: the one that the settings name, else the one that the
upstream's host belongs to. A server of the user's own that calls its model ``gpt-4o`` bills nothing
(R6), so names are compared whole and hosts to their end.

Shares and total are the package's calculation, its fee for each request included, or the very same
numbers (:mod:`telemetry.pricing.listing`). The package gives no details: they are computed from its
rates, and left out if they do not add up to the shares. Searches and another model's steps are in
the total alone.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from telemetry.pricing.billing import sum_up
from telemetry.pricing.span_cost import NOTHING_FOUND, CostGap, FoundCost
from telemetry.pricing.terms import find_terms
from telemetry.rate_limit import RateLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from codec.charges import Charges, Step
    from telemetry.observing.exchange import Exchange
    from telemetry.pricing.listing import Listing
    from telemetry.pricing.span_cost import SpanCost

    Steps = Sequence[Step]
    """The steps of a call; those of the model that answered have no name."""
    _Find = Callable[[str, str | None, str | None], Listing | None]

MAX_CACHED_LOOKUPS = 1024
"""Models for which the result of the look-up is remembered. A look-up takes up to 0.4 ms, and
clients name the models: they must not fill the memory."""

_log = logging.getLogger("spantap.telemetry")


def find_list_date() -> str | None:
    """Find the day of the bundled list, such as ``2026-11-09``: that of its newest price.

    ``None`` if the list cannot be read.
    """
    try:
        from telemetry.pricing.listing import find_newest_day  # noqa: PLC0415 - 13 MB

        newest = find_newest_day()
    except Exception:  # noqa: BLE001 - some other version, perhaps
        return None
    return None if newest is None else newest.isoformat()


class Catalogue:
    """Prices calls by the bundled list. For one thread.

    It never raises. A failure is logged at most once a minute, without content.

    Args:
        now_ns: nanoseconds since some fixed point, for the pace of log lines.
    """

    def __init__(self, *, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._lines = RateLimit(now_ns)

    def find(
        self, steps: Steps, models: Iterable[str], exchange: Exchange, charges: Charges
    ) -> FoundCost:
        """Find the cost of an exchange's steps; why there is none unless all of it is known.

        That takes both counts, a rate for each kind of token and search that was billed, no rate
        for a kind that no usage counts (images, video, citations), terms for which the model has a
        price (:mod:`telemetry.pricing.terms`), and the price of each model that took part. If
        neither request nor answer mentions a term, it is the ordinary one.

        Args:
            steps: with tokens from :func:`telemetry.pricing.billing.count_billed_tokens`.
            models: names of the model; the first that is listed counts.
            exchange: says whose model it is, and when it was asked: prices change, some by the
                hour.
            charges: what else it is billed for.
        """
        if self._find is None:
            return NOTHING_FOUND
        try:
            for model in models:
                found = self._find_model(model, exchange)
                if found is not None:
                    cost = self._price(found, steps, exchange, charges)
                    return FoundCost(gap=cost) if isinstance(cost, CostGap) else FoundCost(cost)
            return FoundCost(gap=self._why_unlisted(exchange))
        except Exception as error:  # noqa: BLE001 - nothing here raises
            self._tell(error)
        return NOTHING_FOUND

    def _price(
        self, found: Listing, steps: Steps, exchange: Exchange, charges: Charges
    ) -> SpanCost | CostGap:
        terms = find_terms(exchange, charges)
        if terms is None:
            return CostGap.UNPRICED_TERMS
        at = datetime.fromtimestamp(exchange.start_ns / 1e9, UTC)
        fee = found.fee(charges, at)
        if fee is None:
            return CostGap.UNPRICED_TOOL
        costs, beside = [], [fee]
        for step in steps:
            its = found if step.model is None else self._find_model(step.model, exchange)
            if its is None:
                return CostGap.UNKNOWN_MODEL
            cost = its.price(step.tokens, terms.tier, at, speed=terms.speed)
            if cost is None or cost.total is None:
                return its.find_gap(step.tokens, terms.tier, at, speed=terms.speed)
            if step.model is None:
                costs.append(cost)
            else:
                beside.append(cost.total)
        return replace(sum_up(costs, beside), list_date=self._list_date)

    def _why_unlisted(self, exchange: Exchange) -> CostGap:
        from telemetry.pricing.listing import is_listed  # noqa: PLC0415 - 13 MB

        is_known = is_listed(exchange.provider, exchange.server_address)
        return CostGap.UNKNOWN_MODEL if is_known else CostGap.UNKNOWN_PROVIDER

    @cached_property
    def _list_date(self) -> str | None:
        return find_list_date()

    def _find_model(self, model: str, exchange: Exchange) -> Listing | None:
        find = self._find
        return None if find is None else find(model, exchange.provider, exchange.server_address)

    @cached_property
    def _find(self) -> _Find | None:
        """The look-up, imported once; ``None`` where that fails."""
        try:
            from telemetry.pricing.listing import find_listing  # noqa: PLC0415 - 13 MB
        except Exception as error:  # noqa: BLE001 - nothing here raises
            self._tell(error)
            return None
        return lru_cache(maxsize=MAX_CACHED_LOOKUPS)(find_listing)

    def _tell(self, error: Exception) -> None:
        untold = self._lines.admit()
        if untold is not None:
            _log.warning(
                "genai-prices failed (%s), %d times since the last such line; no cost is recorded",
                type(error).__name__,
                untold + 1,
            )
