"""The cost of one call, and the attributes that show it (``docs/contract/spans.md#cost``).

An amount that is not known has no attribute; zero is an amount (R6,
``docs/contract/sources.md#n6``).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from openinference.semconv.trace import SpanAttributes

from telemetry.facts import LIST_BASIS

if TYPE_CHECKING:
    from telemetry.attribute_values import AttributePairs


class CostSource(StrEnum):
    """The source of a cost (``cost_source`` of ``docs/contract/spans.md#cost-source``)."""

    PROVIDER = "provider"
    """The answer itself."""
    SETTINGS = "settings"
    """The user's own prices."""
    GENAI_PRICES = "genai-prices"
    """The price list of that package."""


class CostBasis(StrEnum):
    """What an amount means, where it is not what the call cost the user."""

    LIST = LIST_BASIS
    """The list price of a call that a subscription pays."""


class CostGap(StrEnum):
    """Why the cost of a call, or a part of it, is unknown."""

    NO_USAGE = "no_usage"
    """The answer has no counts of tokens, or they contradict each other."""
    UNKNOWN_PROVIDER = "unknown_provider"
    """The list has no provider at this upstream."""
    UNKNOWN_MODEL = "unknown_model"
    """There is no price of the model, or of another one that took part."""
    UNPRICED_TERMS = "unpriced_terms"
    """There is no price for the service tier, the speed or the place, or the answer lacks it."""
    UNPRICED_TOOL = "unpriced_tool"
    """There is no price for a tool of the provider's, or no count of its uses."""
    UNPRICED_TOKENS = "unpriced_tokens"
    """There is no price for a kind of token, or the model bills something else as well."""


class SpanCost(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Amounts in US dollars, ``None`` if one is not known.

    Attributes:
        source: of this cost.
        prompt: of the request, its details included.
        completion: of the answer, its details included.
        total: of the call. More than prompt and completion if each call has a fee.
        input: of the prompt tokens that the next three do not count.
        output: of the completion tokens that the next two do not count.
        saved: what the tokens from a cache would have cost more as other tokens of the prompt.
        basis: what the amounts mean; ``None`` for what the call cost.
        list_date: the day, such as ``2026-11-09``, of the list that has the prices.
    """

    source: CostSource
    prompt: float | None = None
    completion: float | None = None
    total: float | None = None
    input: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    prompt_audio: float | None = None
    output: float | None = None
    reasoning: float | None = None
    completion_audio: float | None = None
    saved: float | None = None
    basis: CostBasis | None = None
    list_date: str | None = None

    @property
    def known(self) -> bool:
        """Whether any share, or the total, is known."""
        return any(amount is not None for amount in (self.prompt, self.completion, self.total))


class FoundCost(NamedTuple):
    """What is known of the cost of a call.

    Attributes:
        cost: ``None`` if no part of it is known.
        gap: why it, or a part of it, is unknown; ``None`` as well for a call that has no price,
            such as one that failed.
    """

    cost: SpanCost | None = None
    gap: CostGap | None = None


NOTHING_FOUND = FoundCost()


def build_cost_attributes(cost: SpanCost | None) -> AttributePairs:
    """Build ``llm.cost.*``; nothing for a call whose cost is not known.

    Tokens from a cache are ``cache_read``. The synonym ``cache_input`` is never sent beside it,
    because a sum of the details would count the same tokens twice
    (``docs/contract/spans.md#cost``).
    """
    if cost is None:
        return
    yield SpanAttributes.LLM_COST_PROMPT, cost.prompt
    yield SpanAttributes.LLM_COST_COMPLETION, cost.completion
    yield SpanAttributes.LLM_COST_TOTAL, cost.total
    yield SpanAttributes.LLM_COST_PROMPT_DETAILS_INPUT, cost.input
    yield SpanAttributes.LLM_COST_PROMPT_DETAILS_CACHE_READ, cost.cache_read
    yield SpanAttributes.LLM_COST_PROMPT_DETAILS_CACHE_WRITE, cost.cache_write
    yield SpanAttributes.LLM_COST_PROMPT_DETAILS_AUDIO, cost.prompt_audio
    yield SpanAttributes.LLM_COST_COMPLETION_DETAILS_OUTPUT, cost.output
    yield SpanAttributes.LLM_COST_COMPLETION_DETAILS_REASONING, cost.reasoning
    yield SpanAttributes.LLM_COST_COMPLETION_DETAILS_AUDIO, cost.completion_audio
