"""The documents of a ranking."""

from __future__ import annotations

import msgspec

__all__ = ("Ranked",)


class Ranked(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A document in its place of a ranking.

    Attributes:
        index: the index of the document in the request; ``None`` if the answer names none.
        score: how well it fits the query. Each model has its own scale; some scores are negative.
        content: its text, if the answer repeats it.
    """

    index: int | None = None
    score: float | None = None
    content: str | None = None
