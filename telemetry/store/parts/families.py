"""Writes spans of a conversation in parts; it remembers which pieces are stored.

It remembers only pieces that this owner has stored, as keys of 64 bits each; none are read from a
file. A new owner begins new families. If it is not certain that a transaction was committed, the
caller makes it forget everything.
"""

from __future__ import annotations

import os
from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

from telemetry.store.parts.cutting import find_end
from telemetry.store.parts.recipe import (
    FAMILY_BITS,
    MAX_FAMILY_SPANS,
    PIECE_BITS,
    find_range,
    read_sizes,
    write_recipe,
    write_sizes,
    write_streak,
)

if TYPE_CHECKING:
    import sqlite3

    from telemetry.store.rows import SpanRow

MIN_SPAN_BYTES: Final = 16 << 10
"""A shorter span is stored whole and costs nothing here: a family takes a kilobyte per span."""

MAX_KNOWN_PIECES: Final = 1 << 16
"""The most pieces that are remembered, some 11 MB (R5): those of fourteen conversations with half a
megabyte of history each, or of two hundred with thirty kilobytes. Other calls are stored whole
meanwhile."""

LIVELY_SPANS: Final = 100
"""A family is in use if it has one of this many newest spans. A new family does not displace it:
otherwise conversations that take turns would displace each other if there is no room for all, and
each call would be cut in vain."""

BLOCK_PIECES: Final = 32
"""Pieces that are compared at once, some 16 KB. With more of them, too much would be compared piece
by piece after a change."""

_USUAL_PIECE_BYTES: Final = 500

_SALT_BYTES: Final = 16

_WRITE_PART = "INSERT INTO parts (id, seq, sizes, data) VALUES (?, ?, ?, ?)"

_NAME_PART = "UPDATE spans SET part = ? WHERE seq = ?"

_WRITE_BYTES = "INSERT INTO span_bytes (seq, span) VALUES (?, ?)"

_HAS_PARTS = "SELECT 1 FROM parts WHERE id BETWEEN ? AND ? LIMIT 1"

# The bytes themselves are not read: SQLite finds their length in the head of the row.
_MEASURE = "SELECT coalesce(sum(length(data)), 0) FROM parts WHERE id BETWEEN ? AND ?"

_READ_SIZES = "SELECT id, CAST(sizes AS BLOB) FROM parts WHERE id BETWEEN ? AND ?"


def is_for_family(row: SpanRow) -> bool:
    """Tell whether a row goes into a family: it continues another call, and is not short."""
    return row.columns.link_rule is not None and len(row.span) >= MIN_SPAN_BYTES


class Families:
    """The families that get further spans. Not safe for concurrent calls."""

    def __init__(self) -> None:
        self._salt = os.urandom(_SALT_BYTES)
        self._families: dict[int, _Family] = {}  # by conversation, the one used last at the end
        self._known = 0
        self._added = 0

    def forget(self) -> None:
        """Forget everything: later spans begin new families."""
        self._families.clear()
        self._known = 0

    def add(self, connection: sqlite3.Connection, seq: int, conversation: int, span: bytes) -> None:
        """Write the bytes of a span that is in ``spans`` already, inside a transaction.

        Args:
            connection: to the store.
            seq: the number of the span.
            conversation: spans with the same number are similar.
            span: its bytes.
        """
        self._added += 1
        family = self._families.pop(conversation, None)
        if family is not None:
            self._known -= len(family)
            if not family.check(connection):
                family = None
        if family is None:
            if not self._make_room(len(span)) or _has_parts(connection, seq):
                connection.execute(_WRITE_BYTES, (seq, span))
                return
            family = _Family(seq, self._salt)
        family.add(connection, seq, span)
        if family.has_room:
            family.used = self._added
            self._families[conversation] = family
            self._known += len(family)
        while self._known > MAX_KNOWN_PIECES:
            self._forget_oldest()

    def _make_room(self, size_bytes: int) -> bool:
        """Make room for the pieces of a span; false while other families need it.

        The family that has not been used for the longest time is forgotten first: the next call of
        its conversation begins another one.
        """
        pieces = min(size_bytes // _USUAL_PIECE_BYTES, MAX_KNOWN_PIECES)
        while self._known + pieces > MAX_KNOWN_PIECES:
            oldest = next(iter(self._families.values()))
            if self._added - oldest.used < LIVELY_SPANS:
                return False
            self._forget_oldest()
        return True

    def _forget_oldest(self) -> None:
        self._known -= len(self._families.pop(next(iter(self._families))))


def _has_parts(connection: sqlite3.Connection, family: int) -> bool:
    """Tell whether a new family already has parts.

    It has some if another store continued a copy of this one, and then replaced it.
    """
    return connection.execute(_HAS_PARTS, find_range(family)).fetchone() is not None


class _Family:
    """The pieces of a family, in the order in which they came; the first entry means no piece.

    A piece is recognised by Python's hash of a random salt and its bytes: nobody can make two
    pieces with the same hash. By chance two pieces count as one once in 10^14 pieces; then the
    checksum shows that the span with the wrong piece is damaged.
    """

    def __init__(self, number: int, salt: bytes) -> None:
        self.used = 0  # when, in spans
        self._number = number
        self._salt = salt
        self._spans = 0
        self._stored_bytes = 0
        self._keys = array("q", (0,))
        self._sizes = array("I", (0,))  # 0 for a piece that is no longer stored
        self._places = array("Q", (0,))
        self._next = array("I", (0,))  # the piece that followed it last time
        self._found: dict[int, int] = {}  # by key
        self._blocks: dict[int, _Block] = {}  # by the first piece

    def __len__(self) -> int:
        """Return how many pieces are remembered."""
        return len(self._keys)

    @property
    def has_room(self) -> bool:
        """Whether another span may come."""
        return self._spans < MAX_FAMILY_SPANS

    def check(self, connection: sqlite3.Connection) -> bool:
        """Check what is stored, before a span is added; false if nothing is stored.

        If the family lost bytes since the last span, only pieces that are still there are named.
        """
        numbers = find_range(self._number)
        (stored_bytes,) = connection.execute(_MEASURE, numbers).fetchone()
        if stored_bytes == self._stored_bytes:
            return True
        parts = {
            number & (MAX_FAMILY_SPANS - 1): read_sizes(sizes) or ()
            for number, sizes in connection.execute(_READ_SIZES, numbers)
        }
        for number in range(1, len(self._keys)):
            own, piece = divmod(self._places[number], 1 << PIECE_BITS)
            sizes = parts.get(own, ())
            if self._sizes[number] and not (piece < len(sizes) and sizes[piece]):
                self._sizes[number] = 0
                del self._found[self._keys[number]]
        self._blocks.clear()
        self._stored_bytes = stored_bytes
        return bool(self._found)

    def add(self, connection: sqlite3.Connection, seq: int, span: bytes) -> None:
        """Write a span: its new pieces, and its recipe."""
        streaks, new = self._split(span)
        part = self._number << FAMILY_BITS | self._spans
        data = b"".join(new)
        connection.execute(_WRITE_PART, (part, seq, write_sizes([*map(len, new)]), data))
        connection.execute(_WRITE_BYTES, (seq, write_recipe(streaks)))
        connection.execute(_NAME_PART, (part, seq))
        self._spans += 1
        self._stored_bytes += len(data)

    def _split(self, span: bytes) -> tuple[list[int], list[bytes]]:
        """Split a span into pieces; return its streaks, and the new pieces.

        A piece is mostly followed by the same piece as in the previous call: then no place to cut
        is searched for. If a whole block is the same, its pieces are not even compared.
        """
        keys, sizes, places, following = self._keys, self._sizes, self._places, self._next
        found, blocks, salt = self._found, self._blocks, self._salt
        own = self._spans << PIECE_BITS
        streaks = _Streaks()
        new: list[bytes] = []
        at = last = 0
        begun_at = first = begun = count = 0  # of the block that is being made
        while at < len(span):
            number = following[last]
            block = blocks.get(number)
            if block is not None:
                behind = at + block.size
                if hash(salt + span[at:behind]) == block.key:
                    streaks.end()
                    streaks.ended += block.streaks
                    last, at, count = block.last, behind, 0
                    continue
            behind = at + sizes[number]
            if hash(salt + span[at:behind]) != keys[number] or not number:
                behind = find_end(span, at)
                piece = span[at:behind]
                key = hash(salt + piece)
                number = found.get(key, 0)
                if not number:
                    number = found[key] = len(keys)
                    keys.append(key)
                    sizes.append(len(piece))
                    places.append(own + len(new))
                    following.append(0)
                    new.append(piece)
                following[last] = number
            if not count:
                streaks.end()
                begun_at, first, begun = at, number, len(streaks.ended)
            streaks.add(places[number])
            last, at = number, behind
            count += 1
            if count == BLOCK_PIECES:
                streaks.end()
                key = hash(salt + span[begun_at:at])
                blocks[first] = _Block(at - begun_at, key, last, (*streaks.ended[begun:],))
                count = 0
        streaks.end()
        return streaks.ended, new


class _Block(NamedTuple):
    """Pieces that followed one another.

    Attributes:
        size: of all of them, in bytes.
        key: of their bytes.
        last: the number of the last one.
        streaks: the pieces as streaks.
    """

    size: int
    key: int
    last: int
    streaks: tuple[int, ...]


class _Streaks:
    """Makes streaks of places."""

    def __init__(self) -> None:
        self.ended: list[int] = []
        self._start = self._end = 0

    def add(self, place: int) -> None:
        """Add the place of the next piece."""
        if place != self._end:
            self.end()
            self._start = place
        self._end = place + 1

    def end(self) -> None:
        """End the streak that is being made, if any."""
        if self._end > self._start:
            self.ended.append(write_streak(self._start, self._end - self._start))
        self._start = self._end = 0
