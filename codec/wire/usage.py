"""Usage objects, typed by their wire names (``seeds.md`` S2.5, S2.10).

:func:`codec.usage.decode_usage` gives the counts by their meaning, whatever they are called.
"""

from __future__ import annotations

from typing import ClassVar

from codec.integers import count_of
from codec.wire._view import View

__all__ = ("CompletionDetails", "PromptDetails", "UsageCounts")


class PromptDetails(View):
    """Parts of the prompt's tokens."""

    __slots__ = ()
    KNOWN: ClassVar = frozenset({"cached_tokens", "audio_tokens", "cache_write_tokens"})

    @property
    def cached_tokens(self) -> int | None:
        """Read from a cache."""
        return count_of(self._raw.get("cached_tokens"))

    @property
    def cache_write_tokens(self) -> int | None:
        """Written to a cache."""
        return count_of(self._raw.get("cache_write_tokens"))

    @property
    def audio_tokens(self) -> int | None:
        """Audio."""
        return count_of(self._raw.get("audio_tokens"))


class CompletionDetails(View):
    """Parts of the completion's tokens."""

    __slots__ = ()
    KNOWN: ClassVar = frozenset(
        {"reasoning_tokens", "audio_tokens", "accepted_prediction_tokens",
         "rejected_prediction_tokens"}
    )  # fmt: skip

    @property
    def reasoning_tokens(self) -> int | None:
        """Reasoning."""
        return count_of(self._raw.get("reasoning_tokens"))

    @property
    def audio_tokens(self) -> int | None:
        """Audio."""
        return count_of(self._raw.get("audio_tokens"))

    @property
    def accepted_prediction_tokens(self) -> int | None:
        """Tokens of a predicted output that were used."""
        return count_of(self._raw.get("accepted_prediction_tokens"))

    @property
    def rejected_prediction_tokens(self) -> int | None:
        """Tokens of a predicted output that were not used."""
        return count_of(self._raw.get("rejected_prediction_tokens"))


class UsageCounts(View):
    """The counts of one usage object. A count is a non-negative integer, all else is none."""

    __slots__ = ()
    KNOWN: ClassVar = frozenset(
        {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_cache_hit_tokens",
         "prompt_cache_miss_tokens", "prompt_tokens_details", "completion_tokens_details"}
    )  # fmt: skip

    @property
    def prompt_tokens(self) -> int | None:
        """Tokens of the request."""
        return count_of(self._raw.get("prompt_tokens"))

    @property
    def completion_tokens(self) -> int | None:
        """Tokens of the answer."""
        return count_of(self._raw.get("completion_tokens"))

    @property
    def total_tokens(self) -> int | None:
        """The provider's own total."""
        return count_of(self._raw.get("total_tokens"))

    @property
    def prompt_cache_hit_tokens(self) -> int | None:
        """Prompt tokens read from a cache (DeepSeek)."""
        return count_of(self._raw.get("prompt_cache_hit_tokens"))

    @property
    def prompt_cache_miss_tokens(self) -> int | None:
        """Prompt tokens not read from one (DeepSeek)."""
        return count_of(self._raw.get("prompt_cache_miss_tokens"))

    @property
    def prompt_tokens_details(self) -> PromptDetails | None:
        """Parts of the prompt's tokens."""
        value = self._raw.get("prompt_tokens_details")
        return PromptDetails(value) if isinstance(value, dict) else None

    @property
    def completion_tokens_details(self) -> CompletionDetails | None:
        """Parts of the completion's tokens."""
        value = self._raw.get("completion_tokens_details")
        return CompletionDetails(value) if isinstance(value, dict) else None
