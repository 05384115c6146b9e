"""Counts and indices in JSON values.

Gateways in languages with one number type write ``12.0`` for 12; such values are accepted. ``true``
is an integer in Python, not in JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ("count_of", "index_of", "places_of")

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MAX_COUNT = 2**63 - 1  # what a 64-bit attribute holds
_MAX_DIGITS = len(str(_MAX_COUNT))


def count_of(value: Any) -> int | None:
    """Return a non-negative 64-bit integer, which may be written ``12.0``; else ``None``."""
    if type(value) is not int:  # rare
        if not (isinstance(value, float) and value.is_integer()):
            return None
        value = int(value)
    return value if 0 <= value <= _MAX_COUNT else None


def index_of(value: Any) -> int | None:
    """Return an index: a count, or the digits of one as a string (``"1"``, but not ``"01"``)."""
    if isinstance(value, str) and len(value) <= _MAX_DIGITS and value.isascii() and value.isdigit():
        number = int(value)
        return count_of(number) if str(number) == value else None
    return count_of(value)


def places_of(items: Sequence[Mapping[str, Any]]) -> Sequence[int]:
    """Return the index of each item; its position if it has none.

    If two would have the same index, each has its position: some servers number all of them 0.
    """
    found = [index_of(item.get("index")) for item in items]
    places = [place if index is None else index for place, index in enumerate(found)]
    return places if len({*places}) == len(places) else range(len(items))
