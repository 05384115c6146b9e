"""Files of a store that are taken away, replaced or cut while it is open."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from typing import TYPE_CHECKING

import pytest

from telemetry.errors import StoreLocked, StoreUnavailable
from telemetry.reading.stored_calls import open_calls
from telemetry.store.lock import StoreLock
from telemetry.store.opened_files import Change, OpenedFiles
from telemetry.store.opening import shm_path, wal_path
from telemetry.store.store import Store
from tests.telemetry.damage import damage_page, damaged_sets, fold, integrity, pages_of
from tests.telemetry.due_spans import FOREVER_NS, MANY_BYTES, taken
from tests.telemetry.span_rows import make_row, make_rows, span_id

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def remove(path: Path) -> None:
    path.unlink()


def remove_all(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))


def empty_anew(path: Path) -> None:
    path.unlink()
    path.touch()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is to be, in a folder that may go as well."""
    return tmp_path / "folder" / "spans.db"


def readable(path: Path) -> list[str]:
    """What anybody finds in the store, oldest first."""
    with open_calls(path) as reader:
        return [stored.summary.span_id for stored in reader.newest(1000)]


@pytest.mark.parametrize("take_away", [remove, remove_all, move, move_folder, empty_anew])
def test_a_store_that_is_taken_away_is_begun_anew(
    path: Path, take_away: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """What comes and what waited is in the new one, under its number; one line tells."""
    with Store.open(path) as store:
        store.add(make_rows([1, 2, 3]))
        before = {span.seq: span.span_id for span in store.read_due(9, MANY_BYTES, FOREVER_NS)}
        store.mark_delivered([1])
        take_away(path)
        store.add(make_rows([4]))
        store.mark_delivered([2])
        assert taken(store) == [span_id(3), span_id(4)]
        assert readable(path) == [span_id(2), span_id(3), span_id(4)]
        after = {span.seq: span.span_id for span in store.read_due(9, MANY_BYTES, FOREVER_NS)}
        assert after.items() & before.items() == {(3, span_id(3))}
        with pytest.raises(StoreLocked):
            StoreLock(path)
        (record,) = caplog.records
        assert f"the store {path} was removed, moved away or replaced" in record.getMessage()
        assert "with 2 spans of the former file" in record.getMessage()
        assert store.counts().damaged == 0
    assert integrity(path) == ["ok"]
    with Store.open(path) as store:
        assert taken(store) == [span_id(3), span_id(4)]


def test_a_store_that_was_moved_away_is_whole(path: Path) -> None:
    """All that was recorded before is in it, without the log that it left behind."""
    with Store.open(path) as store:
        store.add(make_rows(range(1, 41)))
        move(path)
        store.add([make_row(50)])
        assert len(readable(path.with_name("moved.db"))) == 40


def test_a_look_is_enough(path: Path) -> None:
    """A store that nobody writes to is begun anew by the step that retention takes each second."""
    with Store.open(path) as store:
        store.add([make_row(1)])
        path.unlink()
        store.prune(0)
        assert readable(path) == [span_id(1)]


def test_an_older_copy_in_its_place_goes_on(path: Path, tmp_path: Path) -> None:
    """Beside what it has, with what was recorded since."""
    with Store.open(path) as store:
        store.add(make_rows([1, 2]))
        fold(store)
        shutil.copy(path, tmp_path / "copy.db")
        store.add(make_rows([3, 4]))
        (tmp_path / "copy.db").replace(path)
        store.add([make_row(5)])
        assert readable(path) == [span_id(number) for number in (1, 2, 3, 4, 5)]
        assert store.counts().damaged == 0
    assert integrity(path) == ["ok"]


@pytest.mark.parametrize("kind", ["store", "database", "text", "folder"])
def test_another_file_in_its_place_is_left_alone(path: Path, tmp_path: Path, kind: str) -> None:
    """Numbers would mean other spans there; once it is away, or ours back, all goes on."""
    with Store.open(tmp_path / "other.db") as other:
        other.add([make_row(100)])
    with Store.open(path) as store:
        store.add([make_row(1)])
        path.unlink()
        if kind == "store":
            (tmp_path / "other.db").rename(path)
        elif kind == "database":
            with contextlib.closing(sqlite3.connect(path)) as connection:
                connection.execute("CREATE TABLE a (b)")
        elif kind == "text":
            path.write_bytes(b"text" * 1000)
        else:
            path.mkdir()
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="another file was put in the place"):
                store.add([make_row(2)])
        path.rename(tmp_path / "away")
        assert store.add([make_row(2)]) == 1
        assert readable(path) == [span_id(1), span_id(2)]


def test_another_owner_that_came_meanwhile_keeps_it(path: Path) -> None:
    """Where the lock went with the store, whoever took the new one has it alone."""
    with Store.open(path) as store:
        remove_all(path)
        with Store.open(path) as other:
            other.add([make_row(1)])
            with pytest.raises((StoreLocked, StoreUnavailable)):
                store.add([make_row(2)])
            assert readable(path) == [span_id(1)]


def test_a_new_file_that_cannot_be_made_yet(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is to be carried over is not forgotten."""
    with Store.open(path) as store:
        store.add([make_row(1)])
        path.unlink()

        def refuse(*args: object, **kwargs: object) -> None:
            raise StoreUnavailable("read-only")

        with monkeypatch.context() as patch:
            patch.setattr("telemetry.store.file.connect_owner", refuse)
            for _ in range(2):
                with pytest.raises(StoreUnavailable, match="read-only"):
                    store.add([make_row(2)])
        assert store.add([make_row(2)]) == 1
        assert readable(path) == [span_id(1), span_id(2)]


@pytest.mark.parametrize("length", [0, 10_000])
def test_a_log_that_is_cut_is_damage(
    path: Path, length: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It is noticed by the next use, and what the file holds without it is saved."""
    with Store.open(path) as store:
        store.add(make_rows([1, 2]))
        fold(store)
        for number in range(3, 43):
            store.add([make_row(number)])
        os.truncate(wal_path(path), length)
        store.add([make_row(50)])
        found = readable(path)
        assert found[:2] == [span_id(1), span_id(2)]
        assert found[-1] == span_id(50)
        assert store.counts().damaged == 43 - len(found)
    assert integrity(path) == ["ok"]
    assert len(damaged_sets(path)) == 1
    assert f"the store {path} was damaged (its write-ahead log was cut)" in caplog.text


def test_a_log_that_is_removed_costs_nothing(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What it holds goes into the file while it is still open."""
    with Store.open(path) as store:
        store.add(make_rows([1, 2]))
        wal_path(path).unlink()
        store.add([make_row(3)])
        assert readable(path) == [span_id(1), span_id(2), span_id(3)]
        assert wal_path(path).exists()
    assert integrity(path) == ["ok"]
    assert caplog.records == []


def test_a_log_may_be_cut_by_its_owner(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """To fold it in is no damage."""
    with Store.open(path) as store:
        for number in range(5):
            store.add([make_row(number)])
            fold(store)
        assert len(readable(path)) == 5
    assert caplog.records == []


def test_what_cannot_be_told_is_no_change(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is closed for a time takes nothing away."""
    path.parent.mkdir()
    path.touch()
    files = OpenedFiles(path)

    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", refuse)
        files.note_wal()
        assert files.find_change() is None
    assert files.find_change() is None


def test_the_log_of_another_is_not_removed(path: Path) -> None:
    """What came with another file is that file's."""
    path.parent.mkdir()
    for file in (path, wal_path(path), shm_path(path)):
        file.touch()
    files = OpenedFiles(path)
    new = path.with_name("new")
    new.touch()
    new.replace(wal_path(path))
    assert files.find_change() is Change.WAL_GONE
    files.remove_wal()
    assert wal_path(path).exists()


def test_a_store_that_was_emptied_between_two_runs_is_told(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The lock file knows the file, and how many spans were recorded in it."""
    with Store.open(path) as store:
        store.add(make_rows(range(40)))
    os.truncate(path, 0)
    with Store.open(path) as store:
        assert store.counts().damaged == 40
        assert store.add([make_row(50)]) == 1
    (record,) = caplog.records
    assert f"the store {path} lacks the last 40 spans" in record.getMessage()
    Store.open(path).close()
    assert len(caplog.records) == 1


def test_damage_is_found_at_the_start(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In a part that an owner does not read before somebody asks for it."""
    with Store.open(path) as store:
        store.add([make_row(number, padding_bytes=500) for number in range(1, 201)])
        fold(store)
        page = pages_of(path, "span_bytes")[2]
    damage_page(path, page, bytes(100))
    with Store.open(path) as store:
        assert 150 < len(taken(store)) < 200
    assert len(damaged_sets(path)) == 1
    assert f"the store {path} was damaged" in caplog.records[0].getMessage()


def test_a_large_store_is_looked_through_for_a_time_only(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start does not wait for the whole file."""
    with Store.open(path) as store:
        store.add([make_row(number, padding_bytes=500) for number in range(1, 201)])
        fold(store)
        damage_page(path, pages_of(path, "span_bytes")[2], bytes(100))
    monkeypatch.setattr("telemetry.store.file.MAX_START_CHECK_SECONDS", -1.0)
    monkeypatch.setattr("telemetry.store.survey._PROGRESS_STEPS", 1)
    with Store.open(path):
        assert damaged_sets(path) == []
