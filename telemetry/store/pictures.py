"""The pictures of calls, beside their spans: each content once, by its SHA-256 digest.

Functions on an open connection. A span stays what it was without them: no error here costs a span.

``call_pictures`` has a row for each picture of a call: where it stands, and its digest or the
reason why it is not kept. ``pictures`` has the contents. A content is removed with the last call
that has it (:func:`remove_pictures`). All together take at most :data:`SHARE` of the store; for
newer ones, and for spans that are still to be sent, the pictures of the oldest calls are removed.
Their calls stay.
"""

from __future__ import annotations

import contextlib
import sqlite3
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from telemetry.store.ranges import group_ranges
from telemetry.store.rows import CallPicture, LeftOut
from telemetry.store.schema import transaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SHARE: Final = 4
"""The part of the store that all pictures may take: one in so many."""

_SPARE_SHARE: Final = 16
"""When the pictures need more than they may have, one in so many bytes is freed in addition, so
that not every commit has to look for the oldest."""

_ADD_PLACE = """
INSERT OR IGNORE INTO call_pictures
    (seq, is_answer, message, part, type, size_bytes, digest, left_out)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""

_ADD = """
INSERT INTO pictures (digest, size_bytes, data)
SELECT ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM pictures WHERE digest = ?)
"""

MAX_COUNTED_BYTES = 16 * 1024 * 1024
"""Twice the largest picture that is kept (:data:`codec.text.pictures.MAX_PICTURE_BYTES`). Lists
import this module, and do without the codec."""

_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The types of :mod:`codec.text.pictures`; in a damaged row a type may be anything."""

_SIZE = f"min(max(coalesce(CAST(size_bytes AS INTEGER), 0), 0), {MAX_COUNTED_BYTES})"
"""In a damaged row a size may be anything."""

_TOTAL = f"SELECT coalesce(sum({_SIZE}), 0) FROM pictures"  # noqa: S608 - constants

_COUNT = f"SELECT count(*), coalesce(sum({_SIZE}), 0) FROM pictures"  # noqa: S608 - constants

_OLDEST_FIRST = f"""
SELECT id, {_SIZE},
    (SELECT max(seq) FROM call_pictures WHERE digest = pictures.digest) AS last_seq
FROM pictures ORDER BY last_seq
"""  # noqa: S608 - constants

_DIGESTS = """
SELECT DISTINCT digest FROM call_pictures WHERE seq BETWEEN ? AND ? AND typeof(digest) = 'blob'
"""

_REMOVE_UNUSED = """
DELETE FROM pictures WHERE digest = ?1
AND NOT EXISTS (SELECT 1 FROM call_pictures WHERE digest = ?1)
"""

_MEASURE = f"""
SELECT coalesce(sum({_SIZE}), 0) FROM call_pictures WHERE seq = ? AND digest IS NOT NULL
"""  # noqa: S608 - constants

_OF_CALL = """
SELECT typeof(is_answer) = 'integer' AND is_answer = 1,
    CASE typeof(message) WHEN 'integer' THEN message END,
    CASE typeof(part) WHEN 'integer' THEN part END,
    CAST(type AS BLOB),
    CASE typeof(size_bytes) WHEN 'integer' THEN max(size_bytes, 0) END,
    CASE typeof(digest) WHEN 'blob' THEN digest END,
    CAST(left_out AS BLOB),
    EXISTS (SELECT 1 FROM pictures WHERE digest = call_pictures.digest)
FROM call_pictures WHERE seq = ? ORDER BY is_answer, message, part
"""

_CONTENT = """
SELECT CAST(data AS BLOB) FROM pictures WHERE digest = ?1
AND EXISTS (SELECT 1 FROM call_pictures WHERE seq = ?2 AND digest = ?1)
"""

_HAS_TABLE = "SELECT 1 FROM sqlite_master WHERE name = 'call_pictures'"

_NEWEST_PLACES = """
SELECT seq, is_answer, message, part, type, size_bytes, digest, left_out
FROM call_pictures ORDER BY seq DESC LIMIT ?
"""

_COPY_PLACE = """
INSERT OR IGNORE INTO call_pictures
    (seq, is_answer, message, part, type, size_bytes, digest, left_out)
SELECT ?, ?, ?, ?, ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM spans WHERE seq = ?)
"""

_COPIED = "SELECT CAST(data AS BLOB) FROM pictures WHERE digest = ?"

MAX_COPIED_PLACES: Final = 100_000
"""A new file gets the pictures of a damaged one from this many places, some 30 MB in memory."""


def insert_pictures(
    connection: sqlite3.Connection,
    calls: Iterable[tuple[int, Sequence[CallPicture]]],
    limit_bytes: int,
) -> None:
    """Record the pictures of calls, by the numbers of their spans, in one transaction.

    Raises:
        sqlite3.Error: nothing is recorded.
    """
    with transaction(connection):
        for seq, pictures in calls:
            for picture in pictures:
                digest = None
                if picture.data is not None:
                    digest = sha256(picture.data).digest()
                    size_bytes = len(picture.data)
                    connection.execute(_ADD, (digest, size_bytes, picture.data, digest))
                place = (seq, picture.is_answer, picture.message, picture.part)
                known = (picture.type, picture.size_bytes, digest, picture.left_out)
                connection.execute(_ADD_PLACE, (*place, *known))
        _make_room(connection, limit_bytes)


def _make_room(connection: sqlite3.Connection, limit_bytes: int) -> None:
    """Remove the pictures of the oldest calls until all others are within the limit."""
    (total,) = connection.execute(_TOTAL).fetchone()
    if total > limit_bytes:
        surplus_bytes = total - limit_bytes + limit_bytes // _SPARE_SHARE
        remove_contents(connection, find_oldest_contents(connection, surplus_bytes))


def find_oldest_contents(connection: sqlite3.Connection, size_bytes: int) -> list[int]:
    """Find the numbers of the oldest calls' contents that have so many bytes together, or of all.

    With 0 bytes or less none are found.
    """
    found: list[int] = []
    for number, content_bytes, _ in connection.execute(_OLDEST_FIRST):
        if size_bytes <= 0:
            break
        found.append(number)
        size_bytes -= content_bytes
    return found


def remove_contents(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Remove these contents, in a transaction of the caller's. The calls keep their places."""
    connection.executemany("DELETE FROM pictures WHERE id = ?", ((number,) for number in numbers))


def remove_pictures(connection: sqlite3.Connection, seqs: Iterable[int]) -> None:
    """Remove the pictures of spans that are about to be removed, unless other calls have them."""
    if connection.execute("SELECT 1 FROM call_pictures LIMIT 1").fetchone() is None:
        return
    ranges = [*group_ranges(seqs)]
    digests = {row for ends in ranges for row in connection.execute(_DIGESTS, ends)}
    connection.executemany("DELETE FROM call_pictures WHERE seq BETWEEN ? AND ?", ranges)
    connection.executemany(_REMOVE_UNUSED, digests)


def measure_pictures(connection: sqlite3.Connection, seq: int) -> int:
    """Measure the pictures of a span in bytes; other calls may have some of them, too."""
    (size_bytes,) = connection.execute(_MEASURE, (seq,)).fetchone()
    return int(size_bytes)


def count_pictures(connection: sqlite3.Connection) -> tuple[int, int]:
    """Count the contents that are kept, and their bytes; none of an older store.

    Raises:
        sqlite3.Error: they cannot be read.
    """
    if connection.execute(_HAS_TABLE).fetchone() is None:
        return 0, 0
    count, size_bytes = connection.execute(_COUNT).fetchone()
    return int(count), int(size_bytes)


def read_pictures(connection: sqlite3.Connection, seq: int) -> list[CallPicture]:
    """Read which pictures a call has, without their contents; none of an older store.

    Raises:
        sqlite3.Error: they cannot be read.
    """
    if connection.execute(_HAS_TABLE).fetchone() is None:
        return []
    found = []
    for (
        is_answer,
        message,
        part,
        kind,
        size_bytes,
        digest,
        left_out,
        is_there,
    ) in connection.execute(_OF_CALL, (seq,)):
        if message is None or part is None:
            continue  # the row is damaged
        is_kept = digest is not None and bool(is_there)
        why = None if is_kept else LeftOut.read(_decode(left_out))
        found.append(
            CallPicture(
                is_answer=bool(is_answer),
                message=message,
                part=part,
                type=known if (known := _decode(kind)) in _TYPES else None,
                size_bytes=size_bytes or 0,
                digest=digest.hex() if is_kept else None,
                left_out=why,
            )
        )
    return found


def _decode(text: object) -> str | None:
    """Decode a text, which may be damaged."""
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else None


def read_picture(connection: sqlite3.Connection, seq: int, digest: str) -> bytes | None:
    """Read a picture of a call; ``None`` if it has none with that digest, or it is damaged.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    if connection.execute(_HAS_TABLE).fetchone() is None:
        return None
    try:
        key = bytes.fromhex(digest)
    except ValueError:
        return None
    found = connection.execute(_CONTENT, (key, seq)).fetchone()
    if found is None or not isinstance(found[0], bytes) or sha256(found[0]).digest() != key:
        return None
    return bytes(found[0])


def copy_pictures(source: sqlite3.Connection, connection: sqlite3.Connection) -> None:
    """Copy the pictures of the spans in a new store from another one, as far as they can be read.

    Raises:
        sqlite3.Error: the new store cannot be written.
    """
    places: list[tuple[Any, ...]] = []
    with contextlib.suppress(sqlite3.Error):  # an older schema; what is behind damage is lost
        places.extend(source.execute(_NEWEST_PLACES, (MAX_COPIED_PLACES,)))
    for place in places:
        seq, digest, data = place[0], place[-2], None
        with contextlib.suppress(sqlite3.Error, TypeError):
            (data,) = source.execute(_COPIED, (digest,)).fetchone()
        with transaction(connection):
            connection.execute(_COPY_PLACE, (*place, seq))
            if isinstance(data, bytes) and sha256(data).digest() == digest:
                connection.execute(_ADD, (digest, len(data), data, digest))
                connection.execute(_REMOVE_UNUSED, (digest,))
