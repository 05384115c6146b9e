"""``telemetry.store.rescue``: what becomes of a store that is damaged."""

from __future__ import annotations

import contextlib
import sqlite3
import stat
import time
from typing import TYPE_CHECKING

import pytest

from telemetry.store import rescue as store_rescue
from telemetry.store.opening import connect_owner
from telemetry.store.rescue import (
    MAX_DAMAGED_KEPT,
    CarriedOver,
    carry_over,
    is_marked_as_store,
    set_aside,
)
from telemetry.store.store import Store
from telemetry.store.tally import read_tally
from tests.telemetry.damage import damage_page, damaged_sets, fold, make_older, pages_of
from tests.telemetry.span_rows import make_row, make_rows, span_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MANY = 10_000


@pytest.fixture
def damaged(path: Path) -> Path:
    """A store with spans in every state, closed: 1..100 delivered, then kept, rejected, pending."""
    with Store.open(path) as store:
        store.add([make_row(number, padding_bytes=200) for number in range(1, 101)])
        store.mark_delivered(range(1, 101))
    with Store.open(path, delivers=False) as store:
        store.add([make_row(number, padding_bytes=200) for number in range(101, 111)])
    with Store.open(path) as store:
        store.add([make_row(number, padding_bytes=200) for number in range(111, 311)])
        store.mark_rejected(range(111, 121), "no")
        store.mark_retry(range(121, 311), 50, "down")
        fold(store)
    return path


@pytest.fixture
def new(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """An empty store."""
    with contextlib.closing(
        connect_owner(tmp_path / "new.db", fsync_each_commit=False)
    ) as connection:
        yield connection


def seqs(connection: sqlite3.Connection) -> list[int]:
    """The numbers of all spans with their bytes."""
    return [
        seq
        for (seq,) in connection.execute(
            "SELECT seq FROM spans JOIN span_bytes USING (seq) ORDER BY seq"
        )
    ]


# Setting aside


def test_everything_goes_aside_under_one_name(path: Path) -> None:
    """File and companions get a name that tells when, private, with what they held."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).write_bytes(suffix.encode() or b"file")
    path.with_name("spans.db.lock").touch()
    aside = set_aside(path)
    assert aside.parent == path.parent
    stamp = aside.name.removeprefix("spans.db.damaged-")
    assert abs(time.mktime(time.strptime(stamp, "%Y%m%dT%H%M%SZ")) - time.mktime(time.gmtime())) < 9
    contents = {
        suffix: aside.with_name(aside.name + suffix).read_bytes() for suffix in ("", "-wal", "-shm")
    }
    assert contents == {"": b"file", "-wal": b"-wal", "-shm": b"-shm"}
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    assert sorted(file.name for file in path.parent.glob("spans.db*")) == sorted(
        [aside.name, f"{aside.name}-wal", f"{aside.name}-shm", "spans.db.lock"]
    )


def test_nothing_is_overwritten(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two in one second get two names, also where only a companion has the first."""
    monkeypatch.setattr("telemetry.store.rescue.MAX_DAMAGED_KEPT", 9)
    monkeypatch.setattr(time, "gmtime", lambda: time.struct_time((2026, 1, 2, 3, 4, 5, 4, 2, 0)))
    path.with_name("spans.db.damaged-20260102T030405Z-wal").write_bytes(b"companion")
    for content in (b"one", b"two"):
        path.write_bytes(content)
        set_aside(path)
    names = [file.name.removeprefix("spans.db.damaged-") for file in damaged_sets(path)]
    assert names == ["20260102T030405Z-2", "20260102T030405Z-3"]
    assert [file.read_bytes() for file in damaged_sets(path)] == [b"one", b"two"]


def test_the_oldest_goes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many stay, the last one among them whatever the clock says; other names are not ours."""
    others = ["spans.db.damaged-by-me", "spans.db.damaged-20260102T030405Z.bak", "x.db"]
    for name in others:
        path.with_name(name).touch()
    for year in (2024, 2025, 2026, 2023):
        monkeypatch.setattr(time, "gmtime", lambda y=year: time.struct_time((y, *[1] * 8)))
        path.write_bytes(str(year).encode())
        path.with_name("spans.db-wal").touch()
        set_aside(path)
    ours = [file for file in damaged_sets(path) if file.name not in others]
    assert [file.read_bytes() for file in ours] == [b"2023", b"2026"]
    assert len(ours) == MAX_DAMAGED_KEPT
    assert len(list(path.parent.glob("*-wal"))) == MAX_DAMAGED_KEPT
    assert all(path.with_name(name).exists() for name in others)


def test_a_link_stays(path: Path, tmp_path: Path) -> None:
    """What it leads to is moved, where it is, so that the new file is on that disk too."""
    target = tmp_path / "big" / "real.db"
    target.parent.mkdir()
    target.write_bytes(b"content")
    path.symlink_to(target)
    aside = set_aside(path)
    assert aside.parent == target.parent
    assert aside.read_bytes() == b"content"
    assert path.is_symlink()
    assert not target.exists()


@pytest.mark.parametrize(
    ("start", "size", "marked"), [(0, 0, True), (200, 4000, True), (68, 4, False), (0, 16, False)]
)
def test_mark_in_the_head(damaged: Path, start: int, size: int, marked: bool) -> None:
    """A store says what it is in 20 bytes, whatever becomes of the rest."""
    with damaged.open("r+b") as file:
        file.seek(start)
        file.write(b"\xa5" * size)
    assert is_marked_as_store(damaged) is marked


def test_no_file_is_no_store(path: Path) -> None:
    """Nor is an empty one."""
    assert not is_marked_as_store(path)
    path.touch()
    assert not is_marked_as_store(path)


# Carrying over


def test_what_exists_here_alone_is_carried_over(damaged: Path, new: sqlite3.Connection) -> None:
    """All but the delivered ones, as they were, though no longer waiting."""
    assert carry_over(damaged, new, 0) == CarriedOver(spans=210, complete=True)
    assert seqs(new) == list(range(101, 311))
    with contextlib.closing(sqlite3.connect(damaged)) as old:
        old.execute("UPDATE spans SET next_try_ns = 0")
        for table in ("spans", "span_bytes"):
            query = f"SELECT * FROM {table} WHERE seq > 100 ORDER BY seq"
            assert new.execute(query).fetchall() == old.execute(query).fetchall()


@pytest.mark.parametrize("index", ["spans_by_state", "sqlite_autoindex_spans_1"])
def test_a_damaged_index_costs_nothing(damaged: Path, new: sqlite3.Connection, index: str) -> None:
    """The tables are read without it."""
    for page in pages_of(damaged, index):
        damage_page(damaged, page)
    assert carry_over(damaged, new, 0) == CarriedOver(spans=210, complete=True)


@pytest.mark.parametrize("table", ["spans", "span_bytes"])
def test_damaged_leaves_are_read_around(damaged: Path, new: sqlite3.Connection, table: str) -> None:
    """What lies before, between and behind them is carried over."""
    leaves = pages_of(damaged, table)[1:]
    for page in (leaves[-2], leaves[-4]):
        damage_page(damaged, page)
    saved = carry_over(damaged, new, 0)
    assert not saved.complete
    found = seqs(new)
    assert saved.spans == len(found)
    gaps = [seq for seq in range(101, 311) if seq not in found]
    assert 0 < len(gaps) < 150
    assert {101, 310} <= set(found)
    between = set(range(gaps[0], gaps[-1])) & set(found)
    assert between


def test_rows_that_make_no_sense_are_left_out(damaged: Path, new: sqlite3.Connection) -> None:
    """SQLite has no checksums: what cannot be a span is left out alone."""
    with contextlib.closing(sqlite3.connect(damaged, isolation_level=None)) as old:
        old.execute("UPDATE spans SET size_bytes = 1 WHERE seq = 200")
        old.execute("UPDATE spans SET span_id = 'x' WHERE seq = 201")
        old.execute("UPDATE span_bytes SET span = 'text' WHERE seq = 202")
        old.execute("UPDATE spans SET status = 'FINE' WHERE seq = 203")
        old.execute("UPDATE spans SET model = CAST(x'ff' AS TEXT) WHERE seq = 204")
        old.execute("UPDATE spans SET span_id = x'00' WHERE seq = 205")
        old.execute("UPDATE span_bytes SET span = zeroblob(length(span)) WHERE seq = 206")
    saved = carry_over(damaged, new, 0)
    assert saved == CarriedOver(spans=204, complete=False, missing=6)
    assert {200, 201, 202, 203, 205, 206}.isdisjoint(seqs(new))
    assert new.execute("SELECT model FROM spans WHERE seq = 204").fetchone() == ("\ufffd",)


def test_an_older_schema(damaged: Path, new: sqlite3.Connection) -> None:
    """Without checksums and counts the spans are carried over all the same, and counted."""
    make_older(damaged)
    assert carry_over(damaged, new, 0) == CarriedOver(spans=210, complete=True)
    assert read_tally(new).counts == {"pending": 190, "delivered": 0, "rejected": 10, "kept": 10}


def test_a_count_that_is_damaged(damaged: Path, new: sqlite3.Connection) -> None:
    """Then it is not known how many are missing, and the spans are carried over."""
    with contextlib.closing(sqlite3.connect(damaged, isolation_level=None)) as old:
        old.execute("UPDATE tally SET pending = 'x', store_id = x'ff'")
        old.execute("UPDATE spans SET size_bytes = 1 WHERE seq = 200")
    assert carry_over(damaged, new, 0) == CarriedOver(spans=209, complete=False)


def test_it_ends_in_time(
    damaged: Path, new: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not read in time is left where it is, and that is told."""
    monkeypatch.setattr(store_rescue, "MAX_CARRY_SECONDS", -1.0)
    assert carry_over(damaged, new, 0) == CarriedOver(spans=0, complete=False, missing=210)


def test_a_disk_that_fills_meanwhile(
    damaged: Path, new: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written stays, what was not is told."""
    monkeypatch.setattr(store_rescue, "_COMMIT_ROWS", 10)
    (pages,) = new.execute("PRAGMA page_count").fetchone()
    new.execute(f"PRAGMA max_page_count = {pages + 10}")
    saved = carry_over(damaged, new, 0)
    assert not saved.complete
    assert 0 < saved.spans == len(seqs(new)) < 210


@pytest.mark.parametrize("page", [1, "sqlite_sequence", "spans"])
@pytest.mark.parametrize("known", [0, MANY])
def test_no_number_is_given_twice(
    damaged: Path, tmp_path: Path, page: int | str, known: int
) -> None:
    """Numbers go on behind the last one that is known from anywhere."""
    damage_page(damaged, page if isinstance(page, int) else pages_of(damaged, page)[0])
    with contextlib.closing(connect_owner(tmp_path / "new.db", fsync_each_commit=False)) as new:
        carry_over(damaged, new, known)
    with Store.open(tmp_path / "new.db") as store:
        store.add([make_row(5000)])
        (span,) = [
            one for one in store.read_due(MANY, 2**40, 2**62) if one.span_id == span_id(5000)
        ]
    # With a page 1 that is damaged nothing can be read.
    assert span.seq == max(known, 0 if page == 1 else 310) + 1


def test_a_last_number_that_is_damage(damaged: Path, new: sqlite3.Connection) -> None:
    """A number from which on nothing could be added is not believed."""
    with contextlib.closing(sqlite3.connect(damaged, isolation_level=None)) as old:
        old.execute("UPDATE sqlite_sequence SET seq = 9223372036854775807")
    carry_over(damaged, new, 0)
    assert new.execute("SELECT seq FROM sqlite_sequence").fetchall() == [(310,)]


def test_new_store_that_cannot_be_written(damaged: Path, new: sqlite3.Connection) -> None:
    """Then it is not carried over by halves: whoever asked tries again."""
    new.execute("PRAGMA query_only = ON")
    with pytest.raises(sqlite3.OperationalError):
        carry_over(damaged, new, 0)


def test_damaged_store_is_not_changed(path: Path, new: sqlite3.Connection) -> None:
    """Reading leaves file and WAL as they were, for whoever knows more."""
    with Store.open(path) as store:
        store.add(make_rows(range(1, 50)))
        aside = path.with_name("aside.db")
        for suffix in ("", "-wal"):
            aside.with_name(aside.name + suffix).write_bytes(
                path.with_name(path.name + suffix).read_bytes()
            )
    wal = aside.with_name("aside.db-wal")
    before = aside.read_bytes(), wal.read_bytes()
    assert carry_over(aside, new, 0).spans == 49
    assert (aside.read_bytes(), wal.read_bytes()) == before
