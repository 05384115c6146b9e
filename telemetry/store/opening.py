"""Opens connections to the store's file.

Only stores are opened for writing (:mod:`telemetry.store.schema`), and only regular files are
opened at all. Only an owner writes and migrates. A reader opens the file read-only.

The file and its companions (``-wal``, ``-shm``) are readable by their owner alone, because prompts
and answers are in them (R7). Neither the file nor any file beside it that has one of our names may
belong to another user, or be a symbolic link (:mod:`telemetry.own_files`). The path of the store
itself may be a link to a file of ours.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote_from_bytes

from telemetry.errors import StoreDamaged, StoreForeign, StoreFull, StoreUnavailable
from telemetry.own_files import check_own
from telemetry.store.schema import check_version, migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

_BUSY_SECONDS = 5.0
"""How long a connection waits for the lock of another one. In WAL mode readers and the writer do
not wait for each other; recovery after a kill and checkpoints are short."""

_STALE_CODES = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY})
"""Errors that may be gone with a new connection: the disk was mounted again, or was read-only."""

_COMPANIONS = ("-wal", "-shm", "-journal", ".lock", ".reserve", ".strikes", ".spool")
"""The endings of files beside the store, which are written without another check."""

PAGE_BYTES = 8 << 10
"""A page in a new file; an old file keeps its size. A span of some KB lies on one or two pages, and
three calls write each: half as many as with SQLite's default of 4 KiB. With 16 KiB, twenty more
bytes in an index would write too much."""

WAL_BYTES = 4 << 20
"""The size at which the WAL is folded in, and to which it is cut back if it grew during a long
read. Without a flush for each commit, a crash of the machine loses no more than this."""

_CACHE_KIB = 8 << 10
"""Pages in memory: with fewer the index of span ids, which come in no order, is read again for
each commit once there are 100,000 of them."""


def check_ownable(path: Path) -> None:
    """Check that the file can be owned, and leave no trace; the file need not exist.

    Raises:
        StoreForeign: it is not a store, or a second name of one; or it is damaged.
        StoreTooNew: a newer version wrote it.
        StoreUnavailable: it cannot be checked, or it or a file beside it is another user's.
    """
    _check_companions(path)
    with explain_os_errors(path):
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return
    _refuse_irregular(path, status)
    with explain_os_errors(path):
        check_own(path.resolve())
    if status.st_nlink > 1:
        raise StoreForeign(
            f"{path} has further names (hard links), by which others might write to it;"
            " remove those, or name another file"
        )
    if status.st_size:
        with explain_sqlite_errors(path), contextlib.closing(open_unchanging(path)) as connection:
            check_version(connection, path)


def _check_companions(path: Path) -> None:
    """Check that the files beside the store under our names are ours.

    Raises:
        StoreUnavailable: one is another user's, or a symbolic link.
    """
    target = path.resolve()
    for suffix in _COMPANIONS:
        companion = Path(f"{target}{suffix}")
        try:
            check_own(companion, is_folder=suffix == ".spool")
        except OSError as error:
            raise StoreUnavailable(
                f"{companion} is not used: {error.strerror}; remove it if it is not needed, or name"
                " another store"
            ) from error


def connect_owner(path: Path, *, fsync_each_commit: bool) -> sqlite3.Connection:
    """Open the store at `path` for writing; make or migrate it if needed.

    Raises:
        StoreForeign: the file is not a store, or damaged.
        StoreTooNew: a newer version wrote it.
        StoreUnavailable: the file or its folder cannot be written.
    """
    _make_file(path)
    with explain_sqlite_errors(path), open_file(path, "rw") as connection:
        version = check_version(connection, path)
        _make_private(path)
        # Both take effect only in an empty file, before anything is written to it.
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if fsync_each_commit else 'NORMAL'}")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_BYTES // page_bytes}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        # Some builds (Debian's) overwrite what is removed with zeros, through the WAL: removing a
        # span wrote as much as recording it. FAST does so only if it costs no further writing.
        connection.execute("PRAGMA secure_delete = FAST")
        if migrate(connection, version):
            # The file alone must be this store, without its WAL. If this fails it comes later.
            with contextlib.suppress(sqlite3.OperationalError):
                fold_wal(connection)
        return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open the store at `path` read-only.

    Raises:
        StoreForeign: the file is not a store.
        StoreTooNew: a newer version wrote it.
        StoreUnavailable: there is no file, or it cannot be read.
    """
    if not path.exists():
        raise StoreUnavailable(
            f"there is no store at {path}: nothing was recorded there yet, or another path is meant"
        )
    with explain_sqlite_errors(path), open_file(path, "ro") as connection:
        check_readable(connection, path)
        return connection


def check_readable(connection: sqlite3.Connection, path: Path) -> None:
    """Check that a file is a store with something in it.

    Raises:
        StoreError: one of its children says why not.
    """
    if check_version(connection, path) == 0:
        raise StoreUnavailable(f"the store {path} is empty: nothing was recorded there yet")


@contextlib.contextmanager
def explain_sqlite_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into those of :mod:`telemetry.errors`."""
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
    """Tell whether a new connection may succeed where this one failed with `error`."""
    return _primary_code(error.__cause__) in _STALE_CODES


def _primary_code(error: BaseException | None) -> int:
    """Return SQLite's primary result code, the low byte of the extended one; 0 if there is none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def wal_path(path: Path) -> Path:
    """Return the path of the write-ahead log of the store at `path`; links are followed."""
    return Path(f"{path.resolve()}-wal")


def shm_path(path: Path) -> Path:
    """Return the path of the index of that log."""
    return Path(f"{path.resolve()}-shm")


def fold_wal(connection: sqlite3.Connection) -> bool:
    """Write the WAL into the file and cut it to nothing; false if a reader is in the way."""
    # Never wait for a reader here: recording would wait too.
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(_BUSY_SECONDS * 1000)}")


def _make_file(path: Path) -> None:
    """Make the file, and its folder, for the owner alone; existing ones stay."""
    with explain_os_errors(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            _refuse_irregular(path, path.stat())
        target = path.resolve()
        os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        check_own(target)


def _refuse_irregular(path: Path, status: os.stat_result) -> None:
    """Refuse a folder, device, FIFO or socket: merely opening a device may do something to it."""
    if not stat.S_ISREG(status.st_mode):
        raise StoreForeign(f"{path} is not a regular file; name another file")


def _make_private(path: Path) -> None:
    """Let only the owner read a file that is ours, and its companions."""
    with explain_os_errors(path):
        path.chmod(0o600)
        # SQLite has opened the file already, and given these the mode that it had.
        for companion in (wal_path(path), shm_path(path)):
            with contextlib.suppress(FileNotFoundError):
                companion.chmod(0o600)


@contextlib.contextmanager
def explain_os_errors(path: Path) -> Iterator[None]:
    """Turn the system's errors into :exc:`~telemetry.errors.StoreUnavailable`."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(
            f"the store {path} cannot be opened for writing: {error.strerror};"
            " fix its permissions, or name another file"
        ) from error


def _file_uri(path: Path, parameters: str) -> str:
    """Make a URI for SQLite; ``Path.as_uri`` would import an HTTP client."""
    return f"file://{quote_from_bytes(bytes(path.absolute()))}?{parameters}"


def open_unchanging(path: Path) -> sqlite3.Connection:
    """Open only the file: the connection neither makes nor reads companions."""
    connection = sqlite3.connect(_file_uri(path, "mode=ro&immutable=1"), uri=True)
    connection.text_factory = read_text
    return connection


@contextlib.contextmanager
def open_file(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """Open an existing file, ``rw`` or ``ro``, for one thread at a time; close it on any error."""
    connection = sqlite3.connect(
        _file_uri(path, f"mode={mode}"),
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.text_factory = read_text
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


class DamagedText(str):
    """A text with bytes that are not UTF-8, each of which became U+FFFD.

    A disk may damage texts, and SQLite does not check them. Python would raise for a whole
    statement, and the row of one flipped bit would hide all others. The reader of a row recognises
    this text by its type; for all others it is a text.
    """

    __slots__ = ()


def read_text(data: bytes) -> str:
    r"""Read a text of SQLite's, for ``text_factory``.

    >>> read_text(b"gpt-5"), type(read_text(b"gpt-\xff")).__name__
    ('gpt-5', 'DamagedText')
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return DamagedText(data.decode("utf-8", "replace"))
