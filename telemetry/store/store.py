"""The store: a durable outbox of spans in one SQLite file, and its owner.

Other rooms rely on these rules (``docs/contract/promises.md#the-store``, R8):

1. One owner per file: a second one gets the holder's process id.
2. A span is recorded once. :meth:`Store.add` ignores a known span id, so replays are harmless. What
   calls of a conversation repeat is stored once (:mod:`telemetry.store.parts`).
3. What :meth:`Store.add` has recorded survives a kill of any process. It survives a crash of the
   machine too if every commit is synced; otherwise such a crash may undo the last commits (since
   the last checkpoint, some 4 MB), but never damages what is older.
4. Spans are sent oldest first. A span that has failed by itself is sent alone, at a separate time,
   and stays pending; the others do not wait for it. New spans are read from memory if that is known
   to equal the file (:mod:`telemetry.store.fresh_spans`).
5. Retention: spans that wait for nobody are removed by age; if the store is too large, delivered
   spans are removed first, pending ones last (:mod:`telemetry.store.retention`). A span that is
   removed unsent is counted as lost.
6. Any thread may call any method: one lock serialises them. Each call is short, except for the one
   that finds the file damaged.
7. A damaged file, or a disk that is full, read-only or away, is dealt with as far as possible
   (:mod:`telemetry.store.file`); otherwise the call raises, has done nothing, and may be repeated.
8. Bytes that were read are used only if they are the bytes that were recorded
   (:mod:`telemetry.store.checksum`). A span with other bytes is set aside, counted and logged.
9. Somebody may delete spans in any state. This is done in short steps, and no byte of the spans
   stays once the file is written again (:mod:`telemetry.store.deletion`). They do not count as
   lost.
10. What is kept beside a span, so that conversations continue after a restart, comes and goes with
    it (:mod:`telemetry.store.kept_calls`).
11. Pictures and raw answers are recorded after their spans, each kind in another transaction. If
    that fails they are lost, and nothing else is (:mod:`telemetry.store.pictures`,
    :mod:`telemetry.store.raw_answers`).
"""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any, Self

from telemetry.rate_limit import RateLimit
from telemetry.store.checksum import DAMAGED_WORDS, is_whole
from telemetry.store.deletion import MAX_DELETE_ROWS, compact, delete, rewrite
from telemetry.store.due_spans import find_due, find_due_alone
from telemetry.store.file import StoreFile
from telemetry.store.fresh_spans import FreshSpans
from telemetry.store.kept_calls import DigestKey, find_last_conversation, find_runs, read_kept_calls
from telemetry.store.parts.families import Families
from telemetry.store.pictures import SHARE as PICTURES_SHARE
from telemetry.store.pictures import insert_pictures
from telemetry.store.raw_answers import SHARE as RAW_SHARE
from telemetry.store.raw_answers import RawRoom, insert_raw_answers
from telemetry.store.retention import (
    find_surplus,
    measure_disk_bytes,
    remove,
    remove_beside,
    shrink,
)
from telemetry.store.rows import PendingSpan, PruneResult, Retention, SpanState, StoreCounts
from telemetry.store.tally import read_tally
from telemetry.store.unobserved_calls import write_unobserved
from telemetry.store.writing import NO_RUNS, RefusedRow, as_storable, as_text, insert, settle

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from telemetry.conversation_position import KeptCalls
    from telemetry.store.rows import CompactStep, DeleteStep, SpanRow

MAX_ERROR_CHARS = 500
"""The longest text that is kept of a backend's error: enough for the reason, too little to fill the
file."""

_logger = logging.getLogger("spantap.store")


class Store:
    """The one owner of a store; use it as a context manager, or :meth:`close` it.

    A method that fails raises :exc:`~telemetry.errors.StoreError`, and has changed nothing.
    """

    def __init__(self, file: StoreFile, *, delivers: bool, retention: Retention) -> None:
        """Own the file that :meth:`open` opened."""
        self._file = file
        self._first_state = SpanState.PENDING if delivers else SpanState.KEPT
        self._retention = retention
        self._lost = 0
        self._damaged = 0
        self._damaged_lines = RateLimit(time.monotonic_ns)
        self._beside_lines = RateLimit(time.monotonic_ns)
        self._deleted_runs: set[int] = set()
        self._fresh = FreshSpans()
        self._key = DigestKey()
        self._families = Families()
        self._raw_room = RawRoom()
        self._known_of = 0  # the opening of the file that these are of

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
        """Open and own the store at `path`; it is made (mode 0600) if there is none.

        Args:
            path: the file; its folder is made (mode 0700) if missing.
            delivers: new spans are to be sent; otherwise the store is their backend.
            retention: how much to keep; 7 days and 1 GiB by default.
            fsync_each_commit: flush the disk at each commit, so that recorded spans survive a crash
                of the machine.
            holder_pid: the process that others are asked to end if they want the store; by default
                this one.

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
        """Close the file and let the next owner in; a second call does nothing."""
        self._file.close()

    def add(self, rows: Sequence[SpanRow], open_runs: Mapping[int, bytes | None] = NO_RUNS) -> int:
        """Record `rows` in one transaction; return how many of them were new.

        Args:
            rows: new spans, each with what is kept of its call.
            open_runs: runs that have changed, by number; ``None`` for one that is over.

        Raises:
            RefusedRow: a row cannot be recorded; added apart, the others can.
        """
        try:
            return self._file.run(lambda connection: self._insert(connection, rows, open_runs))
        except (OverflowError, UnicodeEncodeError, RefusedRow):
            storable = [as_storable(row) for row in rows]
        return self._file.run(lambda connection: self._insert(connection, storable, open_runs))

    def read_due(self, limit_spans: int, limit_bytes: int, now_ns: int) -> list[PendingSpan]:
        """Read the oldest spans that are due at `now_ns`, in order of age.

        At most `limit_spans` spans and `limit_bytes` bytes, but always one if one is due: a single
        span larger than the limit comes alone. Nothing is changed: they stay pending until one of
        the `mark` methods is called. Spans that have failed alone are not among them.
        """

        def select(connection: sqlite3.Connection) -> list[PendingSpan] | None:
            due = find_due(connection, limit_spans, limit_bytes, now_ns)
            if self._set_aside_damaged(connection, due.rows):
                return None
            spans = [PendingSpan(*row[:-1]) for row in due.rows]
            if due.newest_ns is not None:
                self._forget_other_file()
                self._fresh.begin(spans, due.newest_ns)
            return spans

        while (spans := self._file.run(select)) is None:
            pass  # those were damaged: the next ones
        return spans

    def read_fresh(self, limit_spans: int, limit_bytes: int) -> Sequence[PendingSpan] | None:
        """Return what :meth:`read_due` would find at any time, without reading the file.

        ``None`` if only :meth:`read_due` can find it (:mod:`telemetry.store.fresh_spans`).
        """
        with self._file.use():
            self._forget_other_file()
            return self._fresh.read(limit_spans, limit_bytes)

    def read_alone(self, now_ns: int) -> PendingSpan | None:
        """Read the span that has failed alone and is due the longest at `now_ns`."""

        def select(connection: sqlite3.Connection) -> list[PendingSpan] | None:
            rows = find_due_alone(connection, now_ns)
            if self._set_aside_damaged(connection, rows):
                return None
            return [PendingSpan(*row[:-1]) for row in rows]

        while (spans := self._file.run(select)) is None:
            pass  # that one was damaged: the next one
        return spans[0] if spans else None

    def mark_delivered(self, seqs: Iterable[int]) -> None:
        """Note that the backend has accepted these spans."""
        self._settle("last_error = NULL", (), seqs, state=SpanState.DELIVERED)

    def mark_retry(self, seqs: Iterable[int], next_try_ns: int, error: str) -> None:
        """Note that spans could not be sent because of `error`; try again at `next_try_ns`."""
        self._settle(
            "attempts = attempts + 1, next_try_ns = ?, last_error = ?",
            (next_try_ns, as_text(error[:MAX_ERROR_CHARS])),
            seqs,
            put_off=True,
        )

    def mark_failed_alone(self, seq: int, next_try_ns: int, error: str) -> None:
        """Note that a span makes the backend fail with `error`; try it alone at `next_try_ns`."""
        self._settle(
            "attempts = attempts + 1, failed_alone = failed_alone + 1,"
            " next_try_ns = ?, last_error = ?",
            (next_try_ns, as_text(error[:MAX_ERROR_CHARS])),
            (seq,),
        )

    def mark_rejected(self, seqs: Iterable[int], error: str) -> None:
        """Set spans aside that the backend refused with the words `error`."""
        self._settle(
            "attempts = attempts + 1, last_error = ?",
            (as_text(error[:MAX_ERROR_CHARS]),),
            seqs,
            state=SpanState.REJECTED,
        )

    def counts(self) -> StoreCounts:
        """Count the spans in each state; find how long the oldest waits, and the size of all."""

        def count(connection: sqlite3.Connection) -> StoreCounts:
            (oldest_ns,) = connection.execute(
                "SELECT min(recorded_ns) FROM spans WHERE state = 'pending' AND recorded_ns < ''"
            ).fetchone()
            return StoreCounts(
                **read_tally(connection).counts,
                oldest_pending_ns=oldest_ns,
                lost=self._lost,
                damaged=self._damaged + self._file.damaged + self._file.missing,
                size_bytes=measure_disk_bytes(self.path),
            )

        return self._file.run(count)

    def keep_unobserved(self, run_ns: int, counts: Mapping[str, int], now_ns: int) -> None:
        """Remember the unobserved calls of a session of the proxy (:mod:`.unobserved_calls`)."""
        max_age_ns = self._retention.max_age_ns
        self._file.run(lambda it: write_unobserved(it, run_ns, counts, now_ns, max_age_ns))

    def last_seq(self) -> int:
        """Return the greatest number of a span; 0 if there was none.

        The file is not read, because each commit calls this while somebody watches calls.
        """
        return self._file.last_seq

    def last_conversation(self) -> int:
        """Return a number that no conversation exceeds; 0 if nothing was ever recorded."""
        return self._file.run(find_last_conversation)

    def read_kept_calls(self, *, max_calls: int, max_spans: int) -> KeptCalls:
        """Read what is kept beside spans, so that conversations continue (:mod:`.kept_calls`).

        That is what is kept of the newest calls, and the ids of the newest spans. It is done at a
        start: 50,000 calls take some 0.15 s.
        """

        def read(connection: sqlite3.Connection) -> KeptCalls:
            key = self._key.keep(connection, self._file.openings)
            return read_kept_calls(connection, key, max_calls=max_calls, max_spans=max_spans)

        return self._file.run(read)

    def prune(self, now_ns: int) -> PruneResult:
        """Make one step towards the limits of retention: remove spans, give room back.

        Call it every second or so, because between two calls the file grows by what is added, and
        again soon while there is more to do.
        """

        def step(connection: sqlite3.Connection) -> PruneResult:
            surplus = find_surplus(connection, self._retention, now_ns)
            if surplus.raw_answers or surplus.contents:
                remove_beside(connection, surplus.raw_answers, surplus.contents)
            if surplus.rows:
                remove(connection, surplus.rows)
                self._lost += surplus.lost
                if surplus.lost:
                    self._fresh.forget()
            more = shrink(connection, self.path, self._retention.max_bytes) or surplus.more
            return PruneResult(removed=len(surplus.rows), lost=surplus.lost, more=more)

        self._file.hold_reserve()
        return self._file.run(step)

    def delete(self, seqs: Sequence[int]) -> DeleteStep:
        """Delete the first of the spans with these numbers, as many as one step may."""

        def step(connection: sqlite3.Connection) -> DeleteStep:
            runs = find_runs(connection, seqs[:MAX_DELETE_ROWS])
            deleted = delete(connection, seqs)
            self._deleted_runs |= runs
            if deleted.unsent:
                self._fresh.forget()
            return deleted

        return self._file.run(step)

    def pop_deleted_runs(self) -> Collection[int]:
        """Return the runs whose spans were deleted since the last call.

        A caller that still holds texts of theirs has to forget them.
        """
        if not self._deleted_runs:  # most of the time
            return ()
        with self._file.use():
            deleted, self._deleted_runs = self._deleted_runs, set()
        return deleted

    def compact(self, *, gives_back: bool) -> CompactStep:
        """Cut the write-ahead log to nothing and, if asked, give some free pages to the disk.

        Call it again while there are free bytes left, or if a reader was in the way.
        """
        return self._file.run(lambda it: compact(it, self.path, gives_back=gives_back))

    def rewrite(self) -> CompactStep:
        """Write the file again, for an owner that has nothing else to do meanwhile.

        Nothing is mended, and no room is made by removing spans.
        """
        with self._file.use() as connection:
            return rewrite(connection, self.path)

    def _insert(
        self,
        connection: sqlite3.Connection,
        rows: Sequence[SpanRow],
        open_runs: Mapping[int, bytes | None],
    ) -> int:
        """Record `rows` and the changes of runs; return how many rows were new."""
        self._key.follow(connection, self._file.openings)
        if self._deleted_runs and open_runs:  # their maker did not know of the deletion
            gone = self._deleted_runs
            open_runs = {run: None if run in gone else kept for run, kept in open_runs.items()}
        first_seq = self._file.last_seq + 1
        self._file.last_seq += len(rows)  # never given again, even if this fails
        self._forget_other_file()
        try:
            with self._file.growth(connection):
                new, recorded = insert(
                    connection,
                    rows,
                    first_seq,
                    self._first_state,
                    families=self._families,
                    open_runs=open_runs,
                )
        except BaseException:
            self._fresh.forget()  # they may have been committed after all
            self._families.forget()  # or not
            raise
        self._file.note_recorded(recorded)
        self._keep_beside(connection, new)
        if self._first_state is SpanState.PENDING:
            self._fresh.add(new)
        return len(new)

    def _keep_beside(
        self, connection: sqlite3.Connection, new: Sequence[tuple[int, SpanRow]]
    ) -> None:
        """Record the pictures and the raw answers of new spans, if that is possible."""
        max_bytes = self._retention.max_bytes
        if calls := [(seq, row.pictures) for seq, row in new if row.pictures]:
            line = "pictures of %d calls are not in the store %s, which has their spans: %s"
            with self._sparing_spans(connection, line, len(calls)):
                insert_pictures(connection, calls, max_bytes // PICTURES_SHARE)
        if answers := [(seq, row.raw) for seq, row in new if row.raw is not None]:
            line = "raw answers of %d calls are not in the store %s, which has their spans: %s"
            with self._sparing_spans(connection, line, len(answers)):
                insert_raw_answers(connection, answers, max_bytes // RAW_SHARE, self._raw_room)

    @contextlib.contextmanager
    def _sparing_spans(
        self, connection: sqlite3.Connection, line: str, count: int
    ) -> Iterator[None]:
        """Record something beside the spans of so many calls; a failure only logs the line."""
        try:
            with self._file.growth(connection):
                yield
        except Exception as error:  # noqa: BLE001 - it must not cost a span
            if self._beside_lines.admit() is not None:
                _logger.warning(line, count, self.path, type(error).__name__)

    def _forget_other_file(self) -> None:
        """Forget what is known of a file, if another one is open now."""
        if self._known_of != self._file.openings:
            self._fresh.forget()
            self._families.forget()
            self._raw_room = RawRoom()
            self._known_of = self._file.openings

    def _settle(
        self,
        change: str,
        values: tuple[str | int, ...],
        seqs: Iterable[int],
        *,
        state: SpanState | None = None,
        put_off: bool = False,
    ) -> None:
        """Write down what became of spans, in one transaction; once settled they do not change."""
        settled = set(seqs)

        def update(connection: sqlite3.Connection) -> None:
            settle(connection, settled, change, values, state)
            if put_off:
                self._fresh.forget()
            else:
                self._fresh.settle(settled)

        self._file.run(update)

    def _set_aside_damaged(
        self, connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]
    ) -> bool:
        """Set spans aside whose bytes are not what was recorded; true if there were any.

        Rows are number, span id, bytes, how often it failed alone, and the checksum of a pending
        span.
        """
        damaged = {
            seq: span_id
            for seq, span_id, span, failed_alone, recorded in rows
            if not (is_whole(span, recorded) and type(span_id) is str and type(failed_alone) is int)
        }
        if damaged:
            self._families.forget()  # later spans must not use what is damaged
            settle(connection, damaged, "last_error = ?", (DAMAGED_WORDS,), SpanState.REJECTED)
            self._damaged += len(damaged)
            if self._damaged_lines.admit() is not None:
                _logger.error(
                    "%d spans of the store %s are damaged so far, the last of them %s: they are set"
                    " aside and not sent; check the disk",
                    self._damaged,
                    self.path,
                    list(damaged.values())[-1],
                )
        return bool(damaged)
