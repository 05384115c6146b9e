"""One document of a ranking."""

from __future__ import annotations

import msgspec

__all__ = ("Ranked",)


class Ranked(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One document in its place of a ranking.

    Attributes:
        index: of the document among those of the request, ``None`` where the answer names none.
        score: how well it fits the query, on a scale of the model's own: some have negative ones.
        content: its text where the answer repeats it.
    """

    index: int | None = None
    score: float | None = None
    content: str | None = None
