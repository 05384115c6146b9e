"""Fragments of content that may each be the whole text so far (:mod:`.choice`, rule 5)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from codec.growing_text import GrowingText

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from codec.growing_text import TextKind

__all__ = ("are_cumulative", "look_at_pieces")

_MIN_CUMULATIVE: Final = 4
"""Fewer fragments may begin with each other by chance, such as three dashes."""


def are_cumulative(fragments: Sequence[str]) -> bool:
    """Tell whether each of the fragments was the whole text so far."""
    if len(fragments) < _MIN_CUMULATIVE or not fragments[1].startswith(fragments[0]):
        return False
    if len(fragments[-1]) - len(fragments[0]) < _MIN_CUMULATIVE - 1:
        return False  # too few fragments
    grown = 1
    for text, longer in pairwise(fragments):
        if not longer.startswith(text):
            return False
        grown += len(text) < len(longer)  # the last text may be repeated
    return grown >= _MIN_CUMULATIVE


def look_at_pieces(
    key: Hashable,
    kind: TextKind,
    fragments: Sequence[str],
    pending: Sequence[str] = (),
    *,
    is_finished: bool = False,
) -> GrowingText:
    """Look at the text of fragments, and of those that follow them.

    While there are few, and they may turn out to be cumulative, the text is the first one.
    """
    begin = [*fragments[:2], *pending[:2]][:2]
    if len(begin) < 2 or not begin[1].startswith(begin[0]):  # usual
        return GrowingText(key, kind, fragments, pending=pending)
    pieces = [*fragments, *pending]
    if are_cumulative(pieces):
        pieces = pieces[-1:]
    elif (
        not is_finished
        and len(pieces) < _MIN_CUMULATIVE
        and all(b.startswith(a) for a, b in pairwise(pieces))
    ):
        pieces = pieces[:1]
    return GrowingText(key, kind, pieces, grows=False)
