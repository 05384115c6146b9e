"""The true bytes of answers, beside the spans of their calls (:mod:`telemetry.raw_answer`).

Functions on an open connection. A span stays what it was without them: no error here costs a span.
A row goes with its span. All together take at most one in :data:`SHARE` bytes of the store; for
newer ones, and for spans that are still to be sent, the oldest go first.
"""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any, Final

from telemetry.raw_answer import MAX_RAW_BYTES, unpack_raw_answer
from telemetry.store.ranges import group_ranges
from telemetry.store.schema import transaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from telemetry.raw_answer import RawAnswer

SHARE: Final = 10
"""The part of the store that all raw answers may take: one in so many."""

_SPARE_SHARE: Final = 16
"""When they need more than they may have, one in so many bytes is freed in addition, so that not
every commit has to look for the oldest."""

_SIZE = f"min(max(coalesce(CAST(size_bytes AS INTEGER), 0), 0), {2 * MAX_RAW_BYTES})"
"""In a damaged row a size may be anything."""

_ADD = "INSERT OR IGNORE INTO raw_answers (seq, size_bytes, data) VALUES (?, ?, ?)"

_COUNT = f"SELECT count(*), coalesce(sum({_SIZE}), 0) FROM raw_answers"  # noqa: S608 - constants

_OLDEST_FIRST = f"SELECT seq, {_SIZE} FROM raw_answers ORDER BY seq"  # noqa: S608 - constants

_MEASURE = f"SELECT {_SIZE} FROM raw_answers WHERE seq = ?"  # noqa: S608 - constants

_READ = "SELECT CAST(data AS BLOB) FROM raw_answers WHERE seq = ?"

_HAS_TABLE = "SELECT 1 FROM sqlite_master WHERE name = 'raw_answers'"

_NEWEST = "SELECT seq, CAST(data AS BLOB) FROM raw_answers ORDER BY seq DESC"

_COPY = """
INSERT OR IGNORE INTO raw_answers (seq, size_bytes, data)
SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM spans WHERE seq = ?1)
"""


class RawRoom:
    """What raw answers take, as far as it is known without a look at all of them.

    Attributes:
        most_bytes: they take no more than this; ``None`` if that is not known.
    """

    def __init__(self) -> None:
        self.most_bytes: int | None = None


def insert_raw_answers(
    connection: sqlite3.Connection,
    answers: Sequence[tuple[int, bytes]],
    limit_bytes: int,
    room: RawRoom,
) -> None:
    """Record packed answers, by the numbers of their spans, in one transaction.

    Raises:
        sqlite3.Error: nothing is recorded.
    """
    added_bytes = sum(len(data) for _, data in answers)
    known, room.most_bytes = room.most_bytes, None
    with transaction(connection):
        connection.executemany(_ADD, [(seq, len(data), data) for seq, data in answers])
        total = count_raw_answers(connection)[1] if known is None else known + added_bytes
        if total > limit_bytes:
            total = count_raw_answers(connection)[1]  # retention may have removed some
        if total > limit_bytes:
            surplus_bytes = total - limit_bytes + limit_bytes // _SPARE_SHARE
            remove_raw_answers(connection, find_oldest(connection, surplus_bytes))
            total = count_raw_answers(connection)[1]
    room.most_bytes = total


def find_oldest(connection: sqlite3.Connection, size_bytes: int) -> list[int]:
    """Find the numbers of the oldest that have so many bytes together, or of all.

    With 0 bytes or less none are found.
    """
    found: list[int] = []
    for seq, own_bytes in connection.execute(_OLDEST_FIRST):
        if size_bytes <= 0:
            break
        found.append(seq)
        size_bytes -= own_bytes
    return found


def remove_raw_answers(connection: sqlite3.Connection, seqs: Iterable[int]) -> None:
    """Remove the answers of these spans, in a transaction of the caller's."""
    ranges = group_ranges(seqs)
    connection.executemany("DELETE FROM raw_answers WHERE seq BETWEEN ? AND ?", ranges)


def measure_raw_answer(connection: sqlite3.Connection, seq: int) -> int:
    """Measure what is kept of the answer of a span, in bytes; 0 if nothing is."""
    found = connection.execute(_MEASURE, (seq,)).fetchone()
    return 0 if found is None else int(found[0])


def count_raw_answers(connection: sqlite3.Connection) -> tuple[int, int]:
    """Count them, and their bytes; an older store has none.

    Raises:
        sqlite3.Error: they cannot be read.
    """
    if connection.execute(_HAS_TABLE).fetchone() is None:
        return 0, 0
    count, size_bytes = connection.execute(_COUNT).fetchone()
    return int(count), int(size_bytes)


def read_raw_answer(connection: sqlite3.Connection, seq: int) -> RawAnswer | None:
    """Read the answer of a span; ``None`` if it is not kept, or damaged.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    if connection.execute(_HAS_TABLE).fetchone() is None:
        return None
    found = connection.execute(_READ, (seq,)).fetchone()
    return unpack_raw_answer(found[0]) if found and isinstance(found[0], bytes) else None


def copy_raw_answers(source: sqlite3.Connection, connection: sqlite3.Connection) -> None:
    """Copy the answers of the spans in a new store from another one, as far as they can be read.

    Raises:
        sqlite3.Error: the new store cannot be written.
    """
    for row in _read_newest(source):
        with transaction(connection):
            connection.execute(_COPY, row)


def _read_newest(source: sqlite3.Connection) -> Iterable[tuple[Any, ...]]:
    """Yield number, size and bytes of those that are whole, up to an error."""
    with contextlib.suppress(sqlite3.Error):  # an older schema; what is behind damage is lost
        for seq, data in source.execute(_NEWEST):
            if isinstance(seq, int) and isinstance(data, bytes) and unpack_raw_answer(data):
                yield seq, len(data), data
