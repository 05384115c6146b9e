"""``telemetry.store.pictures``: contents are kept once, within their share, and cost no span."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec.structs import replace

from telemetry.reading.stored_calls import open_calls
from telemetry.store.opening import wal_path
from telemetry.store.pictures import SHARE
from telemetry.store.retention import make_room
from telemetry.store.rows import CallPicture, LeftOut, Retention
from telemetry.store.store import Store
from tests.telemetry.damage import damage_page, fold, make_older, pages_of
from tests.telemetry.due_spans import FOREVER_NS
from tests.telemetry.span_rows import make_row, span_id

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from telemetry.store.rows import SpanRow

PNG = b"\x89PNG\r\n\x1a\n"
MIB = 1 << 20


def make_picture(data: bytes, **fields: int | bool) -> CallPicture:
    """A picture that is kept."""
    place = {"is_answer": False, "message": 0, "part": 0} | fields
    return CallPicture(**place, type="image/png", size_bytes=len(data), data=data)  # type: ignore[arg-type]


def with_pictures(number: int, *contents: bytes) -> SpanRow:
    """A row whose call has these pictures, in parts of its first message."""
    pictures = [make_picture(data, part=part) for part, data in enumerate(contents)]
    return replace(make_row(number), pictures=tuple(pictures))


def contents_of(path: Path, number: int) -> list[bytes | None]:
    """The contents of a call's pictures, ``None`` for one that is not kept."""
    with open_calls(path) as calls:
        found = calls.one(span_id(number))
        assert found is not None
        seq = found.summary.seq
        return [
            None if one.digest is None else calls.picture(seq, one.digest)
            for one in calls.pictures(seq)
        ]


def count_rows(path: Path, table: str) -> int:
    """The rows of a table."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(count)


def files_of(path: Path) -> bytes:
    """All bytes of the store's files."""
    return b"".join(file.read_bytes() for file in (path, wal_path(path)) if file.exists())


def test_a_picture_comes_back_with_its_place_and_its_type(path: Path) -> None:
    """It is found by its call and its digest."""
    data = PNG + os.urandom(100_000)
    with Store.open(path) as store:
        store.add([with_pictures(1, data)])
    with open_calls(path) as calls:
        [found] = calls.pictures(1)
        assert calls.picture(1, sha256(data).hexdigest()) == data
        assert calls.picture(2, sha256(data).hexdigest()) is None  # not its call
        assert calls.picture(1, "no digest") is None
    assert found == CallPicture(
        is_answer=False,
        message=0,
        part=0,
        type="image/png",
        size_bytes=len(data),
        digest=sha256(data).hexdigest(),
    )


def test_fifty_calls_with_one_picture_of_two_megabytes_keep_it_once(path: Path) -> None:
    """They add 3 MB to the store at most."""
    data = PNG + os.urandom(2_000_000)
    with Store.open(path) as store:
        store.add([make_row(0)])
        empty = store.compact(gives_back=False).size_bytes
        for number in range(1, 51):
            store.add([with_pictures(number, data)])
        assert store.compact(gives_back=False).size_bytes - empty <= 3_000_000
    assert count_rows(path, "pictures") == 1
    assert all(contents_of(path, number) == [data] for number in (1, 25, 50))


def test_a_picture_goes_with_the_last_call_that_has_it(path: Path) -> None:
    """Deleted or removed by retention; no byte of a deleted one stays in the files."""
    shared, own = (PNG + mark * 50_000 for mark in (b"Zebra", b"Okapi"))
    with Store.open(path) as store:
        store.add([with_pictures(1, shared, own), with_pictures(2, shared)])
        store.delete([1])
        assert contents_of(path, 2) == [shared]
        assert count_rows(path, "pictures") == 1
        store.delete([2])
        store.compact(gives_back=True)
        assert (count_rows(path, "pictures"), count_rows(path, "call_pictures")) == (0, 0)
        files = files_of(path)
        assert (b"Zebra" in files, b"Okapi" in files) == (False, False)


def test_retention_by_age_takes_pictures_along(path: Path) -> None:
    """Otherwise nobody could remove them any more."""
    with Store.open(path, delivers=False, retention=Retention(max_age_ns=1)) as store:
        store.add([with_pictures(1, PNG + b"1"), with_pictures(2, PNG + b"2")])
        while store.prune(FOREVER_NS).more:
            pass
    assert (count_rows(path, "pictures"), count_rows(path, "call_pictures")) == (0, 0)


def test_the_oldest_calls_pictures_go_first_when_their_quarter_is_full(path: Path) -> None:
    """Their spans stay, and their places say that there was no room; a later call keeps them."""
    data = [PNG + bytes([mark]) + os.urandom(MIB) for mark in range(8)]
    with Store.open(path, retention=Retention(max_bytes=16 * MIB)) as store:
        store.add([with_pictures(1, data[0], data[1])])
        store.add([with_pictures(2, data[2])])
        store.add([with_pictures(3, data[0])])  # is of a newer call now
        store.add([with_pictures(4, data[3])])
        assert store.counts().pending == 4
    assert contents_of(path, 1) == [data[0], None]
    assert contents_of(path, 3) == [data[0]]
    assert contents_of(path, 4) == [data[3]]
    with open_calls(path) as calls:
        assert [one.left_out for one in calls.pictures(1)] == [None, LeftOut.NO_ROOM]


def test_a_store_full_of_pictures_loses_no_span(path: Path) -> None:
    """Even if each call brings more than all pictures may have: pending spans stay, in order."""
    with Store.open(path, retention=Retention(max_bytes=4 * MIB)) as store:
        for number in range(1, 41):
            store.add([with_pictures(number, *(PNG + os.urandom(MIB // 2) for _ in range(3)))])
            while store.prune(FOREVER_NS // 2).more:
                pass
        counts = store.counts()
        due = store.read_due(100, 1 << 30, FOREVER_NS)
    assert (counts.pending, counts.lost) == (40, 0)
    assert [span.span_id for span in due] == [span_id(number) for number in range(1, 41)]


def test_pictures_go_before_large_spans_that_are_still_to_be_sent(path: Path) -> None:
    """The oldest pictures, and no more than the spans need; then a call has its newest picture."""
    data = [PNG + os.urandom(500_000) for _ in range(12)]
    with Store.open(path, retention=Retention(max_bytes=16 * MIB)) as store:
        store.add([make_row(number, padding_bytes=100_000) for number in range(125)])
        for number, one in enumerate(data, start=200):
            store.add([with_pictures(number, one)])
            while store.prune(FOREVER_NS // 2).more:
                pass
        counts = store.counts()
    assert (counts.pending, counts.lost) == (137, 0)
    kept = [contents_of(path, number) == [one] for number, one in enumerate(data, start=200)]
    assert kept == sorted(kept)
    assert 0 < sum(kept) * 500_000 < 16 * MIB // SHARE - 2 * 500_000


def test_delivered_spans_go_before_pictures_of_pending_ones(path: Path) -> None:
    """They wait for nobody; a picture is shown beside a call that stays."""
    data = PNG + os.urandom(200_000)
    with Store.open(path, retention=Retention(max_bytes=4 * MIB)) as store:
        store.add([make_row(number, padding_bytes=100_000) for number in range(20)])
        store.mark_delivered([*range(1, 21)])
        store.add([with_pictures(100, data)])
        store.add([make_row(number, padding_bytes=100_000) for number in range(200, 225)])
        while store.prune(0).more:
            pass
        counts = store.counts()
    assert (counts.pending, counts.lost) == (26, 0)
    assert 0 < counts.delivered < 20
    assert contents_of(path, 100) == [data]


def test_a_full_disk_takes_pictures_when_all_spans_are_to_be_sent(path: Path) -> None:
    """The next commits need their room; no more than that goes."""
    data = [PNG + os.urandom(4 * MIB) for _ in range(3)]
    with Store.open(path) as store:
        for number, one in enumerate(data, start=1):
            store.add([with_pictures(number, one)])
        store._file.run(make_room)
        assert store.counts().pending == 3
        assert contents_of(path, 3) == [data[2]]
        assert count_rows(path, "pictures") == 1


def test_a_picture_that_cannot_be_written_costs_no_span(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its table is gone, as after damage: the span is recorded, and one line says so."""
    with Store.open(path) as store:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("ALTER TABLE pictures RENAME TO moved")
        assert store.add([with_pictures(1, PNG)]) == 1
        assert store.add([with_pictures(2, PNG)]) == 1
        assert store.counts().pending == 2
    assert [r.levelname for r in caplog.records if "pictures of 1 calls" in r.message] == [
        "WARNING"
    ]


def test_a_damaged_picture_is_not_shown(path: Path) -> None:
    """Other bytes than those of the digest may be anything."""
    data = PNG + os.urandom(1_000)
    with Store.open(path) as store:
        store.add([with_pictures(1, data)])
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE pictures SET data = ?", (PNG + b"other",))
        connection.commit()
    assert contents_of(path, 1) == [None]


def test_pictures_of_a_damaged_store_are_carried_over(path: Path) -> None:
    """With the spans that have them."""
    data = PNG + os.urandom(20_000)
    with Store.open(path) as store:
        store.add([with_pictures(1, data), with_pictures(2, data)])
        fold(store)
    damage_page(path, pages_of(path, "minutes")[0])
    with Store.open(path) as store:
        store.counts()
    assert [path.name for path in path.parent.glob("*.damaged-*")]
    assert (contents_of(path, 1), contents_of(path, 2)) == ([data], [data])


def test_a_store_without_these_tables_has_no_pictures(path: Path) -> None:
    """Before an owner has migrated it, a reader reads it as it is."""
    with Store.open(path) as store:
        store.add([make_row(1)])
    make_older(path)
    with open_calls(path) as calls:
        assert (calls.pictures(1), calls.picture(1, "00" * 32)) == ([], None)
