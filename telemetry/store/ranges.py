"""Numbers as ranges: usually one statement is enough for many spans."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def group_ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Group numbers, in any order, as ranges of a first and a last one.

    >>> group_ranges([4, 1, 2, 3, 9])
    [(1, 4), (9, 9)]
    """
    ranges: list[tuple[int, int]] = []
    first = last = 0
    for number in sorted(numbers):
        if ranges and number <= last + 1:
            ranges[-1] = (first, number)
        else:
            first = number
            ranges.append((first, first))
        last = number
    return ranges
