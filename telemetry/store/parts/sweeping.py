"""Removes the pieces that no recipe names any more.

A damaged recipe names nothing, because its span cannot be read, whatever is kept for it. A part
with damaged sizes is removed, because no span that names it can be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from telemetry.store.parts.recipe import (
    FAMILY_BITS,
    find_range,
    read_recipe,
    read_sizes,
    read_streak,
    write_sizes,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

MAX_SWEPT: Final = 300
"""Parts that a step sweeps, in all families together, but always those of one family: some 25 ms if
each part belongs to a span of a megabyte."""

# CROSS: SQLite goes through the numbers of the parts, and finds each row by its number.
_READ_RECIPES: Final = """
SELECT parts.id, CAST(span AS BLOB) FROM parts
CROSS JOIN spans ON spans.seq = parts.seq AND spans.part = parts.id
CROSS JOIN span_bytes ON span_bytes.seq = parts.seq
WHERE parts.id BETWEEN ? AND ?
"""

_READ_SIZES: Final = "SELECT id, CAST(sizes AS BLOB) FROM parts WHERE id BETWEEN ? AND ?"

_READ_DATA: Final = "SELECT CAST(data AS BLOB) FROM parts WHERE id = ?"

_COUNT: Final = "SELECT count(*) FROM parts WHERE id BETWEEN ? AND ?"

_MEASURE: Final = """
SELECT coalesce((SELECT length(span) FROM span_bytes WHERE seq = ?), 0)
    + coalesce((SELECT length(data) FROM parts WHERE id = ?), 0)
"""


class Sweeping:
    """Limits what one step removes, so that only a few families have to be swept afterwards."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._families: dict[int, bool] = {}
        self._parts = 0

    def admits(self, part: int | None) -> bool:
        """Tell whether a span with this part may go (:data:`MAX_SWEPT`)."""
        if part is None:
            return True
        family = part >> FAMILY_BITS
        if family not in self._families:
            (count,) = self._connection.execute(_COUNT, find_range(family)).fetchone()
            is_admitted = not self._parts or self._parts + count <= MAX_SWEPT
            self._families[family] = is_admitted
            if is_admitted:
                self._parts += count
        return self._families[family]

    def measure(self, seq: int, part: int | None, size_bytes: int) -> int:
        """Measure the bytes stored for a span itself: others may name some of them."""
        if part is None:
            return size_bytes
        (stored_bytes,) = self._connection.execute(_MEASURE, (seq, part)).fetchone()
        return int(stored_bytes)


def sweep(connection: sqlite3.Connection, removed: Iterable[int]) -> None:
    """Sweep the families of parts whose spans are removed, inside that transaction."""
    for family in {part >> FAMILY_BITS for part in removed}:
        numbers = find_range(family)
        streaks: set[int] = set()
        named: dict[int, list[tuple[int, int]]] = {}
        for number, recipe in connection.execute(_READ_RECIPES, numbers):
            named[number] = []  # it leads to the recipe, even if none of its pieces is left
            streaks.update(read_recipe(recipe) or ())
        for own, first, end in map(read_streak, streaks):
            named.setdefault(numbers[0] | own, []).append((first, end))
        for number, sizes in connection.execute(_READ_SIZES, numbers).fetchall():
            if number not in named or not _thin_out(
                connection, number, read_sizes(sizes), named[number]
            ):
                connection.execute("DELETE FROM parts WHERE id = ?", (number,))


def _thin_out(
    connection: sqlite3.Connection,
    number: int,
    sizes: Sequence[int] | None,
    kept: Iterable[tuple[int, int]],
) -> bool:
    """Remove all pieces of a part except those that are kept; false if it is damaged."""
    if sizes is None:
        return False
    keeps = bytearray(len(sizes))
    for first, end in kept:
        keeps[first:end] = b"\1" * (min(end, len(sizes)) - min(first, len(sizes)))
    left = [size if keep else 0 for size, keep in zip(sizes, keeps, strict=True)]
    if left == [*sizes]:
        return True
    (data,) = connection.execute(_READ_DATA, (number,)).fetchone()
    if len(data) != sum(sizes):
        return False
    pieces, at = [], 0
    for size, keep in zip(sizes, keeps, strict=True):
        if keep:
            pieces.append(data[at : at + size])
        at += size
    connection.execute(
        "UPDATE parts SET sizes = ?, data = ? WHERE id = ?",
        (write_sizes(left), b"".join(pieces), number),
    )
    return True
