"""``telemetry.store.deletion``: spans that somebody names go for good, in short steps."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from telemetry.errors import StoreFull
from telemetry.facts import CallColumns
from telemetry.reading.stored_calls import open_calls
from telemetry.store import deletion as store_deletion
from telemetry.store.deletion import MAX_DELETE_BYTES, MAX_DELETE_ROWS
from telemetry.store.opening import PAGE_BYTES, wal_path
from telemetry.store.retention import MAX_PRUNE_ROWS
from telemetry.store.rows import Retention
from telemetry.store.store import Store
from tests.telemetry.due_spans import FOREVER_NS, taken
from tests.telemetry.reading.asking import connection_of, where
from tests.telemetry.span_rows import make_row, make_rows, span_id
from tests.telemetry.store.test_minutes import CALLS, check
from tests.telemetry.store.test_tally import check as check_tally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from telemetry.store.rows import SpanRow

CANARY = "Zebra-Canary"


def numbers(path: Path) -> list[int]:
    """The numbers of all spans, oldest first."""
    with open_calls(path) as reader:
        return [*reader.walk()]


def delete_all(store: Store, seqs: Sequence[int]) -> int:
    """Delete in as many steps as it takes; return how many went."""
    deleted = 0
    while seqs:
        step = store.delete(seqs)
        assert 0 < step.looked_at <= len(seqs)
        assert step.deleted <= step.looked_at <= MAX_DELETE_ROWS
        deleted += step.deleted
        seqs = seqs[step.looked_at :]
    return deleted


def files_of(path: Path) -> bytes:
    """All bytes of the store's files."""
    files = [path, wal_path(path)]
    return b"".join(file.read_bytes() for file in files if file.exists())


def test_a_step_has_a_limit_of_spans_and_of_bytes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers of nobody count among those that are looked at; a huge span goes alone."""
    with Store.open(path) as store:
        store.add(make_rows(range(MAX_DELETE_ROWS + 20)))
        named = [*range(1, 11), *range(10_000, 10_000 + MAX_DELETE_ROWS)]
        step = store.delete(named)
        assert (step.looked_at, step.deleted, step.unsent) == (MAX_DELETE_ROWS, 10, 10)
        assert numbers(path)[0] == 11
        monkeypatch.setattr(store_deletion, "MAX_DELETE_BYTES", 1)
        assert store.delete([11, 12, 13]).looked_at == 1
        assert numbers(path)[0] == 12
        assert store.delete([12]).deleted == 1
        assert store.delete([]).looked_at == 0


def test_a_step_is_smaller_than_one_of_pruning() -> None:
    """Which recording waits for every second."""
    assert MAX_DELETE_ROWS < MAX_PRUNE_ROWS
    assert MAX_DELETE_BYTES <= 4 << 20


def test_spans_of_every_state_go_and_pending_ones_are_told(path: Path) -> None:
    """Those that went unsent by somebody's wish are no loss, and are not sent from memory."""
    with Store.open(path) as store:
        store.add(make_rows(range(6)))
        store.mark_delivered([1])
        store.mark_rejected([2], "no")
        store.mark_failed_alone(3, 0, "why")
        assert store.read_due(100, 1 << 30, FOREVER_NS)
        store.add(make_rows([10]))
        assert store.read_fresh(100, 1 << 30)
        step = store.delete([1, 2, 3, 4, 7])
        assert (step.deleted, step.unsent) == (5, 3)
        assert store.read_fresh(100, 1 << 30) is None
        assert taken(store) == [span_id(4), span_id(5)]
        counts = store.counts()
        assert (counts.pending, counts.delivered, counts.rejected, counts.lost) == (2, 0, 0, 0)
        store.mark_delivered([4, 5])  # the first was on its way to the backend
        assert store.counts().delivered == 1


@pytest.mark.parametrize("delivers", [True, False])
def test_what_was_deleted_is_written_over(delivers: bool, path: Path) -> None:
    """Small spans and large ones, among those of others, once the log is cut."""
    with Store.open(path, delivers=delivers) as store:
        mine = []
        for number in range(0, 900, 9):
            for at in range(number, number + 9):
                row = make_row(at, padding_bytes=(0, 300, 9_000, 60_000)[at % 4])
                if at % 3 == 0:
                    mine.append(at + 1)
                    text = f"{CANARY}-{at} ".encode() * (1 + at % 40)
                    columns = CallColumns(user=f"{CANARY}-{at}", preview=CANARY * (1 + at % 8))
                    row = replace(
                        row, span=row.span + text, model=f"{CANARY}-{at % 5}", columns=columns
                    )
                store.add([row])
            if delivers:
                store.mark_delivered(range(number + 1, number + 9))
        assert store.compact(gives_back=False).is_folded
        assert CANARY.encode() in files_of(path)
        assert delete_all(store, mine) == len(mine)
        assert store.compact(gives_back=False).is_folded
        assert not wal_path(path).stat().st_size
        left = files_of(path)
    assert left.count(CANARY.encode()) == 0
    assert len(numbers(path)) == 600


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_copy_is_left_once_the_file_is_written_anew(seed: int, path: Path) -> None:
    """Rows that grew and shrank, and were moved from page to page by that."""
    draw = random.Random(seed)
    with Store.open(path) as store:
        mine = []
        for number in range(1, 1_500):
            row = make_row(number, padding_bytes=draw.choice((0, 100, 500, 2_000, 5_000)))
            if draw.random() < 0.3:
                mine.append(number)
                text = f"{CANARY}-{number}"
                columns = CallColumns(user=text, preview=text * draw.randint(1, 10))
                span = row.span + text.encode() * draw.randint(1, 200)
                row = replace(row, span=span, model=text, columns=columns)
            store.add([row])
            some = [draw.randint(1, number) for _ in range(9)]
            if number % 5 == 0:
                store.mark_retry(some, 0, "e" * draw.randint(1, 500))
            elif number % 7 == 0:
                store.mark_delivered(some)
        before = [row.span for row in store.read_due(9_999, 1 << 30, FOREVER_NS)]
        assert delete_all(store, mine) == len(mine)
        last_seq = store._file.last_seq
        step = store.rewrite()
        assert (step.is_folded, step.free_bytes) == (True, 0)
        assert CANARY.encode() not in files_of(path)
        after = [row.span for row in store.read_due(9_999, 1 << 30, FOREVER_NS)]
        assert after == [span for span in before if CANARY.encode() not in span]
        check_tally(store)
        store.add(make_rows([5_000]))
        assert numbers(path)[-1] == last_seq + 1, "no number is given twice"
    check(path)
    with Store.open(path) as store:
        assert store._file.run(lambda it: it.execute("PRAGMA auto_vacuum").fetchone()) == (2,)
        assert store.counts().damaged == 0


def test_without_room_nothing_is_written_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no span is removed to make some."""
    with Store.open(path, delivers=False) as store:
        store.add(make_rows(range(5)))
        monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 0))
        with pytest.raises(StoreFull, match="make room there"):
            store.rewrite()
        assert store.counts().kept == 5


def test_a_reader_keeps_the_log(path: Path) -> None:
    """That is told; when it has gone, the log is cut."""
    with Store.open(path) as store:
        store.add(make_rows(range(5)))
        with open_calls(path) as reader:
            connection_of(reader).execute("BEGIN")
            reader.page(1)
            store.delete([1])
            assert not store.compact(gives_back=True).is_folded
        assert store.compact(gives_back=True).is_folded


ACTIONS: dict[str, Callable[[Store, Sequence[SpanRow], Sequence[int]], object]] = {
    "add": lambda store, rows, _: store.add(rows),
    "deliver": lambda store, _, seqs: store.mark_delivered(seqs),
    "reject": lambda store, _, seqs: store.mark_rejected(seqs, "no"),
    "prune": lambda store, *_: store.prune(FOREVER_NS),
    "delete": lambda store, _, seqs: delete_all(store, seqs),
    "compact": lambda store, *_: store.compact(gives_back=True),
}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(ACTIONS)),
            st.lists(CALLS, max_size=6),
            st.lists(st.integers(0, 40), max_size=20),
        ),
        max_size=12,
    )
)
@settings(deadline=None, max_examples=60)
def test_sums_and_counts_are_those_of_the_spans_that_remain(
    tmp_path_factory: pytest.TempPathFactory,
    actions: list[tuple[str, list[SpanRow], list[int]]],
) -> None:
    """Whatever is deleted, twice and in any order, between whatever else is done."""
    path = tmp_path_factory.mktemp("store") / "s.db"
    with Store.open(path) as store:
        for action, rows, seqs in actions:
            ACTIONS[action](store, rows, seqs)
            check(path)
            check_tally(store)
            if action == "delete":
                assert not {*seqs} & {*numbers(path)}


def test_free_pages_are_given_back_step_by_step(path: Path) -> None:
    """What retention removed goes with them, which no step before has written over."""
    with Store.open(path, delivers=False, retention=Retention(max_age_ns=0)) as store:
        row = make_row(1, padding_bytes=100_000)
        store.add([replace(row, span=row.span + CANARY.encode())])
        store.add([make_row(number, padding_bytes=100_000) for number in range(2, 60)])
        store.add([make_row(1_000)])
        while store.prune(make_row(60).recorded_ns).more:
            pass
        first = store.compact(gives_back=False)
        assert first.free_bytes > 5_000_000
        assert CANARY.encode() in files_of(path), "so there is something to see"
        step, steps = first, 0
        while step.free_bytes:
            step = store.compact(gives_back=True)
            steps += 1
            assert step.is_folded
        assert steps > 4
        assert first.size_bytes - step.size_bytes == first.free_bytes
        assert step.size_bytes < 40 * PAGE_BYTES
        assert CANARY.encode() not in files_of(path)
        assert store.counts().kept == 1
    assert path.stat().st_size == step.size_bytes


def test_what_is_kept_of_a_store_is_measured_and_found_in_steps(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over gaps of any length, up to a number, by a condition."""
    monkeypatch.setattr("telemetry.reading.sqlite.walking.STEP_NUMBERS", 7)
    with Store.open(path) as store:
        store.add(make_rows(range(50)))
        delete_all(store, range(8, 31))
        store.mark_delivered([1, 2])
        with open_calls(path) as reader:
            assert [*reader.walk()] == [*range(1, 8), *range(31, 51)]
            assert [*reader.walk(33)] == [*range(1, 8), 31, 32, 33]
            told = reader.measure(33)
            assert (told.count, told.pending) == (10, 8)
            assert (told.first_ns, told.last_ns) == (0, make_row(32).start_ns)
            delivered = reader.that(where("state:delivered"))
            assert [*delivered.walk()] == [1, 2]
            told = delivered.measure()
            assert told.size_bytes == sum(len(row.span) for row in make_rows(range(2)))
            told = reader.that(where("model:nothing")).measure()
            assert (told.count, told.first_ns) == (0, None)
