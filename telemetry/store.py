"""The store: a durable outbox of spans in one SQLite file, and its owner.

Rules (``design.md`` section 3, "The store"; R8):

1. One owner per file: a second one is told the holder's process id.
2. A span is recorded once. :meth:`Store.add` leaves a span id that it knows alone, so that replays
   are harmless.
3. What :meth:`Store.add` returned from survives a kill of any process. It survives a crash of the
   machine too when every commit is synced; otherwise such a crash may take the last commits (since
   the last checkpoint, some 4 MB), but never damages what is older.
4. Spans go out oldest first.
5. Retention: what nobody waits for goes by age; by size delivered spans go first, then the oldest.
   A span removed unsent is counted as lost.
6. Any thread may call any method: one lock serialises them. Each call is short. A pruning is one
   bounded step: a transaction of removing, and one of giving room back to the disk. What cannot be
   divided is folding in a WAL that grew under a long reader.
7. Room is made before it lacks, so that what is added goes where something was removed: at its
   limit a file needs no vacuuming. Where it is over its limit, room is given back only while the
   WAL can be folded in: to a pinned WAL vacuuming would add pages, and take none from the disk.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Self

from telemetry.errors import StoreError
from telemetry.schema import (
    connect_owner,
    explain_sqlite_errors,
    fold_wal,
    transaction,
    wal_path,
)
from telemetry.store_lock import StoreLock
from telemetry.store_rows import PendingSpan, PruneResult, Retention, SpanState, StoreCounts

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from telemetry.store_rows import SpanRow

__all__ = ("MAX_ERROR_CHARS", "MAX_PRUNE_BYTES", "MAX_PRUNE_ROWS", "MAX_VACUUM_PAGES", "Store")

MAX_ERROR_CHARS = 500
"""A backend's words are kept up to here: enough to see the reason, not enough to fill the file."""

MAX_PRUNE_ROWS = 500
"""Spans that one step of pruning removes: 5 ms for spans of 4 KB."""

MAX_PRUNE_BYTES = 64 << 20
"""Bytes that it removes, but always one span: 10 ms, each page of a span is visited."""

MAX_VACUUM_PAGES = 256
"""Pages (1 MB) that it gives back to the disk: 10 ms, and the WAL holds them until it is folded."""

_FULL_SHARE = 0.9
"""Share of the size limit where removing begins (rule 7). The rest is for what is added between
two prunings, and for the WAL."""

_INSERT = """
INSERT INTO spans (
    span_id, trace_id, name, start_ns, end_ns, model, status, outcome,
    prompt_tokens, completion_tokens, total_tokens, size_bytes, state, recorded_ns
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (span_id) DO NOTHING
"""

_DUE = """
FROM spans WHERE state = 'pending' AND next_try_ns <= ? ORDER BY recorded_ns, seq LIMIT ?
"""

_EXPIRED = """
SELECT seq, state, size_bytes FROM spans
WHERE state IN ('delivered', 'kept', 'rejected') AND recorded_ns < ? LIMIT ?
"""

_OLDEST_DELIVERED = """
SELECT seq, state, size_bytes FROM spans WHERE state = 'delivered' ORDER BY recorded_ns, seq LIMIT ?
"""

_OLDEST = "SELECT seq, state, size_bytes FROM spans ORDER BY seq LIMIT ?"


class Store:
    """The one owner of a store; use it as a context manager, or :meth:`close` it."""

    def __init__(
        self,
        path: Path,
        lock: StoreLock,
        connection: sqlite3.Connection,
        *,
        delivers: bool,
        retention: Retention,
    ) -> None:
        """Take over what :meth:`open` opened."""
        self.path = path
        self._owner = lock
        self._connection: sqlite3.Connection | None = connection
        self._first_state = SpanState.PENDING if delivers else SpanState.KEPT
        self._retention = retention
        self._lost = 0
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        delivers: bool = True,
        retention: Retention | None = None,
        fsync_each_commit: bool = False,
    ) -> Self:
        """Own the store at `path`, made (mode 0600) where there is none.

        Args:
            path: the file; its folder is made (mode 0700) where missing.
            delivers: new spans are to be sent; otherwise the store is their backend.
            retention: how much to keep; 7 days and 1 GiB where not given.
            fsync_each_commit: rule 3's promise against a crash of the machine, for a disk flush
                per commit.

        Raises:
            StoreError: one of its children says why the store cannot be opened.
        """
        lock = StoreLock(path)
        try:
            connection = connect_owner(path, fsync_each_commit=fsync_each_commit)
            with explain_sqlite_errors(path):
                # Waits that a former owner began are over: what was down then may be up now.
                connection.execute("UPDATE spans SET next_try_ns = 0 WHERE state = 'pending'")
        except BaseException:
            lock.release()
            raise
        return cls(path, lock, connection, delivers=delivers, retention=retention or Retention())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and let the next owner in; done twice, it does nothing."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
                self._owner.release()

    def add(self, rows: Sequence[SpanRow]) -> int:
        """Record `rows` in one transaction; how many of them were new (rule 2).

        Raises:
            StoreError: nothing of them was recorded.
        """
        added = 0
        with self._use() as connection, transaction(connection):
            for row in rows:
                cursor = connection.execute(_INSERT, self._values(row))
                if cursor.rowcount:
                    added += 1
                    connection.execute(
                        "INSERT INTO span_bytes (seq, span) VALUES (?, ?)",
                        (cursor.lastrowid, row.span),
                    )
        return added

    def take(self, limit_spans: int, limit_bytes: int, now_ns: int) -> list[PendingSpan]:
        """The oldest spans that are due at `now_ns`, in order of age (rule 4).

        At most `limit_spans` spans and `limit_bytes` bytes, but always one where one is due: a
        single span larger than the limit comes alone. Nothing is changed: they stay pending until
        their fate is reported.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._use() as connection:
            count = total_bytes = 0
            sizes = connection.execute(f"SELECT size_bytes {_DUE}", (now_ns, limit_spans))
            for (size_bytes,) in sizes.fetchall():
                total_bytes += size_bytes
                if count and total_bytes > limit_bytes:
                    break
                count += 1
            rows = connection.execute(
                "SELECT seq, span_id, span FROM span_bytes JOIN"  # noqa: S608 - constants
                f" (SELECT seq, span_id, recorded_ns {_DUE}) USING (seq) ORDER BY recorded_ns, seq",
                (now_ns, count),
            )
            return [PendingSpan(seq=seq, span_id=span_id, span=span) for seq, span_id, span in rows]

    def mark_delivered(self, seqs: Iterable[int]) -> None:
        """The backend has these spans.

        Raises:
            StoreError: they stay pending and will be sent again.
        """
        self._settle("state = 'delivered', last_error = NULL", (), seqs)

    def mark_retry(self, seqs: Iterable[int], next_try_ns: int, error: str) -> None:
        """These spans could not be sent because of `error`; try again at `next_try_ns`.

        Raises:
            StoreError: they stay pending and due.
        """
        self._settle(
            "attempts = attempts + 1, next_try_ns = ?, last_error = ?",
            (next_try_ns, _text(error[:MAX_ERROR_CHARS])),
            seqs,
        )

    def mark_rejected(self, seqs: Iterable[int], error: str) -> None:
        """The backend refused these very spans with the words `error`: set them aside.

        Raises:
            StoreError: they stay pending and due.
        """
        self._settle(
            "state = 'rejected', attempts = attempts + 1, last_error = ?",
            (_text(error[:MAX_ERROR_CHARS]),),
            seqs,
        )

    def counts(self) -> StoreCounts:
        """How many spans are in each state, since when the oldest waits, and the size of it all.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._use() as connection:
            by_state = dict(connection.execute("SELECT state, count(*) FROM spans GROUP BY state"))
            (oldest_ns,) = connection.execute(
                "SELECT min(recorded_ns) FROM spans WHERE state = 'pending'"
            ).fetchone()
            return StoreCounts(
                **by_state,
                oldest_pending_ns=oldest_ns,
                lost=self._lost,
                size_bytes=self._disk_bytes(),
            )

    def prune(self, now_ns: int) -> PruneResult:
        """Take one step to what retention wants: remove spans, give room back (rules 5 to 7).

        Call it every second or so, because between two calls the file grows by what is added, and
        again soon while there is more to do.

        Raises:
            StoreError: the store cannot be written.
        """
        with self._use() as connection:
            rows, more = self._surplus(connection, now_ns)
            if rows:
                _remove(connection, [seq for seq, _, _ in rows])
            lost = sum(state == SpanState.PENDING for _, state, _ in rows)
            self._lost += lost
        more = self._shrink() or more
        return PruneResult(removed=len(rows), lost=lost, more=more)

    @contextlib.contextmanager
    def _use(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one thread at a time (rule 6)."""
        with self._lock:
            if self._connection is None:
                raise StoreError(f"the store {self.path} is closed")
            with explain_sqlite_errors(self.path):
                yield self._connection

    def _values(self, row: SpanRow) -> tuple[str | int | None, ...]:
        """The parameters of :data:`_INSERT`."""
        return (
            row.span_id,
            row.trace_id,
            _text(row.name),
            row.start_ns,
            row.end_ns,
            None if row.model is None else _text(row.model),
            row.status,
            _text(row.outcome),
            _int64(row.prompt_tokens),
            _int64(row.completion_tokens),
            _int64(row.total_tokens),
            len(row.span),
            self._first_state,
            row.recorded_ns,
        )

    def _settle(self, change: str, values: tuple[str | int, ...], seqs: Iterable[int]) -> None:
        """Report the fate of spans, in one transaction; a settled span is not changed again."""
        with self._use() as connection, transaction(connection):
            connection.executemany(
                f"UPDATE spans SET {change} WHERE seq = ? AND state = 'pending'",  # noqa: S608 - constants
                [(*values, seq) for seq in seqs],
            )

    def _surplus(
        self, connection: sqlite3.Connection, now_ns: int
    ) -> tuple[list[tuple[int, str, int]], bool]:
        """Spans for one step to remove (number, state, bytes), and whether more are left."""
        expired = connection.execute(
            _EXPIRED, (now_ns - self._retention.max_age_ns, MAX_PRUNE_ROWS)
        ).fetchall()
        if expired:
            return _up_to(MAX_PRUNE_BYTES, expired), True
        excess_bytes = self._excess_bytes(connection)
        if excess_bytes <= 0:
            return [], False
        oldest = (
            connection.execute(_OLDEST_DELIVERED, (MAX_PRUNE_ROWS,)).fetchall()
            or connection.execute(_OLDEST, (MAX_PRUNE_ROWS,)).fetchall()
        )
        rows = _up_to(min(excess_bytes, MAX_PRUNE_BYTES), oldest)
        return rows, bool(rows) and sum(size_bytes for _, _, size_bytes in rows) < excess_bytes

    def _excess_bytes(self, connection: sqlite3.Connection) -> int:
        """How much is in use past the share of the limit where removing begins.

        The WAL does not count: no removal makes it smaller, and it is folded in time.
        """
        page_bytes, pages, free_pages = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_size", "page_count", "freelist_count")
        )
        used_bytes = (pages - free_pages) * page_bytes
        return int(used_bytes - self._retention.max_bytes * _FULL_SHARE)

    def _shrink(self) -> bool:
        """Where file and WAL are over the limit give some room back; whether more is to be had."""
        limit_bytes = self._retention.max_bytes
        if self._disk_bytes() <= limit_bytes:
            return False
        with self._use() as connection:
            if not fold_wal(connection) or self._disk_bytes() <= limit_bytes:
                return False
            # As a script, because `execute` stops at the first of its empty rows: after one page.
            connection.executescript(f"PRAGMA incremental_vacuum({MAX_VACUUM_PAGES})")
            (free_pages,) = connection.execute("PRAGMA freelist_count").fetchone()
            fold_wal(connection)
            return free_pages > 0 and self._disk_bytes() > limit_bytes

    def _disk_bytes(self) -> int:
        return _size_bytes(self.path) + _size_bytes(wal_path(self.path))


def _up_to(limit_bytes: int, rows: Sequence[tuple[int, str, int]]) -> list[tuple[int, str, int]]:
    """The first of `rows` (number, state, bytes), until they make up `limit_bytes`."""
    chosen = []
    total_bytes = 0
    for row in rows:
        if total_bytes >= limit_bytes:
            break
        chosen.append(row)
        total_bytes += row[2]
    return chosen


def _remove(connection: sqlite3.Connection, seqs: Sequence[int]) -> None:
    with transaction(connection):
        for table in ("spans", "span_bytes"):
            connection.executemany(
                f"DELETE FROM {table} WHERE seq = ?",  # noqa: S608 - constants
                [(seq,) for seq in seqs],
            )


def _size_bytes(path: Path) -> int:
    """Size of a file, 0 where there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _text(value: str) -> str:
    """`value` as SQLite takes it: JSON can spell lone surrogates, UTF-8 cannot."""
    return value.encode("utf-8", "replace").decode()


def _int64(value: int | None) -> int | None:
    """`value` where SQLite can hold it: a larger one is no count, and would cost all the rows."""
    return value if value is not None and -(1 << 63) <= value < 1 << 63 else None
