"""The verdict on content that was to be judged."""

from __future__ import annotations

import msgspec

__all__ = ("Verdict",)


class Verdict(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A judgement of everything that a request asked about.

    Attributes:
        flagged: something was found; ``None`` if the answer does not say so in one word.
        categories: names of what was found, in the provider's words, each once.
    """

    flagged: bool | None = None
    categories: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The verdict in words: ``flagged: violence``; empty if nothing is known."""
        if self.flagged is None and not self.categories:
            return ""
        word = {True: "flagged", False: "not flagged", None: "found"}[self.flagged]
        return f"{word}: {', '.join(self.categories)}" if self.categories else word
