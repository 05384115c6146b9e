"""Sketches of answers: enough of their words to tell whether a history repeats one, rewritten.

A client that rewrites an answer, trims it or takes its thoughts out, keeps most of its words. Who
asked the same question of the same model got other ones.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codec.units import Unit

__all__ = ("MAX_SKETCH_WORDS", "Sketch", "is_alike", "make_sketch")

Sketch = frozenset[int]
"""Digests of words."""

MAX_SKETCH_WORDS: Final = 32
"""Words of an answer that are kept, those with the smallest digests: a choice that does not depend
on where they stand."""

MAX_SKETCHED_CHARS: Final = 65_536
"""Characters of an answer that are looked at."""

_WORD = re.compile(r"\w+")


def make_sketch(units: Iterable[Unit]) -> Sketch:
    """Make the sketch of an assistant's units."""
    text = " ".join([unit.text for unit in units])[:MAX_SKETCHED_CHARS].lower()
    digests = {crc32(word.encode("utf-8", "replace")) for word in {*_WORD.findall(text)}}
    return frozenset(sorted(digests)[:MAX_SKETCH_WORDS])


def is_alike(said: Sketch, repeated: Sketch) -> bool:
    """Tell whether a history repeats an answer: at least half of the words are there.

    An answer without words, one that failed, is alike to whatever a client put in its place.
    """
    if not said:
        return True
    return 2 * len(said & repeated) >= min(len(said), len(repeated)) > 0
