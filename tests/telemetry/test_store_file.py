"""``telemetry.store_file``: a store that is damaged, full, read-only, locked or away."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from telemetry import store_file
from telemetry.errors import StoreDamaged, StoreError, StoreForeign, StoreFull, StoreUnavailable
from telemetry.store import Store
from telemetry.store_reader import StoreReader
from telemetry.store_rows import Retention, SpanState
from tests.telemetry.damage import (
    PAGE_BYTES,
    damage_page,
    damaged_sets,
    fold,
    forget_pages,
    pages_of,
    small_disk,
)
from tests.telemetry.span_rows import make_row, make_rows, span_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FOREVER_NS = 2**62
MANY_BYTES = 2**40
DAMAGED_HEAD = b"\0" * 100


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is to be."""
    return tmp_path / "spans.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """A store of 200 pending spans of a few pages' size, all in the file."""
    with Store.open(path) as opened:
        opened.add([make_row(number, padding_bytes=500) for number in range(1, 201)])
        fold(opened)
        yield opened


def pending(store: Store) -> list[str]:
    """The ids of what is due, whenever."""
    return [span.span_id for span in store.take(1000, MANY_BYTES, FOREVER_NS)]


def fill(ballast: Path) -> None:
    """Take all the room of a disk."""
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 4096) == 4096:
            pass


def integrity(path: Path) -> list[str]:
    """What SQLite thinks of a file."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("PRAGMA integrity_check")]


# Damaged while running

OPERATIONS: dict[str, Callable[[Store], object]] = {
    "add": lambda store: store.add([make_row(1000)]),
    "take": lambda store: store.take(1000, MANY_BYTES, FOREVER_NS),
    "mark_delivered": lambda store: store.mark_delivered(range(1, 201)),
    "mark_retry": lambda store: store.mark_retry(range(1, 201), 0, "down"),
    "mark_rejected": lambda store: store.mark_rejected(range(1, 201), "no"),
    "prune": lambda store: store.prune(FOREVER_NS),
    "counts": lambda store: store.counts(),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_rule_2_whoever_finds_the_damage_a_new_store_is_begun(
    store: Store, path: Path, operation: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The file goes aside, what was asked is done in a new one, one line tells what to do."""
    root, *leaves = pages_of(path, "spans")
    for page in (root, *pages_of(path, "spans_by_state")):
        damage_page(path, page)
    assert leaves
    forget_pages(store)
    OPERATIONS[operation](store)
    (aside,) = damaged_sets(path)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    message = record.getMessage()
    assert f"the store {path} was damaged (database disk image is malformed)" in message
    assert f"it is now {aside}" in message
    assert f"`sqlite3 {aside} .recover`" in message
    store.add([make_row(2000)])
    assert pending(store)[-1] == span_id(2000)
    assert integrity(path) == ["ok"]
    assert len(caplog.records) == 1


def test_rule_2_pending_spans_go_along(store: Store, path: Path) -> None:
    """What can be read around one bad page is carried over; the numbers mean what they meant."""
    before = {span.seq: span.span_id for span in store.take(1000, MANY_BYTES, FOREVER_NS)}
    damage_page(path, pages_of(path, "spans")[2])
    forget_pages(store)
    store.mark_retry(before, 0, "down")
    store.add([make_row(1000)])
    assert len(damaged_sets(path)) == 1
    after = {span.seq: span.span_id for span in store.take(1000, MANY_BYTES, FOREVER_NS)}
    new = {seq: one for seq, one in after.items() if seq > 200}
    assert list(new.values()) == [span_id(1000)]
    kept = {seq: one for seq, one in after.items() if seq <= 200}
    assert 150 < len(kept) < 200
    assert kept.items() <= before.items()


def test_numbers_in_hand_settle_no_other_span(store: Store, path: Path) -> None:
    """R8: a fate that is reported after a new beginning is that of the same span, or of none."""
    in_hand = [span.seq for span in store.take(1000, MANY_BYTES, FOREVER_NS)]
    damage_page(path, 1, DAMAGED_HEAD)  # nothing can be read of this one
    forget_pages(store)
    assert store.add(make_rows([1000, 1001])) == 2
    store.mark_delivered(in_hand)
    assert pending(store) == [span_id(1000), span_id(1001)]


def test_bytes_that_cannot_be_read(path: Path) -> None:
    """A span whose bytes are damaged is lost alone."""
    with Store.open(path) as store:
        store.add([make_row(number, padding_bytes=3 * PAGE_BYTES) for number in range(1, 41)])
        fold(store)
        damage_page(path, pages_of(path, "span_bytes")[3])
        forget_pages(store)
        assert 30 < len(pending(store)) < 40
    assert integrity(path) == ["ok"]


def test_rule_4_a_disk_that_damages_everything(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second damage within a minute is an error, and takes no file away; later it does."""
    damage_page(path, pages_of(path, "spans")[0])
    forget_pages(store)
    store.add([make_row(1000)])
    fold(store)
    damage_page(path, pages_of(path, "spans")[0])
    forget_pages(store)
    for _ in range(3):
        with pytest.raises(StoreDamaged):
            store.add([make_row(1001)])
    assert len(damaged_sets(path)) == 1
    monkeypatch.setattr(store_file, "MIN_ANEW_SECONDS", 0.0)
    assert store.add([make_row(1001)]) == 1
    assert len(damaged_sets(path)) == 2


def test_folder_that_cannot_be_written(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the file cannot be set aside the call fails; when it can, nothing more is needed."""

    def refuse(path: Path) -> Path:
        raise StoreUnavailable("read-only")

    damage_page(path, pages_of(path, "spans")[0])
    forget_pages(store)
    with monkeypatch.context() as patch:
        patch.setattr(store_file, "set_aside", refuse)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="read-only"):
                store.add([make_row(1000)])
    assert store.add([make_row(1000)]) == 1


def test_new_beginning_that_is_interrupted(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the new file cannot be written yet, what is to be carried over is not forgotten."""

    def refuse(*args: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    damage_page(path, pages_of(path, "spans_by_state")[0])
    forget_pages(store)
    with monkeypatch.context() as patch:
        patch.setattr(store_file, "carry_over", refuse)
        with pytest.raises(StoreUnavailable, match="disk I/O error"):
            store.add([make_row(1000)])
    assert store.add([make_row(1000)]) == 1
    assert len(pending(store)) == 201


# Damaged when it is opened


@pytest.mark.parametrize("damage", ["head", "page", "schema", "unmarked"])
def test_rule_3_a_damaged_store_is_no_obstacle(store: Store, path: Path, damage: str) -> None:
    """At the next start as well: known by its head, or by the lock file where that is gone."""
    store.close()
    if damage == "page":
        damage_page(path, pages_of(path, "spans_by_state")[0])
    elif damage == "schema":
        damage_page(path, 1, path.read_bytes()[:100] + b"\xa5" * 3000)
    else:
        damage_page(path, 1, DAMAGED_HEAD)
    if damage != "head":
        path.with_name("spans.db.lock").unlink(missing_ok=damage == "unmarked")
    if damage == "unmarked":
        with pytest.raises(StoreForeign, match="no SQLite database"):
            Store.open(path)
        assert damaged_sets(path) == []
        return
    with Store.open(path) as successor:
        # An index is damaged: all is there; the head or the schema: nothing can be read.
        assert len(pending(successor)) == (200 if damage == "page" else 0)
        assert len(damaged_sets(path)) == 1
        assert successor.add([make_row(1000)]) == 1


@pytest.mark.parametrize("content", [b"no database " * 1000, b"SQLite format 3\0" + b"x" * 9000])
def test_rule_3_a_file_that_never_was_a_store_stays(path: Path, content: bytes) -> None:
    """Neither a first nor a second start takes it away, though there is a lock file by then."""
    path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(StoreForeign):
            Store.open(path)
    assert path.read_bytes() == content
    assert damaged_sets(path) == []


def test_rule_3_another_file_in_the_place_of_a_store_stays(store: Store, path: Path) -> None:
    """The lock file vouches for one file, not for whatever has its name."""
    store.close()
    path.rename(path.with_name("moved.db"))
    path.write_bytes(b"no database " * 1000)
    with pytest.raises(StoreForeign):
        Store.open(path)
    assert damaged_sets(path) == []


# Full, read-only, locked, away


def test_rule_5_a_full_disk_costs_delivered_spans_only(tmp_path: Path) -> None:
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
            first = pending(store)
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
            assert pending(store)[: len(first) - 300] == first[300:]
            assert store.counts().lost == 0
            held = store.counts().pending
            # Somebody makes room: the same connection goes on.
            subprocess.run(["mount", "-o", "remount,size=128m", str(disk)], check=True)
            store.prune(0)
            for _ in range(50):
                assert store.add([rows.pop(0) for _ in range(10)]) == 10
            assert store.counts().pending == held + 500
        assert integrity(disk / "s.db") == ["ok"]


def test_rule_5_the_disk_fills_under_a_quiet_store(tmp_path: Path) -> None:
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
            assert len(pending(store)) == 100
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


def test_rule_5_kept_spans_go_on_a_full_disk(path: Path) -> None:
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
    with StoreReader(path) as reader:
        newest = [summary.span_id for summary in reader.latest(1000)]
    assert newest == [span_id(number) for number in range(499, 499 - kept, -1)]


def test_rule_6_read_only_for_a_time(tmp_path: Path) -> None:
    """A store that becomes read-only and is mended needs no restart; marks fail harmlessly."""
    with small_disk(tmp_path / "disk", 8 << 20) as disk, Store.open(disk / "s.db") as store:
        store.add(make_rows([1, 2]))
        with store._file.use() as connection:
            connection.execute("PRAGMA query_only = ON")  # SQLITE_READONLY, of this connection
        with pytest.raises(StoreUnavailable, match="readonly"):
            store.mark_delivered([1])
        assert pending(store) == [span_id(1), span_id(2)]
        store.mark_delivered([1])
        assert pending(store) == [span_id(2)]


def test_rule_6_a_disk_that_is_away_for_a_time(tmp_path: Path) -> None:
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
        assert pending(store) == [span_id(1), span_id(2)]


def test_locked_by_somebody_else(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program's transaction makes calls fail, whole; they work when it has ended."""
    monkeypatch.setattr("telemetry.schema._BUSY_SECONDS", 0.05)
    with Store.open(path) as store:
        store.add([make_row(1)])
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as foreign:
            foreign.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match="locked"):
                store.add(make_rows([2, 3]))
            with pytest.raises(StoreUnavailable, match="locked"):
                store.mark_delivered([1])
            assert pending(store) == [span_id(1)]
            foreign.execute("ROLLBACK")
        assert store.add(make_rows([2, 3])) == 2
        assert len(pending(store)) == 3


def test_limit_of_file_size(path: Path) -> None:
    """A quota is no full disk, and no crash either: the call fails, whole."""
    with Store.open(path) as store:
        store.add([make_row(1)])
        program = (
            "import resource, sys; from pathlib import Path;"
            "from telemetry.errors import StoreError; from telemetry.store import Store;"
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
        assert pending(store) == [span_id(1), span_id(2), span_id(4)]


def test_closed_store_stays_closed(store: Store) -> None:
    """Nothing opens a file again that was closed."""
    store.close()
    for operation in OPERATIONS.values():
        with pytest.raises(StoreError, match="is closed"):
            operation(store)


def test_retention_takes_rejected_and_kept_before_pending(path: Path) -> None:
    """Pending spans are the last to go, whatever their age."""
    with Store.open(path, delivers=False) as store:
        store.add([make_row(number, padding_bytes=10_000) for number in range(20, 40)])
    with Store.open(path, retention=Retention(max_bytes=400_000)) as store:
        store.add([make_row(number, padding_bytes=10_000) for number in range(20)])
        store.add([make_row(number, padding_bytes=10_000) for number in range(40, 60)])
        store.mark_rejected(range(41, 61), "no")
        while store.prune(0).more:
            pass
        counts = store.counts()
        assert (counts.pending, counts.lost) == (20, 0)
        assert counts.rejected == 0
        assert counts.kept > 0
    with StoreReader(path) as reader:
        states = {summary.state for summary in reader.latest(100)}
    assert states == {SpanState.PENDING, SpanState.KEPT}
