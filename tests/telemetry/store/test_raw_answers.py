"""``telemetry.store.raw_answers``: they keep to their share, go with their spans, and cost none."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from telemetry.raw_answer import RawAnswer, pack_raw_answer, unpack_raw_answer
from telemetry.reading.stored_calls import open_calls
from telemetry.store.opening import wal_path
from telemetry.store.raw_answers import SHARE
from telemetry.store.retention import make_room
from telemetry.store.rows import Retention
from telemetry.store.store import Store
from tests.telemetry.damage import damage_page, fold, make_older, pages_of
from tests.telemetry.due_spans import FOREVER_NS
from tests.telemetry.span_rows import make_row, span_id

if TYPE_CHECKING:
    from pathlib import Path

    from telemetry.store.rows import SpanRow

MIB = 1 << 20


def make_answer(body: bytes) -> RawAnswer:
    """An answer that came in one read."""
    return RawAnswer(
        content_type="text/event-stream",
        content_encoding="gzip",
        first_ns=5,
        waits_ns=(0,),
        sizes_bytes=(len(body),),
        left_bytes=0,
        body=body,
    )


def with_answer(number: int, body: bytes, *, padding_bytes: int = 0) -> SpanRow:
    """A row whose call has this answer."""
    row = make_row(number, padding_bytes=padding_bytes)
    return replace(row, raw=pack_raw_answer(make_answer(body)))


def body_of(path: Path, number: int) -> bytes | None:
    """What is kept of a call's answer."""
    with open_calls(path) as calls:
        found = calls.one(span_id(number))
        assert found is not None
        answer = calls.raw_answer(found.summary.seq)
        return None if answer is None else answer.body


def count_rows(path: Path) -> int:
    """The rows of the table."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM raw_answers").fetchone()
        return int(count)


def kept_bytes(path: Path) -> int:
    """What all take together, by their own length."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (size,) = connection.execute("SELECT sum(length(data)) FROM raw_answers").fetchone()
        return int(size or 0)


def prune(store: Store, now_ns: int = 0) -> None:
    """Prune until nothing is left to do."""
    while store.prune(now_ns).more:
        pass


def test_an_answer_comes_back_as_it_was(path: Path) -> None:
    """By the number of its span; that of another call has none."""
    answer = RawAnswer(
        content_type="text/event-stream; charset=utf-8",
        content_encoding="br",
        first_ns=1_700_000_000_000_000_000,
        waits_ns=(0, 3, 2_000_000_000),
        sizes_bytes=(1, 2, 3),
        left_bytes=7,
        body=b"\x00\xff\x80abc",
    )
    with Store.open(path) as store:
        store.add([replace(make_row(1), raw=pack_raw_answer(answer)), make_row(2)])
    with open_calls(path) as calls:
        assert calls.raw_answer(1) == answer
        assert calls.raw_answer(2) is None
        assert calls.raw_answer(3) is None


def test_an_answer_goes_with_its_span(path: Path) -> None:
    """Deleted or removed by retention; no byte of a deleted one stays in the files."""
    body = os.urandom(50_000)
    with Store.open(path, delivers=False, retention=Retention(max_age_ns=1)) as store:
        store.add([with_answer(1, body), with_answer(2, body)])
        store.delete([1])
        assert (body_of(path, 2), count_rows(path)) == (body, 1)
        prune(store, FOREVER_NS)
        assert count_rows(path) == 0
    with Store.open(path) as store:
        store.add([with_answer(3, body)])
        store.delete([3])
        store.compact(gives_back=True)
        files = b"".join(one.read_bytes() for one in (path, wal_path(path)) if one.exists())
        assert body[1_000:1_032] not in files


def test_the_oldest_go_first_when_their_tenth_is_full(path: Path) -> None:
    """Their spans stay, also where somebody opens the store anew."""
    bodies = [os.urandom(MIB // 2) for _ in range(12)]
    retention = Retention(max_bytes=20 * MIB)
    for half in (bodies[:6], bodies[6:]):
        with Store.open(path, retention=retention) as store:
            for body in half:
                store.add([with_answer(bodies.index(body), body)])
                assert kept_bytes(path) <= 20 * MIB // SHARE
            assert store.counts().lost == 0
    kept = [body_of(path, number) == body for number, body in enumerate(bodies)]
    assert kept == [False] * 9 + [True] * 3
    assert all(body_of(path, number) is None for number in range(9))


def test_room_that_retention_made_is_used_again(path: Path) -> None:
    """What is known of it is no more than what is there."""
    with Store.open(path, retention=Retention(max_bytes=20 * MIB, max_age_ns=1)) as store:
        for number in range(30):
            store.add([with_answer(number, os.urandom(MIB // 2))])
            store.mark_delivered([number + 1])
            if number % 3 == 2:
                assert count_rows(path) == 3
                prune(store, FOREVER_NS)
        assert count_rows(path) == 0


def test_a_store_full_of_raw_answers_loses_no_span(path: Path) -> None:
    """Even if each call brings more than all answers may have: pending spans stay, in order."""
    with Store.open(path, retention=Retention(max_bytes=4 * MIB)) as store:
        for number in range(1, 41):
            store.add([with_answer(number, os.urandom(MIB))])
            prune(store)
        counts = store.counts()
        due = store.read_due(100, 1 << 30, FOREVER_NS)
    assert (counts.pending, counts.lost) == (40, 0)
    assert [span.span_id for span in due] == [span_id(number) for number in range(1, 41)]


def test_raw_answers_go_before_large_spans_that_are_still_to_be_sent(path: Path) -> None:
    """The oldest, and no more than the spans need."""
    bodies = [os.urandom(150_000) for _ in range(8)]
    with Store.open(path, retention=Retention(max_bytes=16 * MIB)) as store:
        store.add([make_row(number, padding_bytes=100_000) for number in range(133)])
        for number, body in enumerate(bodies, start=200):
            store.add([with_answer(number, body, padding_bytes=50_000)])
            prune(store)
        counts = store.counts()
    assert (counts.pending, counts.lost) == (141, 0)
    kept = [body_of(path, number) == body for number, body in enumerate(bodies, start=200)]
    assert kept == sorted(kept)
    assert 0 < sum(kept) < 8


def test_a_full_disk_takes_raw_answers_when_all_spans_are_to_be_sent(path: Path) -> None:
    """The next commits need their room; no more than that goes."""
    with Store.open(path) as store:
        for number in range(24):
            store.add([with_answer(number, os.urandom(MIB // 2))])
        store._file.run(make_room)
        assert store.counts().pending == 24
        assert 0 < count_rows(path) < 24
        assert body_of(path, 23) is not None


def test_an_answer_that_cannot_be_written_costs_no_span(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its table is gone, as after damage: the span is recorded, and one line says so."""
    with Store.open(path) as store:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("ALTER TABLE raw_answers RENAME TO moved")
        assert store.add([with_answer(1, b"1")]) == 1
        assert store.add([with_answer(2, b"2")]) == 1
        assert store.counts().pending == 2
    told = [record for record in caplog.records if "raw answers of 1 calls" in record.message]
    assert [record.levelname for record in told] == ["WARNING"]


@pytest.mark.parametrize("change", ["x'00'", "'text'", "NULL", "substr(data, 1, 20)", "7"])
def test_a_damaged_answer_is_not_shown(path: Path, change: str) -> None:
    """It counts as absent."""
    with Store.open(path) as store:
        store.add([with_answer(1, os.urandom(1_000))])
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE type = 'table'"
        )
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE raw_answers SET data = {change}")
    assert body_of(path, 1) is None


def test_what_was_packed_with_another_count_of_bytes_is_damaged() -> None:
    """Reads and bytes have to go together; and nothing unpacks to more than an answer may have."""
    answer = make_answer(b"abc")
    assert unpack_raw_answer(pack_raw_answer(answer)) == answer
    for sizes in ((2,), (4,), (5, -2), ()):
        waits = (0,) * len(sizes)
        other = replace(answer, sizes_bytes=sizes, waits_ns=waits)
        assert unpack_raw_answer(pack_raw_answer(other)) is None
    assert unpack_raw_answer(pack_raw_answer(make_answer(bytes(64 * MIB)))) is None


def test_answers_of_a_damaged_store_are_carried_over(path: Path) -> None:
    """With the spans that have them."""
    bodies = [os.urandom(20_000) for _ in range(2)]
    with Store.open(path) as store:
        store.add([with_answer(number, body) for number, body in enumerate(bodies)])
        fold(store)
    damage_page(path, pages_of(path, "minutes")[0])
    with Store.open(path) as store:
        store.counts()
    assert [path.name for path in path.parent.glob("*.damaged-*")]
    assert [body_of(path, number) for number in range(2)] == bodies


def test_a_store_without_this_table_has_no_raw_answers(path: Path) -> None:
    """Before an owner has migrated it, a reader reads it as it is; then it takes some."""
    with Store.open(path) as store:
        store.add([make_row(1)])
    make_older(path)
    assert body_of(path, 1) is None
    with Store.open(path) as store:
        store.add([with_answer(2, b"new")])
    assert (body_of(path, 1), body_of(path, 2)) == (None, b"new")


def test_the_sum_of_sizes_reads_no_bytes_of_answers(path: Path) -> None:
    """It is made from an index."""
    from telemetry.store.raw_answers import _COUNT  # noqa: PLC0415 - the statement itself

    with Store.open(path) as store, store._file.use() as connection:
        (plan,) = connection.execute(f"EXPLAIN QUERY PLAN {_COUNT}").fetchall()
    assert "COVERING INDEX raw_answers_by_size" in plan[-1]
