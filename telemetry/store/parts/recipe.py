"""Recipes: the pieces of a span, as streaks of pieces that lie side by side in a part.

A streak is one number: the part's number in its family, the first piece, and how many there are.
Recipes are compressed to a third, because much in them repeats.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

FAMILY_BITS: Final = 8

MAX_FAMILY_SPANS: Final = 1 << FAMILY_BITS
"""Spans of a family. Whenever some are removed the recipes of the others are read: 20 ms if each
span has a megabyte. The 257th call of a conversation is stored whole again."""

PIECE_BITS: Final = 24

MAX_PIECES: Final = (1 << PIECE_BITS) - 1
"""The most pieces of a part: four gigabytes, if all have the least size."""

MAX_RECIPE_BYTES: Final = 16 << 20
"""Two million streaks: more than a span of the largest allowed size can have."""

RECIPE_MARK: Final = b"x"
"""The first byte of a recipe, as of everything that zlib writes; an undamaged span has another."""

_STREAKS: Final = 1 << FAMILY_BITS + 2 * PIECE_BITS

_RUN_BYTES: Final = 8

_SIZE_BYTES: Final = 4


def find_range(family: int) -> tuple[int, int]:
    """Return the numbers of the first and the last part that a family may have."""
    first = family << FAMILY_BITS
    return first, first + MAX_FAMILY_SPANS - 1


def write_streak(place: int, count: int) -> int:
    """Write a streak of `count` pieces from a place on, as part and piece (:data:`PIECE_BITS`)."""
    return place << PIECE_BITS | count


def read_streak(streak: int) -> tuple[int, int, int]:
    """Return the part's number in its family, its first piece, and the one after the last."""
    first = streak >> PIECE_BITS & MAX_PIECES
    return streak >> 2 * PIECE_BITS, first, first + (streak & MAX_PIECES)


def write_recipe(streaks: Sequence[int]) -> bytes:
    """Write streaks as the store keeps them."""
    return zlib.compress(struct.pack(f"<{len(streaks)}Q", *streaks), 1)


def read_recipe(recipe: object) -> tuple[int, ...] | None:
    """Read the streaks of a recipe; ``None`` if it is damaged."""
    if not isinstance(recipe, bytes):
        return None
    reading = zlib.decompressobj()
    try:
        packed = reading.decompress(recipe, MAX_RECIPE_BYTES)
    except zlib.error:
        return None
    count, rest = divmod(len(packed), _RUN_BYTES)
    if rest or not reading.eof:
        return None
    streaks = struct.unpack(f"<{count}Q", packed)
    return streaks if max(streaks, default=0) < _STREAKS else None


def write_sizes(sizes: Sequence[int]) -> bytes:
    """Write the sizes of a part's pieces."""
    return struct.pack(f"<{len(sizes)}I", *sizes)


def read_sizes(sizes: object) -> tuple[int, ...] | None:
    """Read the sizes of a part's pieces; ``None`` if they are damaged."""
    if not isinstance(sizes, bytes) or len(sizes) % _SIZE_BYTES:
        return None
    return struct.unpack(f"<{len(sizes) // _SIZE_BYTES}I", sizes)
