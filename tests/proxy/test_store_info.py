"""``spantap store info``: what a store is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from telemetry.frames.spool import FrameSpool, spool_folder
from telemetry.store.rows import CallPicture
from telemetry.store.schema import MIGRATIONS
from telemetry.store.store import Store
from tests.proxy.recorded_calls import START_NS, make_exchange, make_row, make_store
from tests.proxy.store_runs import StoreRunner

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> StoreRunner:
    """On a store of three calls, one of them delivered."""
    path = tmp_path / "traces.db"
    with Store.open(path) as store:
        store.add([make_row(make_exchange(number)) for number in (1, 2, 3)])
        store.mark_delivered([1])
    return StoreRunner(path, capsys)


def test_a_store_is_told_in_numbers(run: StoreRunner) -> None:
    """Nobody has it; the spool is what lies beside."""
    spool = FrameSpool(spool_folder(run.store), "aa")
    spool.write([b"x" * 1000])
    (record,) = run("info", "--json").records
    spool_bytes = record.pop("spool_bytes")
    assert 0 < spool_bytes == sum(path.stat().st_size for path in run.store.parent.glob("*/*"))
    spool.close()
    assert record == {
        "schema_version": 1,
        "path": str(run.store),
        "size_bytes": run.store.stat().st_size,
        "wal_bytes": 0,
        "free_bytes": 0,
        "store_schema": len(MIGRATIONS),
        "newest_store_schema": len(MIGRATIONS),
        "spans": 3,
        "calls": 3,
        "agents": 0,
        "tools": 0,
        "markers": 0,
        "pending": 2,
        "delivered": 1,
        "rejected": 0,
        "kept": 0,
        "oldest_ns": START_NS + 1_000_000_000,
        "newest_ns": START_NS + 3_000_000_000,
        "pictures": 0,
        "picture_bytes": 0,
        "raw_answers": 0,
        "raw_answer_bytes": 0,
        "oldest_time": "2025-11-20T14:04:06.123456789Z",
        "newest_time": "2025-11-20T14:04:08.123456789Z",
        "owner": None,
        "takes_orders": False,
        "set_aside": [],
    }


def test_pictures_are_counted_with_their_bytes(run: StoreRunner) -> None:
    """Each content counts once, however many calls have it."""
    picture = CallPicture(is_answer=False, message=0, part=0, type="image/gif", data=b"GIF89a")
    rows = [make_row(make_exchange(number)) for number in (4, 5)]
    with Store.open(run.store) as store:
        store.add([replace(row, pictures=(picture,)) for row in rows])
    (record,) = run("info", "--json").records
    assert (record["pictures"], record["picture_bytes"]) == (1, 6)
    assert "6 bytes of it 1 pictures" in run("info").out


def test_raw_answers_are_counted_with_their_bytes(run: StoreRunner) -> None:
    """As they are compressed."""
    with Store.open(run.store) as store:
        store.add([replace(make_row(make_exchange(4)), raw=b"packed")])
    (record,) = run("info", "--json").records
    assert (record["raw_answers"], record["raw_answer_bytes"]) == (1, 6)
    assert "6 bytes of it 1 raw answers" in run("info").out


def test_lines_say_the_same(run: StoreRunner) -> None:
    """For people; damaged stores that were moved aside are told."""
    aside = run.store.with_name("traces.db.damaged-20260101T000000Z")
    aside.touch()
    with Store.open(run.store) as store:
        store.delete([1])
        ran = run("info")
        assert (ran.status, ran.err) == (0, "")
        lines = dict(line.split(maxsplit=1) for line in ran.out.splitlines())
        assert lines["owner"] == f"process {os.getpid()}, which takes no orders"
        assert "write-ahead log" in lines["size"]
        assert lines["calls"] == "2: 2 pending"
        assert lines["spool"] == "0 bytes"
        assert str(aside) in lines["aside"]


def test_nothing_is_made_or_changed(run: StoreRunner) -> None:
    """Neither in the file nor in its folder."""

    def look() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in run.store.parent.iterdir()}

    before = look()
    assert run("info").status == 0
    assert look() == before


def test_a_store_that_is_missing_or_empty_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One without calls has no oldest."""
    ran = StoreRunner(tmp_path / "none.db", capsys)("info")
    assert (ran.status, ran.out) == (1, "")
    assert "there is no store at" in ran.err
    ran = StoreRunner(make_store(tmp_path / "empty.db"), capsys)("info")
    assert "oldest    -\n" in ran.out
