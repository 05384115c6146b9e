"""A request for legacy completions: prompts in the place of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.chat.accumulator import MAX_CHOICES
from codec.chat.request import ChatRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ("CompletionRequest",)


class CompletionRequest(ChatRequest, frozen=True, gc=False):
    """A request to continue prompts."""

    @property
    def choice_count(self) -> int:
        """The number of choices asked for: ``n`` for each prompt."""
        return min(super().choice_count * max(len(self.prompts), 1), MAX_CHOICES)

    def read_texts(self) -> Sequence[Any]:
        """Read the prompts: texts, lists of token ids, or neither."""
        return self.prompts
