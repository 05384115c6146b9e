"""What a store keeps beside spans, so that conversations continue after a restart.

Functions on an open connection. :mod:`telemetry.conversations` knows what the bytes mean
(``docs/contract/conversations.md#what-is-remembered``).

What is kept of a call is written with its span, in one transaction. It is removed with the span: by
retention, by deletion, or when the span is not carried over from a damaged file. Changes of open
runs are written with spans, too. A run is removed with the first of its spans that is removed,
because its bytes may repeat content of that span. The table of kept calls has the name ``links``.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import TYPE_CHECKING, Final

from telemetry.conversation_position import KeptCall, KeptCalls
from telemetry.store.ranges import group_ranges
from telemetry.store.schema import transaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

DIGEST_KEY_BYTES: Final = 32

MAX_COPIED_CALLS: Final = 100_000
"""A new file gets what a damaged one kept of this many calls, some 20 MB in memory: twice as many
as are remembered by default. Older ones would be read only if more were remembered."""

_LAST_CONVERSATION = """
SELECT max(
    coalesce((SELECT CAST(seq AS INTEGER) FROM sqlite_sequence WHERE name = 'spans'), 0),
    coalesce((SELECT max(conversation) FROM
        (SELECT conversation FROM spans ORDER BY seq DESC LIMIT 1000)
        WHERE typeof(conversation) = 'integer' AND conversation < 1 << 48), 0)
)
"""
"""The second is greater if spans were dropped while numbers continued. A value that is not a
number, or that no store reaches, is damage: every later number would be too great to be kept."""

_FIRST_SEQ = "SELECT coalesce(min(seq), 0) FROM (SELECT seq FROM links ORDER BY seq DESC LIMIT ?)"

_KEPT_CALLS = """
SELECT span_id, trace_id, session, coalesce(CAST(data AS BLOB), x'')
FROM links JOIN spans USING (seq)
WHERE links.seq >= ? ORDER BY links.seq
"""

_NEWEST_FIRST = "SELECT seq, CAST(data AS BLOB) FROM links ORDER BY seq DESC LIMIT ?"

_SPAN_IDS = "SELECT span_id FROM spans ORDER BY seq DESC LIMIT ?"

_REMOVE_RUNS = """
DELETE FROM open_runs WHERE run IN
(SELECT run FROM spans WHERE seq BETWEEN ? AND ? AND run IS NOT NULL)
"""

_RUNS = "SELECT DISTINCT run FROM spans WHERE seq BETWEEN ? AND ? AND run IS NOT NULL"

_ADD_KEPT_CALL = """
INSERT OR IGNORE INTO links (seq, data) SELECT ?, ? WHERE EXISTS
(SELECT 1 FROM spans WHERE seq = ?)
"""

_OPEN_RUNS = "SELECT run, coalesce(CAST(data AS BLOB), x'') FROM open_runs"

_KEY = "SELECT CAST(key AS BLOB) FROM digest_key"


class DigestKey:
    """The key of digests, as an owner keeps it.

    The first owner that needs the key makes it, once for a store. It is in no export and in no log.
    An owner that continues in a new file copies the key to it.
    """

    def __init__(self) -> None:
        """Begin without a key; it is read or made when it is first needed."""
        self._key: bytes | None = None
        self._opening = 0

    def keep(self, connection: sqlite3.Connection, opening: int) -> bytes:
        """Return the key of the file; a file without one gets the key that is known."""
        self._key, self._opening = keep_key(connection, self._key), opening
        return self._key

    def follow(self, connection: sqlite3.Connection, opening: int) -> None:
        """Give a new file the key of the digests that are kept."""
        if self._key is not None and opening != self._opening:
            keep_key(connection, self._key)
            self._opening = opening


def insert_kept_calls(
    connection: sqlite3.Connection, kept_calls: Iterable[tuple[int, bytes]]
) -> None:
    """Write what is kept of calls, by the numbers of their new spans; known spans add nothing."""
    connection.executemany("INSERT INTO links (seq, data) VALUES (?, ?)", kept_calls)


def write_open_runs(connection: sqlite3.Connection, runs: Mapping[int, bytes | None]) -> None:
    """Write the changes of open runs; a run without bytes is over."""
    for run, data in runs.items():
        if data is None:
            connection.execute("DELETE FROM open_runs WHERE run = ?", (run,))
        else:
            connection.execute(
                "INSERT INTO open_runs (run, data) VALUES (?, ?)"
                " ON CONFLICT (run) DO UPDATE SET data = excluded.data",
                (run, data),
            )


@contextlib.contextmanager
def zeroing(connection: sqlite3.Connection) -> Iterator[None]:
    """Overwrite with zeros what is removed inside; not within a transaction.

    Bytes of runs and calls may repeat content, so they are removed in this way.
    """
    connection.execute("PRAGMA secure_delete = ON")
    try:
        yield
    finally:
        connection.execute("PRAGMA secure_delete = FAST")


def remove_kept_calls(connection: sqlite3.Connection, seqs: Iterable[int]) -> None:
    """Remove what is kept of spans that are about to be removed, and their open runs."""
    ranges = [*group_ranges(seqs)]
    if connection.execute("SELECT 1 FROM open_runs LIMIT 1").fetchone() is not None:
        connection.executemany(_REMOVE_RUNS, ranges)
    connection.executemany("DELETE FROM links WHERE seq BETWEEN ? AND ?", ranges)


def find_runs(connection: sqlite3.Connection, seqs: Iterable[int]) -> set[int]:
    """Find the runs of spans, by their numbers."""
    found: set[int] = set()
    for ends in group_ranges(seqs):
        runs = connection.execute(_RUNS, ends)
        found.update(run for (run,) in runs if isinstance(run, int))
    return found


def read_kept_calls(
    connection: sqlite3.Connection, key: bytes, *, max_calls: int, max_spans: int
) -> KeptCalls:
    """Read what is kept: the key, the newest calls and span ids, and all open runs."""
    (first_seq,) = connection.execute(_FIRST_SEQ, (max_calls,)).fetchone()
    span_ids = [span_id for (span_id,) in connection.execute(_SPAN_IDS, (max_spans,))]
    return KeptCalls(
        key=key,
        calls=[*map(KeptCall._make, connection.execute(_KEPT_CALLS, (first_seq,)))],
        open_runs=dict(connection.execute(_OPEN_RUNS)),
        span_ids=span_ids[::-1],
    )


def find_last_conversation(connection: sqlite3.Connection) -> int:
    """Find a number that no conversation exceeds; 0 if nothing was ever recorded.

    There are no more conversations than spans, and the newest spans have the newest conversations.
    Reading all of a million spans would take two seconds.
    """
    (last,) = connection.execute(_LAST_CONVERSATION).fetchone()
    return int(last)


def keep_key(connection: sqlite3.Connection, key: bytes | None = None) -> bytes:
    """Return the store's key; if it has none, `key` or a new one becomes it."""
    row = connection.execute(_KEY).fetchone()
    if row is not None and isinstance(row[0], bytes) and len(row[0]) == DIGEST_KEY_BYTES:
        return bytes(row[0])
    key = key or os.urandom(DIGEST_KEY_BYTES)
    with transaction(connection):
        connection.execute("DELETE FROM digest_key")
        connection.execute("INSERT INTO digest_key (key) VALUES (?)", (key,))
    return key


def copy_kept_calls(source: sqlite3.Connection, connection: sqlite3.Connection) -> None:
    """Copy the key, kept calls and open runs from another store, as far as they can be read.

    Calls whose spans are not in the new store are left out. The other calls are useless without the
    key.

    Raises:
        sqlite3.Error: the new store cannot be written.
    """
    found: list[tuple[int, bytes]] = []
    runs: list[tuple[int, bytes]] = []
    try:
        (key,) = source.execute(_KEY).fetchone()
        with contextlib.suppress(sqlite3.Error):
            runs += source.execute("SELECT run, CAST(data AS BLOB) FROM open_runs")
        with contextlib.suppress(sqlite3.Error):  # newest first; those after damage are lost
            found.extend(source.execute(_NEWEST_FIRST, (MAX_COPIED_CALLS,)))
    except (sqlite3.Error, TypeError):  # an older schema, or damage
        return
    if len(key) != DIGEST_KEY_BYTES:
        return
    keep_key(connection, key)
    with transaction(connection):
        connection.execute("DELETE FROM open_runs")
        connection.executemany("INSERT INTO open_runs (run, data) VALUES (?, ?)", runs)
        connection.executemany(_ADD_KEPT_CALL, [(seq, data, seq) for seq, data in found])
