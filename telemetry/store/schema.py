"""The tables of the store, and how a connection to its file is opened.

Rules:

1. The file says what it is: ``application_id`` is :data:`APPLICATION_ID`, ``user_version`` counts
   the migrations it has had. Anything else is refused, never altered: no other program's database,
   and nothing that is no regular file.
2. A migration runs whole or not at all, and is never edited once released: append the next one.
3. Only an owner writes, and only an owner migrates. A reader opens the file read-only.
4. The file and its companions (``-wal``, ``-shm``) are readable by their owner alone: prompts and
   answers are in them (R7). SQLite gives the companions the mode of the file. A file is made with
   that mode; one that was there gets it once rule 1 has found it to be ours.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote_from_bytes

from telemetry.errors import (
    StoreDamaged,
    StoreForeign,
    StoreFull,
    StoreTooNew,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = (
    "APPLICATION_ID",
    "MIGRATIONS",
    "PAGE_BYTES",
    "WAL_BYTES",
    "check_ownable",
    "connect_owner",
    "connect_reader",
    "explain_os_errors",
    "explain_sqlite_errors",
    "fold_wal",
    "is_stale",
    "open_file",
    "open_unchanging",
    "shm_path",
    "transaction",
    "wal_path",
)

APPLICATION_ID = 0x5370_5470
"""``SpTp``: tells a store from any other SQLite file."""

_BUSY_SECONDS = 5.0
"""How long a connection waits for another's lock. In WAL mode readers and the writer do not wait
for each other; recovery after a kill and checkpoints are short."""

_STALE_CODES = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY})
"""Errors that may lie in the open file rather than in the disk: it was mounted anew, moved, or
became read-only for a time."""

PAGE_BYTES = 8 << 10
"""Pages of a new file; an old one keeps its own. A span of some KB lies on one or two of them, and
each is written by three calls: half as many as with SQLite's own 4 KiB. Of 16 KiB a span that adds
twenty bytes to an index would write too much."""

WAL_BYTES = 4 << 20
"""The WAL is folded in when it has come to this, and is cut back to it where it grew under a long
reader. What a crash of the machine may take without a flush for each commit is no more."""

_CACHE_KIB = 8 << 10
"""Pages that stay in memory: else the index of span ids, which come in no order, is read again for
each commit once there are 100,000 of them."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # One row per span. AUTOINCREMENT: a number is never given twice, so that whoever follows
        # the store by number misses nothing when the newest rows are pruned.
        """
        CREATE TABLE spans (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            span_id TEXT NOT NULL UNIQUE,
            trace_id TEXT NOT NULL,
            name TEXT NOT NULL,
            start_ns INTEGER NOT NULL,
            end_ns INTEGER NOT NULL,
            model TEXT,
            status TEXT NOT NULL,
            outcome TEXT NOT NULL,
            prompt_tokens INTEGER,
            completion_tokens INTEGER,
            total_tokens INTEGER,
            size_bytes INTEGER NOT NULL,
            state TEXT NOT NULL,
            attempts INTEGER NOT NULL DEFAULT 0,
            next_try_ns INTEGER NOT NULL DEFAULT 0,
            last_error TEXT,
            recorded_ns INTEGER NOT NULL
        )
        """,
        # The bytes lie apart: a change of state would write them anew (a third more CPU and twice
        # the WAL at 200 KB a span), and lists and counts would wade through them.
        "CREATE TABLE span_bytes (seq INTEGER PRIMARY KEY, span BLOB NOT NULL)",
        "CREATE INDEX spans_by_state ON spans (state, recorded_ns)",
        "CREATE INDEX spans_by_trace ON spans (trace_id)",
    ),
    (
        # How often a span failed by itself while the backend took others: one that did is tried
        # alone (telemetry.export.suspicion). Few do, so the index holds them only.
        "ALTER TABLE spans ADD COLUMN failed_alone INTEGER NOT NULL DEFAULT 0",
        """
        CREATE INDEX spans_alone ON spans (next_try_ns)
        WHERE failed_alone > 0 AND state = 'pending'
        """,
    ),
    (
        # Trace ids are random: in a large store every span wrote a page of its own of this index,
        # a third of what recording it cost. Who looks for a trace reads all rows, in some 0.1 s.
        "DROP INDEX spans_by_trace",
    ),
    (
        # Of the bytes as they were recorded (telemetry.store.checksum); older spans have none.
        "ALTER TABLE spans ADD COLUMN checksum INTEGER",
        # One row (telemetry.store.tally).
        """
        CREATE TABLE tally (
            store_id TEXT NOT NULL,
            recorded INTEGER NOT NULL,
            pending INTEGER NOT NULL,
            delivered INTEGER NOT NULL,
            rejected INTEGER NOT NULL,
            kept INTEGER NOT NULL
        )
        """,
        """
        INSERT INTO tally SELECT
            lower(hex(randomblob(8))),
            count(*),
            count(*) FILTER (WHERE state = 'pending'),
            count(*) FILTER (WHERE state = 'delivered'),
            count(*) FILTER (WHERE state = 'rejected'),
            count(*) FILTER (WHERE state = 'kept')
        FROM spans
        """,
    ),
    (
        # Calls that were relayed and not observed, by run of the proxy and path
        # (telemetry.store.unobserved_calls).
        """
        CREATE TABLE unobserved (
            run_ns INTEGER NOT NULL,
            path TEXT NOT NULL,
            calls INTEGER NOT NULL,
            last_ns INTEGER NOT NULL,
            UNIQUE (run_ns, path)
        )
        """,
    ),
)
"""The statements of each migration; the file's ``user_version`` counts those it has had."""


def check_ownable(path: Path) -> None:
    """Look at the file that is to be owned, without a trace; what is not there yet will do.

    Raises:
        StoreForeign: it is no store (rule 1), or a second name of one; or it is damaged.
        StoreTooNew: its schema is newer than :data:`MIGRATIONS`.
        StoreUnavailable: it cannot be looked at.
    """
    with explain_os_errors(path):
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return
    _refuse_irregular(path, status)
    if status.st_nlink > 1:
        raise StoreForeign(
            f"{path} has further names (hard links), by which others might write to it;"
            " remove those, or name another file"
        )
    if status.st_size:
        with explain_sqlite_errors(path), contextlib.closing(open_unchanging(path)) as connection:
            _checked_version(connection, path)


def connect_owner(path: Path, *, fsync_each_commit: bool) -> sqlite3.Connection:
    """Open the store at `path` for writing; make or migrate it where needed.

    Raises:
        StoreForeign: the file is no store (rule 1), or damaged.
        StoreTooNew: its schema is newer than :data:`MIGRATIONS`.
        StoreUnavailable: the file or its folder cannot be written.
    """
    _make_file(path)
    with explain_sqlite_errors(path), open_file(path, "rw") as connection:
        version = _checked_version(connection, path)
        _make_private(path)
        # Both take effect in an empty file only, and only before anything is written to it.
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if fsync_each_commit else 'NORMAL'}")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_BYTES // page_bytes}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        # Some builds (Debian's) overwrite what is removed with zeros, through the WAL: removing a
        # span wrote as much as recording it. FAST does so where it costs no further writing.
        connection.execute("PRAGMA secure_delete = FAST")
        for number, statements in enumerate(MIGRATIONS[version:], start=version + 1):
            _migrate(connection, number, statements)
        if version < len(MIGRATIONS):
            # Without its WAL the file still is this store. Where this fails it is folded in later.
            with contextlib.suppress(sqlite3.OperationalError):
                fold_wal(connection)
        return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open the store at `path` read-only.

    Raises:
        StoreForeign: the file is no store (rule 1).
        StoreTooNew: its schema is newer than :data:`MIGRATIONS`.
        StoreUnavailable: there is no file, or it cannot be read.
    """
    if not path.exists():
        raise StoreUnavailable(
            f"there is no store at {path}: nothing was recorded there yet, or another path is meant"
        )
    with explain_sqlite_errors(path), open_file(path, "ro") as connection:
        if _checked_version(connection, path) == 0:
            raise StoreUnavailable(f"the store {path} is empty: nothing was recorded there yet")
        return connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All writes inside are one: committed at the end, or undone on any error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # Some errors (disk full) have rolled back already; what is reported is the first error.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def explain_sqlite_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into the tree of :mod:`telemetry.errors`.

    Raises:
        StoreDamaged: the file is damaged or no database.
        StoreFull: the disk has no room.
        StoreUnavailable: any other trouble with the file.
    """
    try:
        yield
    except sqlite3.Error as error:
        code = _primary_code(error)
        if code in {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}:
            raise StoreDamaged(
                f"{path} is damaged or no SQLite database ({error});"
                " move it away, or name another file"
            ) from error
        if code == sqlite3.SQLITE_FULL:
            raise StoreFull(
                f"the store {path} cannot be written: {error}; make room on its disk"
            ) from error
        raise StoreUnavailable(f"the store {path} cannot be used: {error}") from error


def is_stale(error: StoreUnavailable) -> bool:
    """Whether what failed with `error` may work again in a new connection only."""
    return _primary_code(error.__cause__) in _STALE_CODES


def _primary_code(error: BaseException | None) -> int:
    """SQLite's primary result code, the low byte of the extended one; 0 where there is none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def wal_path(path: Path) -> Path:
    """The path of the write-ahead log of the store at `path`, beside what a link leads to."""
    return Path(f"{path.resolve()}-wal")


def shm_path(path: Path) -> Path:
    """The path of the index of that log."""
    return Path(f"{path.resolve()}-shm")


def fold_wal(connection: sqlite3.Connection) -> bool:
    """Write the WAL into the file and cut it to nothing; false where a reader does not let it."""
    # Never wait for a reader here: whoever prunes holds up those who record.
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(_BUSY_SECONDS * 1000)}")


def _make_file(path: Path) -> None:
    """Make the file, and its folder, for the owner alone (rule 4); what is there stays as it is."""
    with explain_os_errors(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            _refuse_irregular(path, path.stat())
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _refuse_irregular(path: Path, status: os.stat_result) -> None:
    """Refuse what is not even to be opened: that alone may do something to a device.

    Raises:
        StoreForeign: it is a folder, a device, a FIFO or a socket.
    """
    if not stat.S_ISREG(status.st_mode):
        raise StoreForeign(f"{path} is no regular file; name another file")


def _make_private(path: Path) -> None:
    """Give a file that is ours the mode that rule 4 wants."""
    with explain_os_errors(path):
        path.chmod(0o600)
        # To find out whose the file is SQLite has opened it, and given these the mode it had.
        for companion in (wal_path(path), shm_path(path)):
            with contextlib.suppress(FileNotFoundError):
                companion.chmod(0o600)


@contextlib.contextmanager
def explain_os_errors(path: Path) -> Iterator[None]:
    """Turn the system's errors into the tree of :mod:`telemetry.errors`.

    Raises:
        StoreUnavailable: the file or its folder cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(
            f"the store {path} cannot be opened for writing: {error.strerror};"
            " mend its permissions, or name another file"
        ) from error


def _file_uri(path: Path, parameters: str) -> str:
    """What SQLite is given to open a file in a way; ``Path.as_uri`` imports an HTTP client."""
    return f"file://{quote_from_bytes(bytes(path.absolute()))}?{parameters}"


def open_unchanging(path: Path) -> sqlite3.Connection:
    """A connection that makes no companions and reads none: what the file alone holds.

    Raises:
        sqlite3.Error: it cannot be opened.
    """
    return sqlite3.connect(_file_uri(path, "mode=ro&immutable=1"), uri=True)


@contextlib.contextmanager
def open_file(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """A connection whose transactions are ours, for one thread at a time; closed on any error.

    Args:
        path: the file, which has to be there.
        mode: ``rw`` or ``ro``.

    Raises:
        sqlite3.Error: it cannot be opened.
    """
    connection = sqlite3.connect(
        _file_uri(path, f"mode={mode}"),
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


def _checked_version(connection: sqlite3.Connection, path: Path) -> int:
    """How many migrations the file has had; 0 for an empty one (rule 1)."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables:
        return 0
    if application_id != APPLICATION_ID:
        raise StoreForeign(f"{path} is another program's database; name another file")
    if version > len(MIGRATIONS):
        raise StoreTooNew(
            f"the store {path} was written by a newer spantap (schema {version}, this one knows"
            f" {len(MIGRATIONS)}); use that version, or name another file"
        )
    return int(version)


def _migrate(connection: sqlite3.Connection, number: int, statements: tuple[str, ...]) -> None:
    """Run one migration, whole (rule 2)."""
    with transaction(connection):
        for statement in statements:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {number}")
