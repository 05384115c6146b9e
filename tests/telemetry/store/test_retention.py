"""What a store removes by age and by size, and the room it gives back."""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
from typing import TYPE_CHECKING

import pytest

from telemetry.reading.stored_calls import open_calls
from telemetry.store.opening import PAGE_BYTES, fold_wal, wal_path
from telemetry.store.retention import MAX_PRUNE_ROWS, MAX_VACUUM_BYTES
from telemetry.store.rows import PruneResult, Retention, SpanState
from telemetry.store.store import Store
from tests.telemetry.due_spans import FOREVER_NS, seqs, taken
from tests.telemetry.span_rows import SECOND_NS, make_row, make_rows, span_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def disk_bytes(path: Path) -> int:
    """What the store takes on the disk."""
    return path.stat().st_size + wal_bytes(path)


def wal_bytes(path: Path) -> int:
    """What its WAL takes."""
    return wal_path(path).stat().st_size if wal_path(path).exists() else 0


def pragma(store: Store, name: str) -> int:
    """A number that SQLite knows."""
    with store._file.use() as connection:
        return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def prune(store: Store, now_ns: int = 0) -> PruneResult:
    """Step by step, to the end: what was done in all."""
    removed = lost = 0
    for _ in range(1000):
        step = store.prune(now_ns)
        removed += step.removed
        lost += step.lost
        if not step.more:
            return PruneResult(removed=removed, lost=lost)
    raise AssertionError


@contextlib.contextmanager
def statements(store: Store) -> Iterator[list[str]]:
    """What is asked of SQLite meanwhile."""
    asked: list[str] = []
    with store._file.use() as connection:
        connection.set_trace_callback(asked.append)
    yield asked
    with store._file.use() as connection:
        connection.set_trace_callback(None)


@contextlib.contextmanager
def foreign_reader(path: Path) -> Iterator[None]:
    """Somebody who began to read and does not end."""
    foreign = sqlite3.connect(path)
    foreign.execute("BEGIN")
    foreign.execute("SELECT count(*) FROM spans").fetchall()
    yield
    foreign.close()


def test_age_takes_what_nobody_waits_for(path: Path) -> None:
    """Delivered, rejected and kept spans go by age; pending ones stay."""
    with Store.open(path, delivers=False) as store:
        store.add([make_row(1)])
    with Store.open(path, retention=Retention(max_age_ns=10 * SECOND_NS)) as store:
        store.add(make_rows([2, 3, 4, 5]))
        second, third, _, fifth = seqs(store)
        store.mark_delivered([second, fifth])
        store.mark_rejected([third], "no")
        result = prune(store, 15 * SECOND_NS)
        assert (result.removed, result.lost) == (3, 0)
        counts = store.counts()
    assert (counts.pending, counts.delivered, counts.rejected, counts.kept) == (1, 1, 0, 0)


def test_size_takes_delivered_spans_first(path: Path) -> None:
    """Delivered spans go before an older pending one, and the disk gets its room back."""
    limit_bytes = 1 << 20
    with Store.open(path, retention=Retention(max_bytes=limit_bytes)) as store:
        store.add([make_row(number, padding_bytes=10_000) for number in range(200)])
        store.mark_delivered(seqs(store)[1:181])
        assert disk_bytes(path) > limit_bytes
        result = prune(store)
        assert result.lost == 0
        assert disk_bytes(path) <= limit_bytes
        assert len(taken(store)) == 20
        assert taken(store)[0] == span_id(0)
        assert 0 < store.counts().delivered < 100
        assert store.prune(0).removed == 0


def test_full_store_of_pending_spans_loses_the_oldest(path: Path) -> None:
    """With nothing else to remove the oldest go unsent, and are counted as lost."""
    limit_bytes = 1 << 20
    with Store.open(path, retention=Retention(max_bytes=limit_bytes)) as store:
        for start in range(0, 3000, 100):
            store.add([make_row(start + i, padding_bytes=3000) for i in range(100)])
        result = prune(store)
        assert disk_bytes(path) <= limit_bytes
        assert result.lost == result.removed == store.counts().lost
        assert taken(store) == [span_id(number) for number in range(result.lost, 3000)]


def test_a_step_removes_a_bounded_number_of_spans(path: Path) -> None:
    """Whatever is past the limits, by age as by size; `more` says that work is left."""
    with Store.open(path) as store:
        store.add(make_rows(range(1, 2 * MAX_PRUNE_ROWS + 2)))
        store.mark_delivered(range(1, 2 * MAX_PRUNE_ROWS + 2))
        steps = [store.prune(FOREVER_NS) for _ in range(4)]
    assert [step.removed for step in steps] == [MAX_PRUNE_ROWS, MAX_PRUNE_ROWS, 1, 0]
    assert [step.more for step in steps] == [True, True, True, False]
    path.unlink()
    with Store.open(path, retention=Retention(max_bytes=1 << 20)) as store:
        store.add([make_row(number, padding_bytes=1000) for number in range(3000)])
        first = store.prune(0)
        assert (first.removed, first.lost, first.more) == (MAX_PRUNE_ROWS, MAX_PRUNE_ROWS, True)
        assert store.counts().lost == MAX_PRUNE_ROWS
        prune(store)
        assert disk_bytes(path) <= 1 << 20


@pytest.mark.parametrize("now_ns", [0, FOREVER_NS])
def test_a_step_removes_a_bounded_number_of_bytes(
    path: Path, now_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By size as by age, but always one span."""
    monkeypatch.setattr("telemetry.store.retention.MAX_PRUNE_BYTES", 250_000)
    with Store.open(path, retention=Retention(max_bytes=1 << 20)) as store:
        store.add([make_row(number, padding_bytes=100_000) for number in range(20)])
        store.mark_delivered(seqs(store))
        step = store.prune(now_ns)
        assert (step.removed, step.more) == (3, True)
        monkeypatch.setattr("telemetry.store.retention.MAX_PRUNE_BYTES", 1)
        assert store.prune(now_ns).removed == 1


def test_a_step_gives_a_bounded_number_of_pages_back(path: Path) -> None:
    """And no fewer, while the file is over its limit and has free pages."""
    with Store.open(path) as store:
        store.add([make_row(number, padding_bytes=100_000) for number in range(100)])
        store.mark_delivered(seqs(store))
    with Store.open(path, retention=Retention(max_bytes=1 << 20)) as store:
        pages = [pragma(store, "page_count")]
        while store.prune(0).more:
            pages.append(pragma(store, "page_count"))
        steps = [before - after for before, after in itertools.pairwise(pages)]
        most = MAX_VACUUM_BYTES // PAGE_BYTES
        assert set(steps) <= {most, most + 1}  # one of SQLite's own
        assert len(steps) > 5
        assert disk_bytes(path) <= 1 << 20


def test_a_limit_that_cannot_be_met_is_no_endless_work(path: Path) -> None:
    """An empty file is larger than this; nothing is left to remove or to give back."""
    with Store.open(path, retention=Retention(max_bytes=1)) as store:
        store.add(make_rows(range(10)))
        assert prune(store) == PruneResult(removed=10, lost=10)
        assert disk_bytes(path) > 1


def test_at_its_limit_a_store_needs_no_vacuum(path: Path) -> None:
    """What is added goes where something was removed; the file stays under its limit."""
    limit_bytes = 16 << 20
    with Store.open(path, retention=Retention(max_bytes=limit_bytes)) as store:
        with statements(store) as asked:
            for start in range(0, 450, 5):
                store.add([make_row(start + i, padding_bytes=50_000) for i in range(5)])
                store.mark_delivered(seqs(store))
                store.prune(0)
                assert disk_bytes(path) <= limit_bytes
        assert store.counts().delivered * 50_000 > 0.8 * limit_bytes
        assert not any("vacuum" in statement for statement in asked)


def test_pinned_wal_does_not_empty_the_store(path: Path) -> None:
    """A foreign reader that keeps the WAL large costs no span and no further room."""
    limit_bytes = 1 << 20
    with Store.open(path, retention=Retention(max_bytes=limit_bytes)) as store:
        store.add([make_row(number, padding_bytes=10_000) for number in range(50)])
        with foreign_reader(path):
            for start in range(100, 200, 10):
                store.add([make_row(start + i, padding_bytes=10_000) for i in range(10)])
            prune(store)
            grown_bytes = wal_bytes(path)
            with statements(store) as asked:
                assert {store.prune(0) for _ in range(5)} == {PruneResult()}
            assert wal_bytes(path) == grown_bytes
            assert not any("vacuum" in statement for statement in asked)
            assert store.counts().pending >= 65
        prune(store)
        assert disk_bytes(path) <= limit_bytes
        assert store.counts().pending >= 65


def test_what_is_removed_is_not_written_anew(path: Path) -> None:
    """Removing spans writes little, though SQLite may be built to overwrite them with zeros."""
    with Store.open(path) as store:
        assert pragma(store, "secure_delete") == 2  # FAST
        store.add([make_row(number, padding_bytes=100_000) for number in range(50)])
        store.mark_delivered(seqs(store))
        with store._file.use() as connection:
            assert fold_wal(connection)
        assert store.prune(FOREVER_NS).removed == 50
        assert 0 < wal_bytes(path) < 500_000


def test_small_wal_is_no_reason_to_remove(path: Path) -> None:
    """A WAL that can be folded into the file is folded before anything is removed."""
    with Store.open(path, retention=Retention(max_bytes=1_500_000)) as store:
        for _ in range(30):
            store.add([make_row(number, padding_bytes=10_000) for number in range(100)])
            store.mark_retry(seqs(store), 0, "down" * 100)
        assert disk_bytes(path) > 1_500_000
        assert store.prune(0).removed == 0
        assert disk_bytes(path) <= 1_500_000


def test_retention_takes_rejected_and_kept_before_pending(path: Path) -> None:
    """Pending spans are the last to go, whatever their age."""
    with Store.open(path, delivers=False) as store:
        store.add([make_row(number, padding_bytes=10_000) for number in range(20, 40)])
    with Store.open(path, retention=Retention(max_bytes=490_000)) as store:
        store.add([make_row(number, padding_bytes=10_000) for number in range(20)])
        store.add([make_row(number, padding_bytes=10_000) for number in range(40, 60)])
        store.mark_rejected(range(41, 61), "no")
        while store.prune(0).more:
            pass
        counts = store.counts()
        assert (counts.pending, counts.lost) == (20, 0)
        assert counts.rejected == 0
        assert counts.kept > 0
    with open_calls(path) as reader:
        states = {summary.state for summary in reader.page(100).rows}
    assert states == {SpanState.PENDING, SpanState.KEPT}
