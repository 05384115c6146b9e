"""``telemetry.store.schema`` and ``opening``: what a file has to be, and what becomes of it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from typing import TYPE_CHECKING

import pytest

from telemetry.errors import StoreForeign, StoreTooNew, StoreUnavailable
from telemetry.store import schema
from telemetry.store.opening import PAGE_BYTES, WAL_BYTES, connect_owner, connect_reader
from telemetry.store.schema import APPLICATION_ID, MIGRATIONS
from telemetry.store.store import Store
from tests.telemetry.span_rows import make_row

if TYPE_CHECKING:
    from pathlib import Path


def execute(path: Path, *statements: str) -> list[object]:
    """Run statements on a file as any other program would; the first column of the last."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements[:-1]:
            connection.execute(statement)
        return [row[0] for row in connection.execute(statements[-1])]


def make_store(path: Path) -> None:
    """Make or migrate the store."""
    connect_owner(path, fsync_each_commit=False).close()


def test_new_file_says_what_it_is(path: Path) -> None:
    """Application id, count of migrations, WAL and incremental vacuum are in the file."""
    make_store(path)
    assert execute(path, "PRAGMA application_id") == [APPLICATION_ID]
    assert execute(path, "PRAGMA user_version") == [len(MIGRATIONS)]
    assert execute(path, "PRAGMA journal_mode") == ["wal"]
    assert execute(path, "PRAGMA auto_vacuum") == [2]


@pytest.mark.parametrize("page_bytes", [512, 4096, PAGE_BYTES])
def test_the_wal_is_folded_in_at_the_same_size_whatever_the_pages(
    path: Path, page_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file keeps the pages that it was made with, and a crash takes no more of it for that."""
    with monkeypatch.context() as made:
        made.setattr("telemetry.store.opening.PAGE_BYTES", page_bytes)
        make_store(path)
    with contextlib.closing(connect_owner(path, fsync_each_commit=False)) as connection:
        (found_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        (pages,) = connection.execute("PRAGMA wal_autocheckpoint").fetchone()
        assert found_bytes == page_bytes
        assert pages * page_bytes == WAL_BYTES
        assert connection.execute("PRAGMA journal_size_limit").fetchone() == (WAL_BYTES,)


def test_files_are_private(tmp_path: Path) -> None:
    """File, WAL, index and lock have mode 0600, a folder made for them 0700."""
    path = tmp_path / "state" / "spantap" / "spans.db"
    previous = os.umask(0)
    try:
        with Store.open(path) as store:
            store.add([make_row(1)])
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(previous)
    assert modes == dict.fromkeys(
        ("spans.db", "spans.db-wal", "spans.db-shm", "spans.db.lock", "spans.db.reserve"), 0o600
    )
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_mode_of_an_old_file_is_mended(path: Path) -> None:
    """A file that others could read is theirs no longer once it has an owner."""
    path.touch(mode=0o644)
    make_store(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_mode_of_what_an_old_file_left_behind_is_mended(path: Path, tmp_path: Path) -> None:
    """So have the companions: after a kill they are there before the owner is."""
    killed = tmp_path / "killed.db"
    with Store.open(path) as store:
        store.add([make_row(1)])
        for suffix in ("", "-wal"):
            copy = tmp_path / f"killed.db{suffix}"
            copy.write_bytes((tmp_path / f"spans.db{suffix}").read_bytes())
            copy.chmod(0o644)
    with contextlib.closing(connect_owner(killed, fsync_each_commit=False)):
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.glob("killed*")}
    assert modes == dict.fromkeys(("killed.db", "killed.db-wal", "killed.db-shm"), 0o600)


@pytest.mark.parametrize(
    "name", ["with space.db", "per%20cent.db", "what?.db", "hash#.db", "déjà.db"]
)
def test_any_file_name(tmp_path: Path, name: str) -> None:
    """A name that means something in a URI is a name all the same."""
    make_store(tmp_path / name)
    assert (tmp_path / name).stat().st_size > 0
    connect_reader(tmp_path / name).close()


NO_STORES = {"text": b"hello" * 1000, "broken": b"SQLite format 3\0" + b"x" * 5000}


@pytest.mark.parametrize(
    "kind", ["text", "broken", "database", "folder", "fifo", "device", "hard link"]
)
def test_what_cannot_be_owned_stays_as_it_is(tmp_path: Path, kind: str) -> None:
    """A start that is refused changes no mode and leaves nothing behind."""
    path = tmp_path / "x"
    if kind in NO_STORES:
        path.write_bytes(NO_STORES[kind])
    elif kind == "database":
        execute(path, "CREATE TABLE bookmarks (url TEXT)")
    elif kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))  # one that takes everything
        except PermissionError:
            pytest.skip("no devices may be made here")
    else:
        Store.open(tmp_path / "other").close()
        path.hardlink_to(tmp_path / "other")
    path.chmod(0o755)
    before = sorted(tmp_path.iterdir())
    content = path.read_bytes() if path.is_file() else b""
    with pytest.raises(StoreForeign) as refused:
        Store.open(path)
    assert str(refused.value).startswith(str(path))
    assert sorted(tmp_path.iterdir()) == before
    if kind in {"text", "broken", "database"}:
        words = "another program's" if kind == "database" else "damaged or no SQLite database"
        for opens in (make_store, connect_reader):
            with pytest.raises(StoreForeign, match=words):
                opens(path)
        assert path.read_bytes() == content
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


def test_newer_schema(path: Path) -> None:
    """A newer spantap's store is refused by owner and reader, with both numbers."""
    make_store(path)
    execute(path, "PRAGMA user_version = 99")
    with pytest.raises(StoreTooNew, match=f"schema 99, this one knows {len(MIGRATIONS)}"):
        make_store(path)
    with pytest.raises(StoreTooNew):
        connect_reader(path)


def test_older_schema_is_migrated(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner runs the migrations that a file has not had, and keeps its spans."""
    with Store.open(path) as store:
        store.add([make_row(1)])
    further = ("ALTER TABLE spans ADD COLUMN note TEXT", "UPDATE spans SET note = 'old'")
    monkeypatch.setattr(schema, "MIGRATIONS", (*MIGRATIONS, further))
    make_store(path)
    make_store(path)
    assert execute(path, "SELECT note FROM spans") == ["old"]
    assert execute(path, "PRAGMA user_version") == [len(MIGRATIONS) + 1]


def test_migration_is_whole_or_not_at_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A migration that fails half-way has done nothing."""
    make_store(path)
    further = ("ALTER TABLE spans ADD COLUMN note TEXT", "no SQL")
    monkeypatch.setattr(schema, "MIGRATIONS", (*MIGRATIONS, further))
    with pytest.raises(StoreUnavailable, match="syntax error"):
        make_store(path)
    assert execute(path, "PRAGMA user_version") == [len(MIGRATIONS)]
    assert "note" not in execute(path, "SELECT name FROM pragma_table_info('spans')")


def test_reader_cannot_write(path: Path) -> None:
    """A reader's connection refuses to write."""
    make_store(path)
    with (
        contextlib.closing(connect_reader(path)) as connection,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        connection.execute("DELETE FROM spans")


def test_folder_that_cannot_be(tmp_path: Path) -> None:
    """A store below a file is refused in one sentence that names it."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match=r"lock file .*spans\.db\.lock cannot be opened"):
        Store.open(tmp_path / "file" / "spans.db")
    with pytest.raises(StoreForeign, match="is not a regular file"):
        make_store(tmp_path)


def test_rollback_keeps_the_first_error(path: Path) -> None:
    """Where SQLite has undone a transaction by itself, the error that made it do so is told."""

    def fail(connection: sqlite3.Connection) -> None:
        with schema.transaction(connection):
            connection.execute("ROLLBACK")
            raise ValueError("first")

    with (
        contextlib.closing(connect_owner(path, fsync_each_commit=False)) as connection,
        pytest.raises(ValueError, match="first"),
    ):
        fail(connection)
