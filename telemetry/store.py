"""The store: a durable outbox of spans in one SQLite file, and its owner.

Rules (``design.md`` section 3, "The store"; R8):

1. One owner per file: a second one is told the holder's process id.
2. A span is recorded once. :meth:`Store.add` leaves a span id that it knows alone, so that replays
   are harmless.
3. What :meth:`Store.add` returned from survives a kill of any process. It survives a crash of the
   machine too when every commit is synced; otherwise such a crash may take the last commits (since
   the last checkpoint, some 4 MB), but never damages what is older.
4. Spans go out oldest first. One that has failed by itself goes alone, at its own time, and stays
   pending; the others do not wait for it.
5. Retention: what nobody waits for goes by age; by size delivered spans go first, pending ones
   last (:mod:`telemetry.store_retention`). A span removed unsent is counted as lost.
6. Any thread may call any method: one lock serialises them. Each call is short, but for the one
   that finds the file damaged.
7. A file that is damaged, a disk that is full, read-only or away: each is mended as far as it can
   be (:mod:`telemetry.store_file`), else the call raises, has done nothing, and may be repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from telemetry.schema import transaction
from telemetry.store_file import StoreFile
from telemetry.store_retention import find_surplus, measure_disk_bytes, remove, shrink
from telemetry.store_rows import PendingSpan, PruneResult, Retention, SpanState, StoreCounts

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from telemetry.store_rows import SpanRow

__all__ = ("MAX_ERROR_CHARS", "Store")

MAX_ERROR_CHARS = 500
"""A backend's words are kept up to here: enough to see the reason, not enough to fill the file."""

_INSERT = """
INSERT INTO spans (
    span_id, trace_id, name, start_ns, end_ns, model, status, outcome,
    prompt_tokens, completion_tokens, total_tokens, size_bytes, state, recorded_ns
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (span_id) DO NOTHING
"""

_DUE = """
FROM spans WHERE state = 'pending' AND failed_alone = 0 AND next_try_ns <= ?
ORDER BY recorded_ns, seq LIMIT ?
"""

_DUE_ALONE = """
SELECT seq, span_id, span, failed_alone FROM spans JOIN span_bytes USING (seq)
WHERE state = 'pending' AND failed_alone > 0 AND next_try_ns <= ? ORDER BY next_try_ns, seq LIMIT 1
"""


class Store:
    """The one owner of a store; use it as a context manager, or :meth:`close` it."""

    def __init__(self, file: StoreFile, *, delivers: bool, retention: Retention) -> None:
        """Take over what :meth:`open` opened."""
        self._file = file
        self._first_state = SpanState.PENDING if delivers else SpanState.KEPT
        self._retention = retention
        self._lost = 0

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        delivers: bool = True,
        retention: Retention | None = None,
        fsync_each_commit: bool = False,
        holder_pid: int | None = None,
    ) -> Self:
        """Own the store at `path`, made (mode 0600) where there is none.

        Args:
            path: the file; its folder is made (mode 0700) where missing.
            delivers: new spans are to be sent; otherwise the store is their backend.
            retention: how much to keep; 7 days and 1 GiB where not given.
            fsync_each_commit: rule 3's promise against a crash of the machine, for a disk flush
                per commit.
            holder_pid: whom others that want the store are told to end; this process where not
                given.

        Raises:
            StoreError: one of its children says why the store cannot be opened.
        """
        file = StoreFile(path, fsync_each_commit=fsync_each_commit, holder_pid=holder_pid)
        return cls(file, delivers=delivers, retention=retention or Retention())

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and let the next owner in; done twice, it does nothing."""
        self._file.close()

    def add(self, rows: Sequence[SpanRow]) -> int:
        """Record `rows` in one transaction; how many of them were new (rule 2).

        Raises:
            StoreError: nothing of them was recorded.
        """

        def insert(connection: sqlite3.Connection) -> int:
            added = last_seq = 0
            with self._file.growth(connection), transaction(connection):
                for row in rows:
                    cursor = connection.execute(_INSERT, self._values(row))
                    if cursor.rowcount:
                        added += 1
                        last_seq = cursor.lastrowid or 0
                        connection.execute(
                            "INSERT INTO span_bytes (seq, span) VALUES (?, ?)", (last_seq, row.span)
                        )
            self._file.note_seq(last_seq)
            return added

        return self._file.run(insert)

    def take(self, limit_spans: int, limit_bytes: int, now_ns: int) -> list[PendingSpan]:
        """The oldest spans that are due at `now_ns`, in order of age (rule 4).

        At most `limit_spans` spans and `limit_bytes` bytes, but always one where one is due: a
        single span larger than the limit comes alone. Nothing is changed: they stay pending until
        their fate is reported. Spans that have failed alone are not among them.

        Raises:
            StoreError: the store cannot be read.
        """

        def select(connection: sqlite3.Connection) -> list[PendingSpan]:
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
            return [PendingSpan(*row) for row in rows]

        return self._file.run(select)

    def take_alone(self, now_ns: int) -> PendingSpan | None:
        """Of the spans that have failed alone the one that is due the longest at `now_ns`.

        Raises:
            StoreError: the store cannot be read.
        """
        row = self._file.run(
            lambda connection: connection.execute(_DUE_ALONE, (now_ns,)).fetchone()
        )
        return None if row is None else PendingSpan(*row)

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

    def mark_failed_alone(self, seq: int, next_try_ns: int, error: str) -> None:
        """This one span makes the backend fail with `error`; try it alone at `next_try_ns`.

        Raises:
            StoreError: it stays pending and due, as it was.
        """
        self._settle(
            "attempts = attempts + 1, failed_alone = failed_alone + 1,"
            " next_try_ns = ?, last_error = ?",
            (next_try_ns, _text(error[:MAX_ERROR_CHARS])),
            (seq,),
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

        def count(connection: sqlite3.Connection) -> StoreCounts:
            by_state = dict(connection.execute("SELECT state, count(*) FROM spans GROUP BY state"))
            (oldest_ns,) = connection.execute(
                "SELECT min(recorded_ns) FROM spans WHERE state = 'pending'"
            ).fetchone()
            return StoreCounts(
                **by_state,
                oldest_pending_ns=oldest_ns,
                lost=self._lost,
                size_bytes=measure_disk_bytes(self.path),
            )

        return self._file.run(count)

    def prune(self, now_ns: int) -> PruneResult:
        """Take one step to what retention wants: remove spans, give room back (rule 5).

        Call it every second or so, because between two calls the file grows by what is added, and
        again soon while there is more to do.

        Raises:
            StoreError: the store cannot be written.
        """

        def step(connection: sqlite3.Connection) -> PruneResult:
            surplus = find_surplus(connection, self._retention, now_ns)
            if surplus.seqs:
                remove(connection, surplus.seqs)
                self._lost += surplus.lost
            more = shrink(connection, self.path, self._retention.max_bytes) or surplus.more
            return PruneResult(removed=len(surplus.seqs), lost=surplus.lost, more=more)

        self._file.hold_reserve()
        return self._file.run(step)

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
        parameters = [(*values, seq) for seq in seqs]

        def update(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                connection.executemany(
                    f"UPDATE spans SET {change} WHERE seq = ? AND state = 'pending'",  # noqa: S608 - constants
                    parameters,
                )

        self._file.run(update)


def _text(value: str) -> str:
    """`value` as SQLite takes it: JSON can spell lone surrogates, UTF-8 cannot."""
    return value.encode("utf-8", "replace").decode()


def _int64(value: int | None) -> int | None:
    """`value` where SQLite can hold it: a larger one is no count, and would cost all the rows."""
    return value if value is not None and -(1 << 63) <= value < 1 << 63 else None
