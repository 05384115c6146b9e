"""``telemetry.store.file``: a store whose disk is full, read-only, locked or away."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from telemetry.errors import StoreFull, StoreUnavailable
from telemetry.reading.stored_calls import open_calls
from telemetry.store.store import Store
from tests.telemetry.damage import fold, integrity, small_disk
from tests.telemetry.due_spans import taken
from tests.telemetry.span_rows import make_row, make_rows, span_id

if TYPE_CHECKING:
    from pathlib import Path


def fill(ballast: Path) -> None:
    """Take all the room of a disk."""
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 4096) == 4096:
            pass


def test_a_full_disk_costs_delivered_spans_only(tmp_path: Path) -> None:
    """Fates are written, delivered spans give their room to new ones, no pending one is lost."""
    rows = [make_row(number, padding_bytes=30_000) for number in range(1, 3000)]

    def add_until_full(store: Store) -> None:
        with contextlib.suppress(StoreFull):
            while rows:
                store.add([rows.pop(0) for _ in range(10)])
        assert rows
        with pytest.raises(StoreFull, match="full; make room on its disk"):
            store.add([rows.pop(0) for _ in range(10)])

    with small_disk(tmp_path / "disk", 48 << 20) as disk:
        with Store.open(disk / "s.db") as store:
            add_until_full(store)
            first = taken(store)
            assert len(first) > 500
            for _ in range(3):
                store.mark_delivered(range(1, 301))
                store.mark_retry(range(301, 401), 0, "down")
                store.prune(0)
            for _ in range(10):
                assert store.add([rows.pop(0) for _ in range(10)]) == 10
            add_until_full(store)
            # A delivered one may be left where its room was not enough for ten.
            assert store.counts().delivered <= 10
            assert taken(store)[: len(first) - 300] == first[300:]
            assert store.counts().lost == 0
            held = store.counts().pending
            # Somebody makes room: the same connection goes on.
            subprocess.run(["mount", "-o", "remount,size=128m", str(disk)], check=True)
            store.prune(0)
            for _ in range(50):
                assert store.add([rows.pop(0) for _ in range(10)]) == 10
            assert store.counts().pending == held + 500
        assert integrity(disk / "s.db") == ["ok"]


def test_the_disk_fills_under_a_quiet_store(tmp_path: Path) -> None:
    """Where others take all the room, spans are sent and settled all the same; then it goes on."""
    with small_disk(tmp_path / "disk", 64 << 20) as disk:
        with Store.open(disk / "s.db") as store:
            store.add([make_row(number, padding_bytes=10_000) for number in range(1, 301)])
            fill(disk / "ballast")
            for seq in range(1, 301):
                store.mark_delivered([seq])
            assert store.counts().delivered > 0
            for number in range(1000, 1100):
                assert store.add([make_row(number, padding_bytes=10_000)]) == 1
            assert len(taken(store)) == 100
            (disk / "ballast").unlink()
            store.prune(0)
            store.add([make_row(number, padding_bytes=10_000) for number in range(2000, 3000)])
            assert store.counts().pending == 1100
        assert integrity(disk / "s.db") == ["ok"]


def test_full_disk_at_the_start(tmp_path: Path) -> None:
    """A store on a disk without any room says so, and opens once there is some."""
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        fill(disk / "ballast")
        with pytest.raises(StoreUnavailable):
            Store.open(disk / "s.db")
        (disk / "ballast").unlink()
        with Store.open(disk / "s.db") as store:
            assert store.add([make_row(1)]) == 1


def test_kept_spans_go_on_a_full_disk(path: Path) -> None:
    """Where the store is the backend, the oldest go, and no more than give room."""
    with Store.open(path, delivers=False) as store:
        store.add([make_row(number, padding_bytes=100_000) for number in range(300)])
        fold(store)
        with store._file.use() as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages}")
        for number in range(300, 500):
            assert store.add([make_row(number, padding_bytes=100_000)]) == 1
        kept = store.counts().kept
        assert 200 < kept < 300
    with open_calls(path) as reader:
        newest = [summary.span_id for summary in reader.page(1000).rows]
    assert newest == [span_id(number) for number in range(499, 499 - kept, -1)]


def test_read_only_for_a_time(tmp_path: Path) -> None:
    """A store that becomes read-only and is mended needs no restart; marks fail harmlessly."""
    with small_disk(tmp_path / "disk", 8 << 20) as disk, Store.open(disk / "s.db") as store:
        store.add(make_rows([1, 2]))
        with store._file.use() as connection:
            connection.execute("PRAGMA query_only = ON")  # SQLITE_READONLY, of this connection
        with pytest.raises(StoreUnavailable, match="readonly"):
            store.mark_delivered([1])
        assert taken(store) == [span_id(1), span_id(2)]
        store.mark_delivered([1])
        assert taken(store) == [span_id(2)]


def test_a_disk_that_is_away_for_a_time(tmp_path: Path) -> None:
    """What is asked meanwhile fails; when the disk is back it is asked of what is there."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with Store.open(folder / "s.db") as store:
        store.add([make_row(1)])
        fold(store)
        store._file._disconnect()
        folder.rename(tmp_path / "away")
        (tmp_path / "folder").touch()
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="cannot be opened for writing"):
                store.add([make_row(2)])
        folder.unlink()
        (tmp_path / "away").rename(folder)
        assert store.add([make_row(2)]) == 1
        assert taken(store) == [span_id(1), span_id(2)]


def test_locked_by_somebody_else(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program's transaction makes calls fail, whole; they work when it has ended."""
    monkeypatch.setattr("telemetry.store.opening._BUSY_SECONDS", 0.05)
    with Store.open(path) as store:
        store.add([make_row(1)])
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as foreign:
            foreign.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match="locked"):
                store.add(make_rows([2, 3]))
            with pytest.raises(StoreUnavailable, match="locked"):
                store.mark_delivered([1])
            assert taken(store) == [span_id(1)]
            foreign.execute("ROLLBACK")
        assert store.add(make_rows([2, 3])) == 2
        assert len(taken(store)) == 3


def test_limit_of_file_size(path: Path) -> None:
    """A quota is no full disk, and no crash either: the call fails, whole."""
    with Store.open(path) as store:
        store.add([make_row(1)])
        program = (
            "import resource, sys; from pathlib import Path;"
            "from telemetry.errors import StoreError; from telemetry.store.store import Store;"
            "from tests.telemetry.span_rows import make_row\n"
            "store = Store.open(Path(sys.argv[1]))\n"
            "store.add([make_row(2)])\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
            "try: store.add([make_row(3, padding_bytes=1_000_000)])\n"
            "except StoreError: print('failed')\n"
            "print(store.add([make_row(4)]))\n"
        )
        store.close()
        done = subprocess.run(
            [sys.executable, "-c", program, str(path)],
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout.split() == ["failed", "1"]
    with Store.open(path) as store:
        assert taken(store) == [span_id(1), span_id(2), span_id(4)]
