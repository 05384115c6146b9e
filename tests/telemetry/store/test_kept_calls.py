"""``telemetry.store.kept_calls``: what is kept beside spans comes with them, and goes with them."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from telemetry.conversation_position import KeptCall, KeptCalls
from telemetry.errors import StoreUnavailable
from telemetry.facts import CallColumns
from telemetry.store.kept_calls import DIGEST_KEY_BYTES, keep_key
from telemetry.store.opening import wal_path
from telemetry.store.rows import Retention
from telemetry.store.store import Store
from tests.telemetry.damage import damage_page, fold, make_older, pages_of
from tests.telemetry.due_spans import FOREVER_NS
from tests.telemetry.span_rows import make_row, make_rows, span_id

if TYPE_CHECKING:
    from pathlib import Path

    from telemetry.store.rows import SpanRow

CANARY = b"Zebra-Canary"


def with_kept_call(number: int, kept_call: bytes | None = None, **columns: object) -> SpanRow:
    """A row with what is kept of its call."""
    kept_call = b"link-%d" % number if kept_call is None else kept_call
    return replace(make_row(number), kept_call=kept_call, columns=CallColumns(**columns))  # type: ignore[arg-type]


def read(store: Store, max_calls: int = 100, max_spans: int = 100) -> KeptCalls:
    """What a start would read."""
    return store.read_kept_calls(max_calls=max_calls, max_spans=max_spans)


def kept_calls(store: Store, max_calls: int = 100) -> list[bytes]:
    """The bytes that are kept, in their order."""
    return [kept_call.data for kept_call in read(store, max_calls).calls]


def files_of(path: Path) -> bytes:
    """All bytes of the store's files."""
    return b"".join(file.read_bytes() for file in (path, wal_path(path)) if file.exists())


def test_the_newest_kept_calls_come_back_with_their_spans_oldest_first(path: Path) -> None:
    """After a restart, too; spans of which nothing is kept are known by their ids alone."""
    with Store.open(path) as store:
        store.add([with_kept_call(1), make_row(2), with_kept_call(3, session="s-3")])
        store.add([with_kept_call(4)])
    with Store.open(path) as store:
        kept = read(store, max_calls=2, max_spans=3)
    assert kept.calls == [
        KeptCall(span_id(3), f"{3:032x}", "s-3", b"link-3"),
        KeptCall(span_id(4), f"{4:032x}", None, b"link-4"),
    ]
    assert kept.span_ids == [span_id(2), span_id(3), span_id(4)]


def test_a_span_that_is_known_keeps_nothing_more(store: Store) -> None:
    """Recording again changes nothing (R8)."""
    store.add([with_kept_call(1), with_kept_call(2)])
    store.add([with_kept_call(1, b"other"), with_kept_call(3), with_kept_call(2, b"other")])
    assert kept_calls(store) == [b"link-1", b"link-2", b"link-3"]


def test_all_is_written_or_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans, kept calls and runs are one transaction."""

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("no")

    with monkeypatch.context() as broken:
        broken.setattr("telemetry.store.writing.count_added", fail)
        with pytest.raises(StoreUnavailable):
            store.add([with_kept_call(1)], {1: b"run"})
    kept = read(store)
    assert (kept.calls, kept.open_runs, kept.span_ids) == ([], {}, [])


@pytest.mark.parametrize("deletes", [True, False])
def test_what_is_kept_goes_with_its_span(path: Path, deletes: bool) -> None:
    """By deletion and by retention."""
    with Store.open(path, delivers=False, retention=Retention(max_age_ns=0)) as store:
        store.add([with_kept_call(number) for number in (1, 2, 3)])
        if deletes:
            store.delete([1, 3])
            assert kept_calls(store) == [b"link-2"]
        else:
            store.prune(FOREVER_NS)
            assert kept_calls(store) == []


def test_runs_are_written_changed_and_ended_with_spans(path: Path) -> None:
    """The last bytes of each stay, over a restart too; a commit of runs alone is one."""
    with Store.open(path) as store:
        store.add([with_kept_call(1)], {1: b"one", 7: b"seven"})
        store.add([with_kept_call(2)], {1: b"one and more"})
        store.add([], {7: None, 8: b"eight", 9: None})
    with Store.open(path) as store:
        assert read(store).open_runs == {1: b"one and more", 8: b"eight"}


def test_a_run_goes_with_a_span_of_it(store: Store) -> None:
    """Other runs stay."""
    store.add(
        [with_kept_call(1, run=1), with_kept_call(2, run=1), with_kept_call(3, run=3)],
        {1: b"one", 3: b"three"},
    )
    store.delete([2])
    assert read(store).open_runs == {3: b"three"}


def test_no_byte_stays(path: Path) -> None:
    """Of kept calls and runs of deleted spans, and of what runs were before."""
    with Store.open(path) as store:
        for number in range(1, 60):
            long = CANARY * (number % 7) * 300  # some take pages of their own
            store.add([with_kept_call(number, CANARY * 9, run=number)], {number: CANARY + long})
            store.add([], {number: CANARY * 2 if number % 2 else None})
        assert store.compact(gives_back=False).is_folded
        assert CANARY in files_of(path)
        seqs = [*range(1, 60)]
        while seqs:
            seqs = seqs[store.delete(seqs).looked_at :]
        assert store.compact(gives_back=False).is_folded
        assert CANARY not in files_of(path)


def test_the_key_is_as_old_as_the_store(path: Path) -> None:
    """It is random, and stays; a store that somebody else made gets one."""
    with Store.open(path) as store:
        key = read(store).key
        assert len(key) == DIGEST_KEY_BYTES
        assert read(store).key == key
    with Store.open(path) as store:
        assert read(store).key == key
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM digest_key")
        connection.commit()
    with Store.open(path) as store:
        assert read(store).key not in {key, bytes(DIGEST_KEY_BYTES)}
    assert key.hex() not in repr(read) + repr(KeptCalls(key=key))


def test_an_old_store_gets_a_key_and_has_no_kept_calls(path: Path) -> None:
    """Its spans stay as they are."""
    with Store.open(path) as store:
        store.add(make_rows([1, 2]))
    make_older(path)
    with Store.open(path) as store:
        kept = read(store)
        assert (len(kept.key), kept.calls, kept.span_ids) == (32, [], [span_id(1), span_id(2)])
        store.add([with_kept_call(3)])
        assert kept_calls(store) == [b"link-3"]


def test_a_damaged_store_takes_along_what_can_be_read(path: Path) -> None:
    """Key, what is kept of spans that are carried over, and open runs; the key stays in use."""
    with Store.open(path) as store:
        key = read(store).key
        store.add([with_kept_call(number) for number in range(1, 40)], {1: b"one"})
        store.mark_delivered([1, 2, 3])
        fold(store)
        [index, *_] = pages_of(path, "spans_by_state")
    damage_page(path, index)
    with Store.open(path) as store:
        assert store.path.exists()
        kept = read(store)
        assert kept.key == key
        assert [kept_call.data for kept_call in kept.calls] == [
            b"link-%d" % n for n in range(4, 40)
        ]
        assert kept.open_runs == {1: b"one"}


def test_the_newest_kept_calls_alone_are_taken_along(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is held of them meanwhile has a limit (R5)."""
    monkeypatch.setattr("telemetry.store.kept_calls.MAX_COPIED_CALLS", 3)
    with Store.open(path) as store:
        assert kept_calls(store) == []
        store.add([with_kept_call(number) for number in range(1, 6)])
        path.unlink()
        assert kept_calls(store) == [b"link-3", b"link-4", b"link-5"]


def test_damaged_kept_calls_cost_no_span(path: Path) -> None:
    """The table cannot be read, nor the key: both begin anew."""
    with Store.open(path) as store:
        key = read(store).key
        store.add([with_kept_call(number, os.urandom(900)) for number in range(1, 100)])
        fold(store)
        damaged = [*pages_of(path, "links"), *pages_of(path, "digest_key")]
    for page in damaged:
        damage_page(path, page)
    with Store.open(path) as store:
        kept = read(store)
        assert store.counts().pending == 99
        assert kept.calls == []
        assert kept.key != key


def test_who_goes_on_in_another_file_goes_on_with_the_key(path: Path) -> None:
    """The file was removed while it was in use."""
    with Store.open(path) as store:
        key = read(store).key
        store.add([with_kept_call(1)], {1: b"one"})
        path.unlink()
        store.add([with_kept_call(2)])
        kept = read(store)
    assert (kept.key, kept.open_runs) == (key, {1: b"one"})
    assert [kept_call.data for kept_call in kept.calls] == [b"link-1", b"link-2"]
    with Store.open(path) as store:
        assert read(store).key == key


def test_a_file_without_a_key_gets_the_one_by_which_digests_are_made(path: Path) -> None:
    """Damage took it: what is remembered stays comparable with what is kept from now on."""
    with Store.open(path) as store:
        key = read(store).key
        store.add([with_kept_call(1)])
        with store._file.use() as connection:
            connection.execute("DELETE FROM digest_key")
        store._file._disconnect()
        store.add([with_kept_call(2)])
        with store._file.use() as connection:
            assert keep_key(connection) == key
