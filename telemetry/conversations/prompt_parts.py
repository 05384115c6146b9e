"""Parts of prompts: what their tokens went for, estimated.

Rules:

1. The provider's count is exact. How it divides nobody tells: it is apportioned by characters, and
   called an estimate; the parts together are the count (R6).
2. New is what no answer follows: the user's text, results of tools. What the model answered, and
   all that is before it, is history.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final

from codec.units import ASSISTANT, UnitKind, is_media

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.units import Unit

Chars = tuple[int, int, int, int]
"""Characters of each of :data:`PARTS`."""

PARTS: Final = ("system", "tools", "history", "new")

MEDIA_CHARS: Final = 3_000
"""Characters that a picture counts as: OpenAI counts 765 tokens for one of 1,024 by 1,024 pixels,
and four characters are about a token. The length of its base64 says nothing of it."""

_get_kind, _get_text = itemgetter(0), itemgetter(3)


def estimate_parts(tokens: int, chars: Chars) -> dict[str, int]:
    """Estimate the tokens of each part (rule 1); nothing where there is nothing to go by."""
    if not any(chars):
        return {}
    shares = zip(PARTS, apportion(tokens, chars), chars, strict=True)
    return {name: share for name, share, size in shares if size}


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """Divide a count by weights, which are not all 0; the shares together are the count.

    >>> apportion(10, (1, 2, 1))
    [2, 6, 2]
    """
    whole = sum(weights)
    shares = [total * weight // whole for weight in weights]
    shares[weights.index(max(weights))] += total - sum(shares)
    return shares


def measure_history(history: Sequence[Unit]) -> tuple[int, int]:
    """Count the characters of a request's history, and of what is new in it (rule 2)."""
    known = len(history) - _count_new(history)
    # In as few steps as can be: there may be thousands.
    chars = [*map(len, map(_get_text, history))]
    if UnitKind.ITEM in map(_get_kind, history):
        for at, unit in enumerate(history):
            if is_media(unit):
                chars[at] = MEDIA_CHARS
    return sum(chars[:known]), sum(chars[known:])


def _count_new(history: Sequence[Unit]) -> int:
    """Count the units that no answer follows, and what a client began of the next one."""
    at = len(history)
    while at and history[at - 1].role == ASSISTANT:
        at -= 1
    while at and history[at - 1].role != ASSISTANT:
        at -= 1
    return len(history) - at
