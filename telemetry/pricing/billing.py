"""Billing: from a usage to the tokens that are billed, and from tokens and rates to a cost.

Rules:

1. The details are subsets of prompt and completion (``span-contract.md`` 1.4) and do not overlap:
   each is billed once, the rest at the rate of input or output, as Phoenix does (5.3). A detail
   without a rate of its own is billed at that rate too.
2. Nothing is invented (R6): a share whose count or whose rate is not known has no cost, and then
   the total has none. Details that exceed their count contradict it: it is not known.
3. Where the total exceeds prompt and completion, the rest belongs to the completion if it is the
   reasoning (xAI), or if Google answers, whose compatible API counts thoughts in the total alone
   (``dialects.md`` section 8). Anybody else's rest is of no known kind: the completion is not
   known.
4. No tokens cost nothing, whatever the rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING

from msgspec.structs import replace
from openinference.semconv.trace import OpenInferenceLLMProviderValues

from telemetry.pricing.span_cost import SpanCost

if TYPE_CHECKING:
    from codec.usage import Usage
    from telemetry.pricing.span_cost import CostSource

__all__ = ("Rates", "bill", "count_billed_tokens")

_PER_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """US dollars per million tokens of a kind, ``None`` where that has no rate of its own."""

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    input_audio: float | None = None
    output_audio: float | None = None
    reasoning: float | None = None


def count_billed_tokens(usage: Usage, provider: str | None) -> Usage:
    """Bring a usage to a form in which details are subsets and nothing is left out.

    A count of which that is not known is ``None`` (rules 2 and 3).

    Args:
        usage: as the provider reported it.
        provider: who answers, a value of ``llm.provider``; ``None`` where unknown.
    """
    return replace(
        usage,
        prompt=_within(usage.prompt, usage.cache_read, usage.cache_write, usage.prompt_audio),
        completion=_within(_completion(usage, provider), usage.reasoning, usage.completion_audio),
    )


def bill(tokens: Usage, rates: Rates, source: CostSource) -> SpanCost:
    """Return the cost of tokens, as :func:`count_billed_tokens` counts them, at these rates."""
    prompt, (cache_read, cache_write, prompt_audio, rest_of_prompt) = _share(
        tokens.prompt,
        rates.input,
        (tokens.cache_read, rates.cache_read),
        (tokens.cache_write, rates.cache_write),
        (tokens.prompt_audio, rates.input_audio),
    )
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
        cache_write=cache_write,
        prompt_audio=prompt_audio,
        output=rest_of_completion,
        reasoning=reasoning,
        completion_audio=completion_audio,
    )


def _completion(usage: Usage, provider: str | None) -> int | None:
    """The tokens of the answer, reasoning included (rule 3)."""
    if usage.total is None or usage.prompt is None:
        return usage.completion
    if usage.completion is None:  # an embedding's usage has none
        return 0 if usage.total == usage.prompt else None
    if usage.excludes_reasoning or provider == OpenInferenceLLMProviderValues.GOOGLE.value:
        return usage.total - usage.prompt
    return usage.completion if usage.total == usage.prompt + usage.completion else None


def _within(count: int | None, *details: int | None) -> int | None:
    """The count, ``None`` where its details exceed it (rule 2)."""
    return None if count is None or sum(detail or 0 for detail in details) > count else count


def _share(
    count: int | None, rate: float | None, *details: tuple[int | None, float | None]
) -> tuple[float | None, tuple[float | None, ...]]:
    """The cost of a count, and those of its details as far as reported, that of the rest last."""
    if count is None:
        return None, (None,) * (len(details) + 1)
    amounts = [_cost(tokens or 0, rate if own is None else own) for tokens, own in details]
    rest = _cost(count - sum(tokens or 0 for tokens, _ in details), rate)
    reported = (
        amount if tokens is not None else None
        for amount, (tokens, _) in zip(amounts, details, strict=True)
    )
    return _sum(*amounts, rest), (*reported, rest)


def _cost(tokens: int, rate: float | None) -> float | None:
    if tokens == 0:
        return 0.0  # rule 4
    return None if rate is None else tokens * rate / _PER_MILLION


def _sum(*amounts: float | None) -> float | None:
    """The sum of amounts, where all are known (rule 2)."""
    known = [amount for amount in amounts if amount is not None]
    return fsum(known) if len(known) == len(amounts) else None
