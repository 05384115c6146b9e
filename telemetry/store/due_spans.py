"""The spans that are due: those that are sent next.

Functions on an open connection. The oldest come first. A span that has failed alone is not among
them: it is tried at a separate time. Bytes are put together from their parts
(:mod:`telemetry.store.parts`), and may be damaged: the caller compares the checksum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from telemetry.store.parts.part_reader import put_together

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

_DUE = """
FROM spans WHERE state = 'pending' AND failed_alone = 0 AND next_try_ns <= ?
ORDER BY recorded_ns, seq LIMIT ?
"""

_SIZES = f"SELECT CAST(size_bytes AS INTEGER), recorded_ns {_DUE}"

_BYTES = f"""
SELECT part, seq, span_id, CAST(span AS BLOB), failed_alone, checksum FROM span_bytes
JOIN (SELECT part, seq, span_id, failed_alone, checksum, recorded_ns {_DUE}) USING (seq)
ORDER BY recorded_ns, seq
"""  # noqa: S608 - constants

_WAITING = """
SELECT 1 FROM spans WHERE state = 'pending' AND failed_alone = 0 AND next_try_ns > ? LIMIT 1
"""

_DUE_ALONE = """
SELECT part, seq, span_id, CAST(span AS BLOB), failed_alone, checksum
FROM spans JOIN span_bytes USING (seq)
WHERE state = 'pending' AND failed_alone > 0 AND next_try_ns <= ? ORDER BY next_try_ns, seq LIMIT 1
"""


class DueSpans(NamedTuple):
    """Spans that are due.

    Attributes:
        rows: number, span id, bytes, how often it has failed alone, and checksum of each.
        newest_ns: when the last of them was recorded, if no other spans are pending except those
            that have failed alone; else ``None``.
    """

    rows: Sequence[tuple[Any, ...]]
    newest_ns: int | None


def find_due(
    connection: sqlite3.Connection, limit_spans: int, limit_bytes: int, now_ns: int
) -> DueSpans:
    """Find the oldest spans that are due: as many as fit both limits, but at least one."""
    sizes = connection.execute(_SIZES, (now_ns, limit_spans)).fetchall()
    count = total_bytes = 0
    for size_bytes, _ in sizes:
        total_bytes += size_bytes or 0
        if count and total_bytes > limit_bytes:
            break
        count += 1
    found = connection.execute(_BYTES, (now_ns, count)).fetchall()
    rows = put_together(connection, found, at=2)
    newest_ns = None
    if len(rows) == len(sizes) < limit_spans and not _has_waiting(connection, now_ns):
        newest_ns = sizes[-1][1] if sizes else 0
        if not isinstance(newest_ns, int):  # the disk damaged it since the start
            newest_ns = None
    return DueSpans(rows, newest_ns)


def find_due_alone(connection: sqlite3.Connection, now_ns: int) -> Sequence[tuple[Any, ...]]:
    """Find the row of the span that failed alone and is due the longest; empty if none is due."""
    return put_together(connection, connection.execute(_DUE_ALONE, (now_ns,)).fetchall(), at=2)


def _has_waiting(connection: sqlite3.Connection, now_ns: int) -> bool:
    return connection.execute(_WAITING, (now_ns,)).fetchone() is not None
