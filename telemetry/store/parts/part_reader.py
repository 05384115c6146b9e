"""Reads spans that are stored in parts."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from telemetry.store.parts.recipe import (
    FAMILY_BITS,
    MAX_PIECES,
    PIECE_BITS,
    read_recipe,
    read_sizes,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Sequence

MAX_KEPT_BYTES: Final = 8 << 20
"""Bytes of parts that are kept for the next span: enough for several conversations with a megabyte
each."""

_READ: Final = """
SELECT id, CAST(sizes AS BLOB), CAST(data AS BLOB) FROM parts WHERE id BETWEEN ? AND ?
"""


def put_together(
    connection: sqlite3.Connection, rows: Iterable[tuple[Any, ...]], at: int
) -> list[tuple[Any, ...]]:
    """Put the spans of rows together.

    Args:
        connection: to the store.
        rows: each begins with ``spans.part``, which is removed.
        at: the index of the stored bytes in the rest of the row.

    Raises:
        sqlite3.Error: a part cannot be read.
    """
    reader = PartReader(connection)
    return [(*row[:at], reader.read(part, row[at]), *row[at + 1 :]) for part, *row in rows]


class _Part(NamedTuple):
    """A part, with the place where each piece begins, and where the last one ends."""

    starts: Sequence[int]
    data: bytes


_NONE: Final = _Part((), b"")
"""Stands for a part that is missing or damaged: no streak is in it."""


class PartReader:
    """Puts spans together, and keeps the parts that were read last (:data:`MAX_KEPT_BYTES`).

    A part that is kept has all pieces that it had when it was read. That is enough, because no
    recipe names a piece that was gone before.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._kept: dict[int, _Part] = {}
        self._kept_bytes = 0

    def read(self, part: object, stored: object) -> object:
        """Return the bytes of a span, whether they are stored whole or in parts.

        Args:
            part: its ``spans.part``.
            stored: what the table of bytes has: the bytes, or a recipe.

        Returns:
            The bytes, which may be damaged, as their checksum shows; ``None`` if there are none.

        Raises:
            sqlite3.Error: a part cannot be read.
        """
        if part is None:
            return stored
        streaks = read_recipe(stored)
        if streaks is None or not isinstance(part, int):
            return None
        pieces = self.read_streaks(part >> FAMILY_BITS, streaks)
        return None if pieces is None else b"".join(pieces)

    def read_streaks(self, family: int, streaks: Collection[int]) -> list[bytes] | None:
        """Read the bytes of each streak of a family; ``None`` if one is damaged.

        Raises:
            sqlite3.Error: a part cannot be read.
        """
        parts = self._find(family, {streak >> 2 * PIECE_BITS for streak in streaks})
        found = []
        # A long call has a thousand streaks. A method for each would take half of the time.
        for streak in streaks:
            starts, data = parts[streak >> 2 * PIECE_BITS]
            first = streak >> PIECE_BITS & MAX_PIECES
            end = first + (streak & MAX_PIECES)
            if end >= len(starts):
                return None
            found.append(data[starts[first] : starts[end]])
        return found

    def _find(self, family: int, wanted: Collection[int]) -> dict[int, _Part]:
        """Return parts by their numbers in a family."""
        first = family << FAMILY_BITS
        parts = {own: self._kept.get(first | own) for own in wanted}
        missing = [own for own, part in parts.items() if part is None]
        if missing:
            # Mostly all of them lie side by side.
            for number, sizes, data in self._connection.execute(
                _READ, (first | min(missing), first | max(missing))
            ):
                part = _make_part(sizes, data)
                parts[number - first] = part
                if number not in self._kept:
                    self._kept[number] = part
                    self._kept_bytes += len(part.data)
            while self._kept_bytes > MAX_KEPT_BYTES and len(self._kept) > 1:
                self._kept_bytes -= len(self._kept.pop(next(iter(self._kept))).data)
        return {own: part or _NONE for own, part in parts.items()}


def _make_part(sizes: object, data: object) -> _Part:
    """Make a part from what is stored; one without pieces if that is damaged."""
    starts = [*accumulate(read_sizes(sizes) or (), initial=0)]
    return _Part(starts, data) if isinstance(data, bytes) and starts[-1] == len(data) else _NONE
