"""``telemetry.store.store``: the durable outbox and its owner."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.errors import StoreLocked, StoreUnavailable
from telemetry.facts import CallColumns
from telemetry.reading.stored_calls import open_calls
from telemetry.store.opening import wal_path
from telemetry.store.rows import SpanState
from telemetry.store.store import MAX_ERROR_CHARS, Store
from telemetry.store.writing import RefusedRow
from tests.telemetry.due_spans import FOREVER_NS, MANY_BYTES, seqs, taken
from tests.telemetry.span_rows import SECOND_NS, make_row, make_rows, span_id

# Owning


def test_second_owner_in_this_process_is_refused(path: Path) -> None:
    """A file has one owner at a time, and the next one once it is closed."""
    with Store.open(path), pytest.raises(StoreLocked) as refused:
        Store.open(path)
    assert refused.value.holder_pid == os.getpid()
    Store.open(path).close()


OWNER = """
import sys
from pathlib import Path
from telemetry.store.store import Store
from tests.telemetry.span_rows import make_rows
store = Store.open(Path(sys.argv[1]))
for number in range(1, 101):
    store.add(make_rows([number]))
print("committed", flush=True)
sys.stdin.read()
"""


def test_kill_keeps_what_was_committed(path: Path) -> None:
    """A second owner learns the pid; after kill -9 every committed span is there."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"committed\n"
        with pytest.raises(StoreLocked, match=f"in use by process {owner.pid}") as refused:
            Store.open(path)
        assert refused.value.holder_pid == owner.pid
        owner.send_signal(signal.SIGKILL)
    with open_calls(path) as reader:
        assert len(reader.page(1000).rows) == 100
    with Store.open(path) as store:
        assert taken(store) == [span_id(number) for number in range(1, 101)]


WRITER = """
import sys
from pathlib import Path
from telemetry.store.store import Store
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
        store.mark_delivered([span.seq for span in store.read_due(2, 10**9, 2**62)])
    if number % 5 == 0:
        store.prune(0)
"""


def test_kill_at_any_moment_loses_no_commit(path: Path) -> None:
    """After kill -9 at random moments all that was acknowledged is there, and sound."""
    chance = random.Random(5)
    acknowledged = 0
    for _ in range(10):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(acknowledged)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[3],
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
    wal_path(path).mkdir()
    with pytest.raises(StoreUnavailable):
        Store.open(path)
    wal_path(path).rmdir()
    Store.open(path).close()


# Recording


def test_replay_is_recorded_once(store: Store) -> None:
    """A known span id is left alone, its bytes and its state too."""
    assert store.add(make_rows([1, 2])) == 2
    store.mark_delivered(seqs(store)[:1])
    replay = msgspec.structs.replace(make_row(1), span=b"other", outcome="other")
    assert store.add([replay, make_row(3)]) == 1
    assert taken(store) == [span_id(2), span_id(3)]
    with open_calls(store.path) as reader:
        assert reader.find(span_id(1))[0].span == make_row(1).span


def test_add_is_one_transaction(store: Store) -> None:
    """Where one row cannot be recorded, none of its companions is."""
    bad = msgspec.structs.replace(make_row(2), start_ns=None)
    with pytest.raises(RefusedRow, match="IntegrityError"):
        store.add([make_row(1), bad])
    assert store.counts().pending == 0
    assert store.add([make_row(1)]) == 1


def test_text_and_numbers_that_sqlite_cannot_hold(store: Store) -> None:
    """A lone surrogate or a huge token count from a provider costs neither span nor batch."""
    row = msgspec.structs.replace(
        make_row(1), model="gpt-\ud800", prompt_tokens=2**63, completion_tokens=None
    )
    assert store.add([row]) == 1
    with open_calls(store.path) as reader:
        summary = reader.page(1).rows[0]
    assert summary.model == "gpt-?"
    assert (summary.prompt_tokens, summary.completion_tokens) == (None, None)
    assert summary.total_tokens == 7


def test_a_column_of_a_type_that_sqlite_does_not_know_is_left_out(store: Store) -> None:
    """It costs neither span nor batch, and is no failure of the store that may pass."""
    columns = CallColumns(session={"a": 1}, retry=2, cost_usd=0.5)  # type: ignore[arg-type]
    assert store.add([make_row(1), msgspec.structs.replace(make_row(2), columns=columns)]) == 2
    with open_calls(store.path) as reader:
        told = reader.page(1).rows[0].columns
    assert (told.session, told.retry, told.cost_usd) == (None, 2, 0.5)


def test_without_a_backend_spans_are_kept(path: Path) -> None:
    """Where nothing is delivered, spans are kept, and are not sent by a later owner either."""
    with Store.open(path, delivers=False) as store:
        store.add([make_row(1)])
        assert store.counts().kept == 1
    with Store.open(path) as store:
        assert taken(store) == []


@pytest.mark.parametrize(("fsync", "level"), [(False, 1), (True, 2)])
def test_each_commit_is_synced_on_demand(path: Path, fsync: bool, level: int) -> None:
    """``synchronous`` is NORMAL (1), or FULL (2) where asked for."""
    with Store.open(path, fsync_each_commit=fsync) as store, store._file.use() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (level,)


@pytest.mark.parametrize("known", [set(), {2}, {1, 2, 3}, {3, 4}])
def test_replays_among_new_spans(path: Path, known: set[int]) -> None:
    """Whichever of a batch are known, twice in it included: the others get bytes of their own."""
    with Store.open(path) as store:
        store.add(make_rows(sorted(known)))
        assert store.add(make_rows([1, 2, 3, 4, 4])) == 4 - len(known)
        due = store.read_due(10, MANY_BYTES, FOREVER_NS)
        assert {span.span_id: span.span for span in due} == {
            span_id(number): make_row(number).span for number in range(1, 5)
        }
        assert store.add(make_rows([5])) == 1
        with store._file.use() as connection:
            (bare,) = connection.execute(
                "SELECT count(*) FROM span_bytes LEFT JOIN spans USING (seq) WHERE span_id IS NULL"
            ).fetchone()
        assert bare == 0


# Taking


def test_oldest_come_first(store: Store) -> None:
    """By the time of recording, then by the order of adding."""
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


# Fates


def test_retry_waits_for_its_time(store: Store) -> None:
    """A failed span is due again at its next try, with its error and one attempt more."""
    store.add([make_row(1)])
    store.mark_retry(seqs(store), 50, "HTTP 503: busy")
    assert store.read_due(10, MANY_BYTES, 49) == []
    assert len(store.read_due(10, MANY_BYTES, 50)) == 1
    with open_calls(store.path) as reader:
        summary = reader.page(1).rows[0]
    assert (summary.state, summary.attempts, summary.next_try_ns) == (SpanState.PENDING, 1, 50)
    assert summary.last_error == "HTTP 503: busy"


def test_new_owner_tries_at_once(path: Path) -> None:
    """A wait that a former owner began does not hold up its successor."""
    with Store.open(path) as store:
        store.add([make_row(1)])
        store.mark_retry(seqs(store), FOREVER_NS, "down")
    with Store.open(path) as store:
        assert len(store.read_due(10, MANY_BYTES, 0)) == 1


def test_delivered_and_rejected_are_settled(store: Store) -> None:
    """A settled span is not sent again, and a late report does not change it."""
    store.add(make_rows([1, 2]))
    first, second = seqs(store)
    store.mark_delivered([first])
    store.mark_rejected([second], "x" * 1000)
    store.mark_retry([first, second], 1, "late")
    store.mark_delivered([second])
    assert taken(store) == []
    with open_calls(store.path) as reader:
        rejected, delivered = reader.page(2).rows
    assert (delivered.state, delivered.last_error) == (SpanState.DELIVERED, None)
    assert (rejected.state, rejected.attempts) == (SpanState.REJECTED, 1)
    assert rejected.last_error == "x" * MAX_ERROR_CHARS


@given(st.sets(st.integers(1, 12)))
@settings(deadline=None)
def test_a_fate_is_that_of_the_numbers_alone(
    tmp_path_factory: pytest.TempPathFactory, fated: set[int]
) -> None:
    """However they lie: next to one another or not, what is between them stays as it was."""
    with Store.open(tmp_path_factory.mktemp("store") / "s.db") as store:
        store.add(make_rows(range(1, 11)))
        store.mark_delivered(fated)
        assert taken(store) == [span_id(number) for number in range(1, 11) if number not in fated]


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
    """While one thread records, another takes and settles; nothing is lost or doubled."""
    total = 300
    done: list[str] = []

    def export() -> None:
        while len(done) < total:
            spans = store.read_due(7, MANY_BYTES, FOREVER_NS)
            store.mark_delivered([span.seq for span in spans])
            done.extend(span.span_id for span in spans)

    exporting = threading.Thread(target=export)
    exporting.start()
    for number in range(total):
        store.add([make_row(number, padding_bytes=5000)])
    exporting.join()
    assert done == [span_id(number) for number in range(total)]
    assert store.counts().delivered == total
