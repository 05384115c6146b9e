"""``telemetry.store``: the durable outbox and its owner."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from telemetry.errors import StoreError, StoreLocked, StoreUnavailable
from telemetry.schema import fold_wal, wal_path
from telemetry.store import MAX_ERROR_CHARS, Store
from telemetry.store_reader import StoreReader
from telemetry.store_retention import MAX_PRUNE_ROWS, MAX_VACUUM_PAGES
from telemetry.store_rows import PruneResult, Retention, SpanState
from tests.telemetry.span_rows import SECOND_NS, make_row, make_rows, span_id

if TYPE_CHECKING:
    from collections.abc import Iterator

FOREVER_NS = 2**62
MANY_BYTES = 2**40


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is to be."""
    return tmp_path / "spans.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """A new store."""
    with Store.open(path) as opened:
        yield opened


def taken(store: Store, limit_spans: int = 1000, limit_bytes: int = MANY_BYTES) -> list[str]:
    """The span ids of what is due, whenever."""
    return [span.span_id for span in store.take(limit_spans, limit_bytes, FOREVER_NS)]


def seqs(store: Store) -> list[int]:
    """The numbers of what is due, whenever."""
    return [span.seq for span in store.take(1000, MANY_BYTES, FOREVER_NS)]


# Owning


def test_second_owner_in_this_process_is_refused(path: Path) -> None:
    """Rule 1: a file has one owner at a time, and the next one once it is closed."""
    with Store.open(path), pytest.raises(StoreLocked) as refused:
        Store.open(path)
    assert refused.value.holder_pid == os.getpid()
    Store.open(path).close()


OWNER = """
import sys
from pathlib import Path
from telemetry.store import Store
from tests.telemetry.span_rows import make_rows
store = Store.open(Path(sys.argv[1]))
for number in range(1, 101):
    store.add(make_rows([number]))
print("committed", flush=True)
sys.stdin.read()
"""


def test_kill_keeps_what_was_committed(path: Path) -> None:
    """Rules 1 and 3: a second owner learns the pid; after kill -9 every committed span is there."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"committed\n"
        with pytest.raises(StoreLocked, match=f"in use by process {owner.pid}") as refused:
            Store.open(path)
        assert refused.value.holder_pid == owner.pid
        owner.send_signal(signal.SIGKILL)
    with StoreReader(path) as reader:
        assert len(reader.latest(1000)) == 100
    with Store.open(path) as store:
        assert taken(store) == [span_id(number) for number in range(1, 101)]


WRITER = """
import sys
from pathlib import Path
from telemetry.store import Store
from tests.telemetry.span_rows import make_row
first = int(sys.argv[2])
store = Store.open(Path(sys.argv[1]))
number = first
while True:
    rows = [make_row(number + i, padding_bytes=(number * 37) % 9000) for i in range(number % 7 + 1)]
    store.add(rows)
    number += len(rows)
    print(number, flush=True)
    if number % 3 == 0:
        store.mark_delivered([span.seq for span in store.take(2, 10**9, 2**62)])
    if number % 5 == 0:
        store.prune(0)
"""


def test_kill_at_any_moment_loses_no_commit(path: Path) -> None:
    """Rule 3: after kill -9 at random moments all that was acknowledged is there, and sound."""
    chance = random.Random(5)
    acknowledged = 0
    for _ in range(10):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(acknowledged)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        ) as writer:
            assert writer.stdout is not None
            for _ in range(chance.randint(1, 60)):
                acknowledged = int(writer.stdout.readline())
            time.sleep(chance.random() * 0.01)
            writer.send_signal(signal.SIGKILL)
            for line in writer.stdout:
                acknowledged = int(line)
        with contextlib.closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            found = {one for (one,) in connection.execute("SELECT span_id FROM spans")}
        assert found.issuperset(span_id(number) for number in range(acknowledged))
        acknowledged = len(found)
    assert acknowledged > 300


def test_failed_open_leaves_the_lock_free(path: Path) -> None:
    """An owner that could not open the file does not keep others out."""
    path.mkdir()
    with pytest.raises(StoreUnavailable):
        Store.open(path)
    path.rmdir()
    Store.open(path).close()


def test_closed_store_says_so(store: Store) -> None:
    """After close, twice over, every method tells that the store is closed."""
    store.close()
    store.close()
    with pytest.raises(StoreError, match="is closed"):
        store.counts()


# Recording


def test_replay_is_recorded_once(store: Store) -> None:
    """Rule 2: a known span id is left alone, its bytes and its state too."""
    assert store.add(make_rows([1, 2])) == 2
    store.mark_delivered(seqs(store)[:1])
    replay = dataclasses.replace(make_row(1), span=b"other", outcome="other")
    assert store.add([replay, make_row(3)]) == 1
    assert taken(store) == [span_id(2), span_id(3)]
    with StoreReader(store.path) as reader:
        assert reader.find(span_id(1))[0].span == make_row(1).span


def test_add_is_one_transaction(store: Store) -> None:
    """Where one row cannot be recorded, none of its companions is."""
    bad = dataclasses.replace(make_row(2), status="FINE")  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable, match="CHECK constraint"):
        store.add([make_row(1), bad])
    assert store.counts().pending == 0
    assert store.add([make_row(1)]) == 1


def test_text_and_numbers_that_sqlite_cannot_hold(store: Store) -> None:
    """A lone surrogate or a huge token count from a provider costs neither span nor batch."""
    row = dataclasses.replace(
        make_row(1), model="gpt-\ud800", prompt_tokens=2**63, completion_tokens=None
    )
    assert store.add([row]) == 1
    with StoreReader(store.path) as reader:
        summary = reader.latest(1)[0]
    assert summary.model == "gpt-?"
    assert (summary.prompt_tokens, summary.completion_tokens) == (None, None)
    assert summary.total_tokens == 7


def test_without_a_backend_spans_are_kept(path: Path) -> None:
    """Where nothing is delivered, spans are kept, and are not sent by a later owner either."""
    with Store.open(path, delivers=False) as store:
        store.add([make_row(1)])
        assert store.counts().kept == 1
    with Store.open(path) as store:
        assert taken(store) == []


@pytest.mark.parametrize(("fsync", "level"), [(False, 1), (True, 2)])
def test_each_commit_is_synced_on_demand(path: Path, fsync: bool, level: int) -> None:
    """Rule 3: ``synchronous`` is NORMAL (1), or FULL (2) where asked for."""
    with Store.open(path, fsync_each_commit=fsync) as store, store._file.use() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (level,)


# Taking


def test_oldest_come_first(store: Store) -> None:
    """Rule 4: by the time of recording, then by the order of adding."""
    store.add([make_row(number, recorded_ns=5) for number in (3, 1)])
    store.add([make_row(number, recorded_ns=4) for number in (2,)])
    assert taken(store) == [span_id(2), span_id(3), span_id(1)]
    assert taken(store, limit_spans=1) == [span_id(2)]


def test_batch_is_bounded_by_spans_and_bytes(store: Store) -> None:
    """As many of the oldest as fit; a span that is too large comes alone."""
    store.add([make_row(number, padding_bytes=1000) for number in (1, 2, 3)])
    size_bytes = len(make_row(1, padding_bytes=1000).span)
    assert len(taken(store, limit_spans=2)) == 2
    assert taken(store, limit_bytes=2 * size_bytes) == [span_id(1), span_id(2)]
    assert taken(store, limit_bytes=2 * size_bytes - 1) == [span_id(1)]
    assert taken(store, limit_bytes=1) == [span_id(1)]


def test_taken_bytes_join_to_one_batch(store: Store) -> None:
    """What comes out is what went in."""
    rows = make_rows([1, 2])
    store.add(rows)
    assert [span.span for span in store.take(10, MANY_BYTES, 0)] == [row.span for row in rows]


# Fates


def test_retry_waits_for_its_time(store: Store) -> None:
    """A failed span is due again at its next try, with its error and one attempt more."""
    store.add([make_row(1)])
    store.mark_retry(seqs(store), 50, "HTTP 503: busy")
    assert store.take(10, MANY_BYTES, 49) == []
    assert len(store.take(10, MANY_BYTES, 50)) == 1
    with StoreReader(store.path) as reader:
        summary = reader.latest(1)[0]
    assert (summary.state, summary.attempts, summary.next_try_ns) == (SpanState.PENDING, 1, 50)
    assert summary.last_error == "HTTP 503: busy"


def test_new_owner_tries_at_once(path: Path) -> None:
    """A wait that a former owner began does not hold up its successor."""
    with Store.open(path) as store:
        store.add([make_row(1)])
        store.mark_retry(seqs(store), FOREVER_NS, "down")
    with Store.open(path) as store:
        assert len(store.take(10, MANY_BYTES, 0)) == 1


def test_delivered_and_rejected_are_settled(store: Store) -> None:
    """A settled span is not sent again, and a late report does not change it."""
    store.add(make_rows([1, 2]))
    first, second = seqs(store)
    store.mark_delivered([first])
    store.mark_rejected([second], "x" * 1000)
    store.mark_retry([first, second], 1, "late")
    store.mark_delivered([second])
    assert taken(store) == []
    with StoreReader(store.path) as reader:
        rejected, delivered = reader.latest(2)
    assert (delivered.state, delivered.last_error) == (SpanState.DELIVERED, None)
    assert (rejected.state, rejected.attempts) == (SpanState.REJECTED, 1)
    assert rejected.last_error == "x" * MAX_ERROR_CHARS


def test_counts(store: Store) -> None:
    """Each state is counted, and the oldest pending span's time told."""
    assert store.counts().oldest_pending_ns is None
    store.add(make_rows([1, 2, 3, 4]))
    first, second, *_ = seqs(store)
    store.mark_delivered([first])
    store.mark_rejected([second], "no")
    counts = store.counts()
    assert (counts.pending, counts.delivered, counts.rejected, counts.kept) == (2, 1, 1, 0)
    assert counts.oldest_pending_ns == 3 * SECOND_NS


def test_any_thread_may_call(store: Store) -> None:
    """Rule 6: while one thread records, another takes and settles; nothing is lost or doubled."""
    total = 300
    done: list[str] = []

    def export() -> None:
        while len(done) < total:
            spans = store.take(7, MANY_BYTES, FOREVER_NS)
            store.mark_delivered([span.seq for span in spans])
            done.extend(span.span_id for span in spans)

    exporting = threading.Thread(target=export)
    exporting.start()
    for number in range(total):
        store.add([make_row(number, padding_bytes=5000)])
    exporting.join()
    assert done == [span_id(number) for number in range(total)]
    assert store.counts().delivered == total


# Retention


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
    """Rule 5: delivered, rejected and kept spans go by age; pending ones stay."""
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
    """Rule 5: delivered spans go before an older pending one, and the disk gets its room back."""
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
    """Rule 5: with nothing else to remove the oldest go unsent, and are counted as lost."""
    limit_bytes = 1 << 20
    with Store.open(path, retention=Retention(max_bytes=limit_bytes)) as store:
        for start in range(0, 3000, 100):
            store.add([make_row(start + i, padding_bytes=3000) for i in range(100)])
        result = prune(store)
        assert disk_bytes(path) <= limit_bytes
        assert result.lost == result.removed == store.counts().lost
        assert taken(store) == [span_id(number) for number in range(result.lost, 3000)]


def test_a_step_removes_a_bounded_number_of_spans(path: Path) -> None:
    """Rule 6: whatever is past the limits, by age as by size; `more` says that work is left."""
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
    """Rule 6: by size as by age, but always one span."""
    monkeypatch.setattr("telemetry.store_retention.MAX_PRUNE_BYTES", 250_000)
    with Store.open(path, retention=Retention(max_bytes=1 << 20)) as store:
        store.add([make_row(number, padding_bytes=100_000) for number in range(20)])
        store.mark_delivered(seqs(store))
        step = store.prune(now_ns)
        assert (step.removed, step.more) == (3, True)
        monkeypatch.setattr("telemetry.store_retention.MAX_PRUNE_BYTES", 1)
        assert store.prune(now_ns).removed == 1


def test_a_step_gives_a_bounded_number_of_pages_back(path: Path) -> None:
    """Rule 6: and no fewer, while the file is over its limit and has free pages."""
    with Store.open(path) as store:
        store.add([make_row(number, padding_bytes=100_000) for number in range(100)])
        store.mark_delivered(seqs(store))
    with Store.open(path, retention=Retention(max_bytes=1 << 20)) as store:
        pages = [pragma(store, "page_count")]
        while store.prune(0).more:
            pages.append(pragma(store, "page_count"))
        steps = [before - after for before, after in itertools.pairwise(pages)]
        assert set(steps) <= {MAX_VACUUM_PAGES, MAX_VACUUM_PAGES + 1}  # one of SQLite's own
        assert len(steps) > 5
        assert disk_bytes(path) <= 1 << 20


def test_a_limit_that_cannot_be_met_is_no_endless_work(path: Path) -> None:
    """Rule 6: an empty file is larger than this; nothing is left to remove or to give back."""
    with Store.open(path, retention=Retention(max_bytes=1)) as store:
        store.add(make_rows(range(10)))
        assert prune(store) == PruneResult(removed=10, lost=10)
        assert disk_bytes(path) > 1


def test_at_its_limit_a_store_needs_no_vacuum(path: Path) -> None:
    """Rule 7: what is added goes where something was removed; the file stays under its limit."""
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
    """Rule 7: a foreign reader that keeps the WAL large costs no span and no further room."""
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
            assert store.counts().pending >= 70
        prune(store)
        assert disk_bytes(path) <= limit_bytes
        assert store.counts().pending >= 70


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


def test_file_taken_away(path: Path) -> None:
    """A file that somebody removed under its owner does not make pruning fail."""
    with Store.open(path) as store:
        store.add([make_row(1)])
        path.unlink()
        assert store.prune(0).removed == 0


def test_small_wal_is_no_reason_to_remove(path: Path) -> None:
    """A WAL that can be folded into the file is folded before anything is removed."""
    with Store.open(path, retention=Retention(max_bytes=1_500_000)) as store:
        for _ in range(30):
            store.add([make_row(number, padding_bytes=10_000) for number in range(100)])
            store.mark_retry(seqs(store), 0, "down" * 100)
        assert disk_bytes(path) > 1_500_000
        assert store.prune(0).removed == 0
        assert disk_bytes(path) <= 1_500_000
