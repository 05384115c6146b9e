"""The open file under a store, mended as it goes.

An operation that :meth:`StoreFile.run` gets happens once and whole, or the call raises
(``docs/contract/promises.md#the-store``, R8).

A store that is damaged is set aside (:mod:`telemetry.store.rescue`), a new one is begun, and the
operation is done there. That is one line in the log, which says what to do. A file is set aside
only if it was a store: its head says so, or an owner has opened this same file as a store
(:mod:`telemetry.store.lock`). Any other file is refused, and stays.

If the disk is full, the reserve (:mod:`telemetry.store.disk_reserve`) is given up, room is made in
the file, and the operation is tried once more. Until the reserve is held again new spans do not
make the file grow: the rest of the disk is for notes about the spans that are there. After an error
that the open file may have caused the next call opens it again, so a disk that was read-only or
away needs no restart.

Before each use the files at the path are compared with the open ones
(:mod:`telemetry.store.opened_files`). If the file was removed, moved away or replaced by an older
copy, the store continues in what is there, or in a new file, with the spans that only the former
file has. One line in the log says so. If another store, or another file, is in its place, that file
is left alone, and every call raises until it is gone. A write-ahead log that was cut is damage; one
that was removed is folded in and begun again.

A file that knows of fewer spans than were recorded in it has lost the others, mostly with its
write-ahead log, which SQLite does not report. One line in the log gives their number. The same line
reports a file that was emptied between two starts, but not a file that was removed.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from telemetry.errors import StoreDamaged, StoreError, StoreFull, StoreUnavailable
from telemetry.store.disk_reserve import DiskReserve
from telemetry.store.lock import StoreLock, has_lock_file
from telemetry.store.mending import end_waits, mend
from telemetry.store.opened_files import Change, OpenedFiles
from telemetry.store.opening import (
    check_ownable,
    connect_owner,
    explain_os_errors,
    explain_sqlite_errors,
    fold_wal,
    is_stale,
    open_unchanging,
)
from telemetry.store.rescue import carry_over, copy_spans, is_marked_as_store, set_aside
from telemetry.store.retention import make_room
from telemetry.store.survey import find_damage
from telemetry.store.tally import read_tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from telemetry.store.rescue import CarriedOver

MAX_START_CHECK_SECONDS = 0.2
"""How long a start looks for damage: long enough for all of a small store, and for the beginning of
a large one."""

MIN_ANEW_SECONDS = 60.0
"""The least time between two new beginnings, so that a disk that damages every file does not make
us write without end: each one removes a file for good (``MAX_DAMAGED_KEPT``), and may take seconds.
Until then damage is an error like any other."""

_MAX_PAGES = (1 << 30) - 1
"""SQLite's own limit for long: 4 TB."""

_logger = logging.getLogger("spantap.store")

_Result = TypeVar("_Result")


class StoreFile:
    """One file and its owner's connection to it. Any thread may call; one lock serialises them.

    Attributes:
        openings: how often a file was opened: what is known of one file need not be true of the
            next.
        missing: spans that were recorded and are lost, with a damaged file or a part of one.
        damaged: single spans that were found to be damaged when it was opened.
        last_seq: the greatest number of a span; operations may read and raise it.
    """

    def __init__(
        self, path: Path, *, fsync_each_commit: bool, holder_pid: int | None = None
    ) -> None:
        """Open and own the store at `path`; it is made if there is none.

        Raises:
            StoreError: one of its children says why it cannot be opened.
        """
        self.path = path
        self.openings = 0
        self.missing = 0
        self.damaged = 0
        self._fsync_each_commit = fsync_each_commit
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._files: OpenedFiles | None = None
        self.last_seq = 0
        self._store_id = ""
        self._set_aside: Path | None = None
        self._former: sqlite3.Connection | None = None
        self._damage_words = ""
        self._anew_seconds: float | None = None
        self._holder_pid = holder_pid
        _refuse_unownable(path)
        self._owner = StoreLock(path, holder_pid)
        self._was_emptied = self._owner.vouches_for(path) and not path.stat().st_size
        self._reserve = DiskReserve(path)
        self._closed = False
        try:
            self.run(end_waits)
            self._reserve.hold()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file and let the next owner in; a second call does nothing."""
        with self._lock:
            self._disconnect()
            if self._former is not None:
                self._former.close()
                self._former = None
            self._owner.release()
            self._closed = True

    def run(self, operation: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Do `operation` on the connection, for one thread at a time.

        It may be done again from its beginning, in a new file or after room was made. So it has to
        be one transaction, or several that each may be repeated.

        Raises:
            StoreError: it was not done.
        """
        with self._lock:
            try:
                return self._attempt(operation)
            except StoreDamaged as damage:
                self._begin_anew(damage)
            except StoreUnavailable as error:
                if not (isinstance(error, StoreFull) or self._reserve.is_needed()):
                    raise
                self._reserve.give_up()
                with contextlib.suppress(StoreUnavailable):
                    self._attempt(make_room)
            return self._attempt(operation)

    def hold_reserve(self) -> None:
        """Hold the reserve again if it was given up, and there is room for it."""
        with self._lock:
            self._reserve.hold()

    @contextlib.contextmanager
    def growth(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Write new spans, inside an operation; the file grows only while the reserve is held."""
        self._reserve.hold()
        if self._reserve.held:
            yield
            return
        connection.execute("PRAGMA max_page_count = 1")  # SQLite raises it to the present size
        try:
            yield
        finally:
            connection.execute(f"PRAGMA max_page_count = {_MAX_PAGES}")

    def note_recorded(self, recorded: int) -> None:
        """Note how many spans were ever recorded, after a commit."""
        self._owner.note_recorded(self._store_id, recorded)

    @contextlib.contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        """Use the connection as it is, for one thread at a time; nothing is mended."""
        with self._lock, explain_sqlite_errors(self.path):
            connection = self._open()
            try:
                yield connection
            finally:
                if self._files is not None:
                    self._files.note_wal()

    def _attempt(self, operation: Callable[[sqlite3.Connection], _Result]) -> _Result:
        self._follow_files()
        try:
            with self.use() as connection:
                return operation(connection)
        except StoreUnavailable as error:
            if is_stale(error):
                self._disconnect()
            raise

    def _open(self) -> sqlite3.Connection:
        """Return the connection, made if there is none."""
        if self._closed:
            raise StoreError(f"the store {self.path} is closed")
        if self._connection is None:
            connection = connect_owner(self.path, fsync_each_commit=self._fsync_each_commit)
            try:
                if not self.openings:
                    self._look_for_damage(connection)
                self._adopt(connection)
            except BaseException:
                connection.close()
                raise
            with explain_os_errors(self.path):
                self._files = OpenedFiles(self.path)
            self._connection = connection
            self.openings += 1
        return self._connection

    def _look_for_damage(self, connection: sqlite3.Connection) -> None:
        """Raise :exc:`StoreDamaged` if a short look finds damage."""
        if words := find_damage(connection, MAX_START_CHECK_SECONDS):
            raise _damage(self.path, words)

    def _adopt(self, connection: sqlite3.Connection) -> None:
        """Finish a new beginning, if one is under way, and remember what this file is."""
        if self._set_aside is not None:
            self._recover(self._set_aside, connection)
            self._set_aside = None
        if self._former is not None:
            self._move_on(self._former, connection)
            self._former.close()
            self._former = None
        self.last_seq = max(self.last_seq, *(seq for (seq,) in connection.execute(_GIVEN)))
        self.damaged += mend(connection, self.path)
        tally = read_tally(connection)
        if self._was_emptied:
            self._tell_missing(self._owner.recorded())
            self._was_emptied = False
        self._tell_missing(self._owner.recorded(tally.store_id) - tally.recorded)
        self._store_id = tally.store_id
        self._owner.vouch_for(self.path)
        self._owner.note_recorded(tally.store_id, tally.recorded)

    def _tell_missing(self, count: int) -> None:
        """Log that spans are lost, if any are."""
        if count > 0:
            self.missing += count
            _logger.error(
                "the store %s lacks the last %d spans that were recorded in it: its write-ahead "
                "log was damaged or removed, or it was emptied, or an older copy of it was put in "
                "its place",
                self.path,
                count,
            )

    def _follow_files(self) -> None:
        """Check that the open files are those at the path; leave them if not.

        Raises:
            StoreDamaged: the write-ahead log was cut.
            StoreError: there is something in the way.
        """
        if self._connection is None or self._files is None:
            return
        if (change := self._files.find_change()) is None:
            return
        if change is Change.WAL_CUT:
            raise _damage(self.path, change.value)
        self._leave(self._connection, self._files, change)

    def _leave(self, connection: sqlite3.Connection, files: OpenedFiles, change: Change) -> None:
        """Leave files that are no longer at the path; the next use opens those that are."""
        if change is Change.FILE_GONE:
            self._refuse_other_store()
        if not self._owner.is_in_place(self.path):  # it went with the file
            owner = StoreLock(self.path, self._holder_pid)
            self._owner.release()
            self._owner = owner
        folded = False
        with contextlib.suppress(sqlite3.Error):
            folded = fold_wal(connection)  # so that a file that was moved away is whole
        if change is Change.WAL_GONE:
            if folded:  # if not, a reader is in the way: next time
                self._disconnect()
            return
        with explain_os_errors(self.path):
            files.remove_wal()
        self._former, self._connection = connection, None

    def _refuse_other_store(self) -> None:
        """Refuse to continue in a file that is not an older copy of ours: it has other numbers."""
        try:
            if not self.path.exists() or not self.path.stat().st_size:
                return
            with contextlib.closing(open_unchanging(self.path)) as connection:
                if read_tally(connection).store_id == self._store_id:
                    return
        except (OSError, sqlite3.Error, TypeError):
            pass  # not ours
        raise StoreUnavailable(
            f"another file was put in the place of the store {self.path} while it was in use;"
            " move it away, and put it there when spantap does not run"
        )

    def _move_on(self, former: sqlite3.Connection, connection: sqlite3.Connection) -> None:
        """Continue in another file with the spans of the former one, and log it."""
        has = sum(read_tally(connection).counts.values())  # some, if it is an older copy
        saved = copy_spans(former, connection, self.last_seq)
        saved = replace(saved, missing=max(0, saved.missing - has))
        _logger.error(
            "the store %s was removed, moved away or replaced while it was in use: a new"
            " one is written, with %d spans of the former file%s; stop spantap before you do that",
            self.path,
            saved.spans,
            _lack(saved),
        )
        self.missing += saved.missing

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _begin_anew(self, damage: StoreDamaged) -> None:
        """Set the damaged file aside, if it was a store; the next use opens a new one."""
        now_seconds = time.monotonic()
        is_soon = (
            self._anew_seconds is not None and now_seconds < self._anew_seconds + MIN_ANEW_SECONDS
        )
        is_ours = self._owner.vouches_for(self.path) or is_marked_as_store(self.path)
        try:
            if is_soon or not is_ours:
                raise damage
            # This comes before it is closed: SQLite would write a damaged log into the file.
            self._set_aside = set_aside(self.path)
        finally:
            self._disconnect()
        self._damage_words = str(damage.__cause__)
        self._anew_seconds = now_seconds

    def _recover(self, damaged: Path, connection: sqlite3.Connection) -> None:
        """Carry over whatever can be read, and log it."""
        saved = carry_over(damaged, connection, self.last_seq)
        if saved.tally is not None:  # only the write-ahead log had the others
            known = self._owner.recorded(saved.tally.store_id)
            saved = replace(saved, missing=saved.missing + max(0, known - saved.tally.recorded))
        _logger.error(
            "the store %s was damaged (%s): it is now %s, and a new one is begun with %d of its "
            "spans%s; `sqlite3 %s .recover` may bring back more",
            self.path,
            self._damage_words,
            damaged,
            saved.spans,
            _lack(saved),
            damaged,
        )
        self.missing += saved.missing


def _refuse_unownable(path: Path) -> None:
    """Refuse what cannot be owned, unless it may be a damaged store.

    This comes before anything is made, so that a refused start leaves nothing behind.

    Raises:
        StoreError: one of its children says why.
    """
    try:
        check_ownable(path)
    except StoreDamaged:
        if not (is_marked_as_store(path) or has_lock_file(path)):
            raise


def _damage(path: Path, words: str) -> StoreDamaged:
    """Make the error that SQLite would have caused."""
    damage = StoreDamaged(f"the store {path} is damaged: {words}")
    damage.__cause__ = sqlite3.DatabaseError(words)
    return damage


def _lack(saved: CarriedOver) -> str:
    """Say what was not carried over."""
    if saved.missing:
        return f" ({saved.missing} more could not be read)"
    return "" if saved.complete else " (not all could be read)"


_GIVEN = """
SELECT CAST(seq AS INTEGER) FROM sqlite_sequence WHERE name = 'spans'
UNION ALL SELECT coalesce(max(seq), 0) FROM spans
"""
