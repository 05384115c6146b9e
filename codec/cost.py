"""The cost that a provider reports, in US dollars (``docs/contract/sources.md#s4-18``).

Only reported costs are read; nothing is computed here, and an absent cost is not a cost of zero
(R6). A cost is a finite number that is not negative, zero included; a text is not a cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any

from codec.members import object_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("Cost", "decode_cost")

_TICKS_PER_USD = 1e10  # xAI
_MEMBERS = frozenset({"cost_usd", "cost", "cost_in_usd_ticks"})
_PROMPT_SHARES = ("upstream_inference_prompt_cost", "upstream_inference_input_cost")
_COMPLETION_SHARES = ("upstream_inference_completions_cost", "upstream_inference_output_cost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A cost that a provider reported, in US dollars: the total, and the shares of both sides."""

    total: float | None = None
    prompt: float | None = None
    completion: float | None = None


def decode_cost(usage: Mapping[str, Any], body: Mapping[str, Any]) -> Cost | None:
    """Read the cost of an answer; ``None`` if none was reported.

    ``cost_usd`` wins over ``cost``, and a cost with a total wins over one with shares alone.

    Args:
        usage: its usage object: ``cost`` as a number (OpenRouter, Vercel, Avian) or as an object
            (Perplexity), ``cost_usd``, or xAI's ``cost_in_usd_ticks``.
        body: the whole answer: Venice has its ``cost`` beside the usage.
    """
    if _MEMBERS.isdisjoint(usage) and "cost" not in body:
        return None
    if usage.get("is_byok") is True:
        return _add_upstream(usage)
    values = (usage.get("cost_usd"), usage.get("cost"), body.get("cost"))
    costs = [
        _with_shares(cost, usage)
        for value in values
        if value is not None and (cost := _decode(value)) is not None
    ]
    if (ticks := _amount(usage.get("cost_in_usd_ticks"))) is not None:
        costs.append(Cost(total=ticks / _TICKS_PER_USD))
    totals = (cost for cost in costs if cost.total is not None)
    return next(totals, costs[0] if costs else None)


def _decode(value: Any) -> Cost | None:
    if not isinstance(value, dict):
        total = _amount(value)
        return None if total is None else Cost(total=total)
    cost = Cost(
        total=_first(value, "total", "total_cost", "usd"),
        prompt=_first(value, "input", "input_tokens_cost"),
        completion=_first(value, "output", "output_tokens_cost"),
    )
    return cost if cost != Cost() else None


def _with_shares(cost: Cost, usage: Mapping[str, Any]) -> Cost:
    """Add OpenRouter's shares, if they are those of this cost.

    They are what its upstream charges; if the upstream bills somebody else, the cost differs.
    """
    details = usage.get("cost_details")
    if not isinstance(details, dict) or cost.prompt is not None or cost.completion is not None:
        return cost
    if cost.total is None or _amount(details.get("upstream_inference_cost")) != cost.total:
        return cost
    return Cost(
        total=cost.total,
        prompt=_first(details, *_PROMPT_SHARES),
        completion=_first(details, *_COMPLETION_SHARES),
    )


def _add_upstream(usage: Mapping[str, Any]) -> Cost:
    """Add what the upstream bills to OpenRouter's fee.

    With the caller's own key the reported ``cost`` is only OpenRouter's fee. The sum is not known
    if one of them is missing.
    """
    fee = _amount(usage.get("cost"))
    details = object_of(usage.get("cost_details"))
    upstream = _amount(details.get("upstream_inference_cost"))
    if fee is None or upstream is None:
        return Cost()
    return Cost(total=float(Decimal(repr(fee)) + Decimal(repr(upstream))))


def _first(value: Mapping[str, Any], *names: str) -> float | None:
    amounts = (_amount(value.get(name)) for name in names)
    return next((amount for amount in amounts if amount is not None), None)


def _amount(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        amount = float(value)
    except OverflowError:  # an integer of hundreds of digits
        return None
    return amount if isfinite(amount) and amount >= 0 else None
