"""Billing: from a usage to the tokens that are billed, and from tokens and rates to a cost.

The details are subsets of prompt and completion (``docs/contract/spans.md#details``) and do not
overlap: each is billed once, the rest at the rate of input or output, as Phoenix does
(``docs/contract/spans.md#phoenix-cost``). Only sound may overlap with what came from a cache; then
it is billed as the latter. A detail without a separate rate is billed at the rate of the rest,
except for what was written to a cache for an hour: if only ordinary writes have a rate, the rate of
these is unknown, because it is higher.

Nothing is invented (R6): a share with an unknown count or rate has no cost, and then the total has
none. Details that exceed their count contradict it, so it counts as unknown, and so does any count
from which such a detail was left out before.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import fsum
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from openinference.semconv.trace import OpenInferenceLLMProviderValues

from telemetry.pricing.span_cost import SpanCost

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codec.usage import Usage
    from telemetry.pricing.span_cost import CostSource

_PER_MILLION = 1_000_000
_DETAILS = (
    *("input", "cache_read", "cache_write", "prompt_audio"),
    *("output", "reasoning", "completion_audio"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """US dollars per million tokens of a kind, ``None`` for a kind without a separate rate."""

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None
    input_audio: float | None = None
    output_audio: float | None = None
    reasoning: float | None = None


def count_billed_tokens(usage: Usage, provider: str | None) -> Usage:
    """Bring a usage to a form in which details are subsets and nothing is left out.

    A count for which that is impossible is ``None``.

    Args:
        usage: as the provider reported it.
        provider: who answers, a value of ``llm.provider``; ``None`` if unknown.
    """
    if "details_inconsistent" in usage.anomalies:
        return replace(usage, prompt=None, completion=None)
    heard = _count_heard(usage)
    prompt = _within(usage.prompt, usage.cache_read, usage.cache_write, heard)
    if (usage.cache_write_1h or 0) > (usage.cache_write or 0):
        prompt = None
    return replace(
        usage,
        prompt=prompt,
        completion=_within(_completion(usage, provider), usage.reasoning, usage.completion_audio),
    )


def bill(tokens: Usage, rates: Rates, source: CostSource) -> SpanCost:
    """Return the cost of tokens, as :func:`count_billed_tokens` counts them, at these rates."""
    written, hour = tokens.cache_write, tokens.cache_write_1h
    prompt, (cache_read, cache_write, for_hour, prompt_audio, rest_of_prompt) = _share(
        tokens.prompt,
        rates.input,
        (tokens.cache_read, rates.cache_read),
        (written - hour if written and hour else written, rates.cache_write),
        (hour, rates.cache_write_1h),
        (_count_heard(tokens), rates.input_audio),
    )
    if hour and rates.cache_write is not None and rates.cache_write_1h is None:
        prompt = cache_write = for_hour = None
    completion, (reasoning, completion_audio, rest_of_completion) = _share(
        tokens.completion,
        rates.output,
        (tokens.reasoning, rates.reasoning),
        (tokens.completion_audio, rates.output_audio),
    )
    return SpanCost(
        source=source,
        prompt=prompt,
        completion=completion,
        total=_sum(prompt, completion),
        input=rest_of_prompt,
        cache_read=cache_read,
        cache_write=cache_write if for_hour is None else _sum(cache_write, for_hour),
        prompt_audio=prompt_audio,
        output=rest_of_completion,
        reasoning=reasoning,
        completion_audio=completion_audio,
        saved=find_saved(tokens, rates),
    )


def find_saved(tokens: Usage, rates: Rates) -> float | None:
    """Find what the tokens that came from a cache would have cost more as other input.

    ``None`` if no count, or no rate of input, is known.
    """
    if tokens.cache_read is None or tokens.prompt is None or rates.input is None:
        return None
    if rates.cache_read is None:
        return 0.0
    heard = tokens.cache_read_audio or 0
    of_sound = rates.input if rates.input_audio is None else rates.input_audio
    return _sum(
        _cost(tokens.cache_read - heard, max(rates.input - rates.cache_read, 0.0)),
        _cost(heard, max(of_sound - rates.cache_read, 0.0)),
    )


def sum_up(costs: Sequence[SpanCost], beside: Iterable[float | None]) -> SpanCost:
    """Return the cost of a call of several steps; an amount that one step lacks is unknown.

    Args:
        costs: of its model's steps, at least one.
        beside: what else it costs, which is in the total alone.
    """
    total = _add(*(cost.total for cost in costs), *beside)
    if len(costs) == 1:
        return replace(costs[0], total=total)
    details: dict[str, Any] = {
        name: _sum_known(getattr(cost, name) for cost in costs) for name in _DETAILS
    }
    return replace(
        costs[0],
        prompt=_add(*(cost.prompt for cost in costs)),
        completion=_add(*(cost.completion for cost in costs)),
        total=total,
        saved=_sum_known(cost.saved for cost in costs),
        **details,
    )


def _count_heard(usage: Usage) -> int | None:
    """Count the tokens of sound that came from no cache."""
    heard = usage.prompt_audio
    return None if heard is None else heard - (usage.cache_read_audio or 0)


def _completion(usage: Usage, provider: str | None) -> int | None:
    """The tokens of the answer, reasoning included.

    If the total exceeds prompt and completion, the rest belongs to the completion if Google
    answers: its compatible API counts thoughts in the total alone
    (``docs/contract/wire.md#counts``). With any other provider nobody knows what the rest is, and
    so the completion is unknown.
    """
    if usage.total is None or usage.prompt is None:
        return usage.completion
    if usage.completion is None:  # an embedding's usage has none
        return 0 if usage.total == usage.prompt else None
    if provider == OpenInferenceLLMProviderValues.GOOGLE.value:
        return usage.total - usage.prompt
    return usage.completion if usage.total == usage.prompt + usage.completion else None


def _within(count: int | None, *details: int | None) -> int | None:
    """The count; ``None`` if its details exceed it."""
    return None if count is None or sum(filter(None, details)) > count else count


def _share(
    count: int | None, rate: float | None, *details: tuple[int | None, float | None]
) -> tuple[float | None, tuple[float | None, ...]]:
    """The costs of a count, of its details as far as reported, and last of the rest."""
    if count is None:
        return None, (None,) * (len(details) + 1)
    reported: list[float | None] = []
    amounts: list[float | None] = []
    for tokens, own in details:
        amount = _cost(tokens or 0, rate if own is None else own)
        reported.append(None if tokens is None else amount)
        amounts.append(amount)
        count -= tokens or 0
    rest = _cost(count, rate)
    return _sum(*amounts, rest), (*reported, rest)


def _add(*amounts: float | None) -> float | None:
    """Sum up amounts in decimals, as they are written; ``None`` if one is unknown."""
    if None in amounts:
        return None
    known = [amount for amount in amounts if amount]
    return known[0] if len(known) == 1 else float(sum(Decimal(repr(amount)) for amount in known))


def _sum_known(amounts: Iterable[float | None]) -> float | None:
    """Sum up the amounts that are known; ``None`` if all are unknown."""
    known = [amount for amount in amounts if amount is not None]
    return fsum(known) if known else None


def _cost(tokens: int, rate: float | None) -> float | None:
    if tokens == 0:
        return 0.0  # whatever the rate
    return None if rate is None else tokens * rate / _PER_MILLION


def _sum(*amounts: Any) -> float | None:
    """The sum of amounts; ``None`` unless all are known."""
    return None if None in amounts else fsum(amounts)
