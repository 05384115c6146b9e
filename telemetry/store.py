"""The store: a durable outbox of spans in one SQLite file, and its owner.

Rules (``design.md`` section 3, "The store"; R8):

1. One owner per file: a second one is told the holder's process id.
2. A span is recorded once. :meth:`Store.add` leaves a span id that it knows alone, so that replays
   are harmless.
3. What :meth:`Store.add` returned from survives a kill of any process. It survives a crash of the
   machine too when every commit is synced; otherwise such a crash may take the last commits (since
   the last checkpoint, some 4 MB), but never damages what is older.
4. Spans go out oldest first. One that has failed by itself goes alone, at its own time, and stays
   pending; the others do not wait for it. What was just added comes from memory where that is
   known to say the same as the file (:mod:`telemetry.fresh_spans`).
5. Retention: what nobody waits for goes by age; by size delivered spans go first, pending ones
   last (:mod:`telemetry.store_retention`). A span removed unsent is counted as lost.
6. Any thread may call any method: one lock serialises them. Each call is short, but for the one
   that finds the file damaged.
7. A file that is damaged, a disk that is full, read-only or away: each is mended as far as it can
   be (:mod:`telemetry.store_file`), else the call raises, has done nothing, and may be repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from msgspec.structs import replace

from telemetry.fresh_spans import FreshSpans
from telemetry.schema import transaction
from telemetry.store_file import StoreFile
from telemetry.store_retention import find_surplus, measure_disk_bytes, remove, shrink
from telemetry.store_rows import PendingSpan, PruneResult, Retention, SpanState, StoreCounts
from telemetry.unobserved_calls import write_unobserved

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from telemetry.store_rows import SpanRow

__all__ = ("MAX_ERROR_CHARS", "Store")

MAX_ERROR_CHARS = 500
"""A backend's words are kept up to here: enough to see the reason, not enough to fill the file."""

_INSERT = """
INSERT INTO spans (
    seq, span_id, trace_id, name, start_ns, end_ns, model, status, outcome,
    prompt_tokens, completion_tokens, total_tokens, size_bytes, state, recorded_ns
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (span_id) DO NOTHING
"""

_INSERT_BYTES = "INSERT INTO span_bytes (seq, span) VALUES (?, ?)"

_DUE = """
FROM spans WHERE state = 'pending' AND failed_alone = 0 AND next_try_ns <= ?
ORDER BY recorded_ns, seq LIMIT ?
"""

_WAITING = """
SELECT 1 FROM spans WHERE state = 'pending' AND failed_alone = 0 AND next_try_ns > ? LIMIT 1
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
        self._first_state = (SpanState.PENDING if delivers else SpanState.KEPT).value
        self._retention = retention
        self._lost = 0
        self._fresh = FreshSpans()
        self._fresh_of = 0  # the opening of the file that they are of

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
        try:
            return self._file.run(lambda connection: self._insert(connection, rows))
        except (OverflowError, UnicodeEncodeError):
            storable = [_storable(row) for row in rows]
        return self._file.run(lambda connection: self._insert(connection, storable))

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
            sizes = connection.execute(
                f"SELECT size_bytes, recorded_ns {_DUE}", (now_ns, limit_spans)
            ).fetchall()
            for size_bytes, _ in sizes:
                total_bytes += size_bytes
                if count and total_bytes > limit_bytes:
                    break
                count += 1
            rows = connection.execute(
                "SELECT seq, span_id, span FROM span_bytes JOIN"  # noqa: S608 - constants
                f" (SELECT seq, span_id, recorded_ns {_DUE}) USING (seq) ORDER BY recorded_ns, seq",
                (now_ns, count),
            )
            spans = [PendingSpan(*row) for row in rows]
            if len(spans) == len(sizes) < limit_spans and not self._has_waiting(connection, now_ns):
                self._fresh.begin(spans, sizes[-1][1] if sizes else 0)
                self._fresh_of = self._file.openings
            return spans

        return self._file.run(select)

    def take_fresh(self, limit_spans: int, limit_bytes: int) -> Sequence[PendingSpan] | None:
        """What :meth:`take` would give at any time, without reading the file.

        ``None`` where only :meth:`take` can tell, as at the beginning; what it finds makes this
        one know again (:mod:`telemetry.fresh_spans`).

        Raises:
            StoreError: the store cannot be used.
        """

        def recall(_connection: sqlite3.Connection) -> Sequence[PendingSpan] | None:
            if self._fresh_of != self._file.openings:
                self._fresh.forget()
            return self._fresh.take(limit_spans, limit_bytes)

        return self._file.run(recall)

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
            put_off=True,
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

    def keep_unobserved(self, run_ns: int, counts: Mapping[str, int], now_ns: int) -> None:
        """Remember how many calls a run has relayed unobserved (:mod:`telemetry.unobserved_calls`).

        Raises:
            StoreError: nothing of it was recorded.
        """
        max_age_ns = self._retention.max_age_ns
        self._file.run(lambda it: write_unobserved(it, run_ns, counts, now_ns, max_age_ns))

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
                if surplus.lost:
                    self._fresh.forget()
            more = shrink(connection, self.path, self._retention.max_bytes) or surplus.more
            return PruneResult(removed=len(surplus.seqs), lost=surplus.lost, more=more)

        self._file.hold_reserve()
        return self._file.run(step)

    def _insert(self, connection: sqlite3.Connection, rows: Sequence[SpanRow]) -> int:
        """Record `rows`; how many were new.

        Raises:
            OverflowError, UnicodeEncodeError: SQLite cannot hold what is in one; none is recorded.
        """
        first_seq = self._file.last_seq + 1
        self._file.note_seq(self._file.last_seq + len(rows))  # never again, if this fails too
        numbered = list(enumerate(rows, first_seq))
        values = [
            (
                seq,
                row.span_id,
                row.trace_id,
                row.name,
                row.start_ns,
                row.end_ns,
                row.model,
                row.status,
                row.outcome,
                row.prompt_tokens,
                row.completion_tokens,
                row.total_tokens,
                len(row.span),
                self._first_state,
                row.recorded_ns,
            )
            for seq, row in numbered
        ]
        try:
            with self._file.growth(connection), transaction(connection):
                if connection.executemany(_INSERT, values).rowcount < len(rows):  # some are known
                    given = connection.execute("SELECT seq FROM spans WHERE seq >= ?", (first_seq,))
                    new = {seq for (seq,) in given}
                    numbered = [pair for pair in numbered if pair[0] in new]
                connection.executemany(_INSERT_BYTES, [(seq, row.span) for seq, row in numbered])
        except BaseException:
            self._fresh.forget()  # they may have been committed all the same
            raise
        if self._first_state == SpanState.PENDING:
            self._fresh.add(numbered)
        return len(numbered)

    def _has_waiting(self, connection: sqlite3.Connection, now_ns: int) -> bool:
        """Whether spans are pending that are not due yet, and have not failed alone."""
        return connection.execute(_WAITING, (now_ns,)).fetchone() is not None

    def _settle(
        self,
        change: str,
        values: tuple[str | int, ...],
        seqs: Iterable[int],
        *,
        put_off: bool = False,
    ) -> None:
        """Report the fate of spans, in one transaction; a settled span is not changed again."""
        settled = set(seqs)
        parameters = [(*values, *run) for run in _runs(settled)]

        def update(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                connection.executemany(
                    f"UPDATE spans SET {change} WHERE seq BETWEEN ? AND ? AND state = 'pending'",  # noqa: S608 - constants
                    parameters,
                )
            if put_off:
                self._fresh.forget()
            else:
                self._fresh.settle(settled)

        self._file.run(update)


def _runs(seqs: Iterable[int]) -> list[tuple[int, int]]:
    """The same numbers as ranges (first, last): a statement for each, usually one for them all."""
    runs: list[tuple[int, int]] = []
    first = last = 0
    for seq in sorted(seqs):
        if runs and seq <= last + 1:
            runs[-1] = (first, seq)
        else:
            first = seq
            runs.append((first, first))
        last = seq
    return runs


def _storable(row: SpanRow) -> SpanRow:
    """The same, as SQLite can hold it."""
    return replace(
        row,
        name=_text(row.name),
        model=None if row.model is None else _text(row.model),
        outcome=_text(row.outcome),
        prompt_tokens=_int64(row.prompt_tokens),
        completion_tokens=_int64(row.completion_tokens),
        total_tokens=_int64(row.total_tokens),
    )


def _text(value: str) -> str:
    """`value` as SQLite takes it: JSON can spell lone surrogates, UTF-8 cannot."""
    return value.encode("utf-8", "replace").decode()


def _int64(value: int | None) -> int | None:
    """`value` where SQLite can hold it: a larger one is no count, and would cost all the rows."""
    return value if value is not None and -(1 << 63) <= value < 1 << 63 else None
