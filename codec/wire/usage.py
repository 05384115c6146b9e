"""Usage objects, typed by their wire names (``docs/contract/sources.md#s2-5``).

:func:`codec.usage.decode_usage` gives the counts by their meaning, whatever they are called.
"""

from __future__ import annotations

from codec.text.integers import count_of
from codec.wire._view import Member, View, view_of

__all__ = ("CompletionDetails", "PromptDetails", "UsageCounts")


class PromptDetails(View):
    """Parts of the prompt's tokens."""

    __slots__ = ()
    cached_tokens = Member(count_of, "Read from a cache.")
    cache_write_tokens = Member(count_of, "Written to a cache.")
    cache_creation_tokens = Member(count_of, "Written to a cache (LiteLLM).")
    audio_tokens = Member(count_of, "Audio.")


class CompletionDetails(View):
    """Parts of the completion's tokens."""

    __slots__ = ()
    reasoning_tokens = Member(count_of, "Reasoning.")
    audio_tokens = Member(count_of, "Audio.")
    accepted_prediction_tokens = Member(count_of, "Tokens of a predicted output that were used.")
    rejected_prediction_tokens = Member(count_of, "Tokens of one that were not used.")


class UsageCounts(View):
    """The counts of one usage object. A count is a non-negative integer, all else is none."""

    __slots__ = ()
    prompt_tokens = Member(count_of, "Tokens of the request.")
    completion_tokens = Member(count_of, "Tokens of the answer.")
    total_tokens = Member(count_of, "The provider's own total.")
    prompt_cache_hit_tokens = Member(count_of, "Prompt tokens read from a cache (DeepSeek).")
    prompt_cache_miss_tokens = Member(count_of, "Prompt tokens not read from one (DeepSeek).")
    prompt_tokens_details = Member(view_of(PromptDetails), "Parts of the prompt's tokens.")
    completion_tokens_details = Member(
        view_of(CompletionDetails), "Parts of the completion's tokens."
    )
