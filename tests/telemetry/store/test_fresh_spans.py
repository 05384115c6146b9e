"""``telemetry.store.fresh_spans``: what is remembered is what a read of the file finds."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.errors import StoreUnavailable
from telemetry.store import fresh_spans
from telemetry.store.rows import Retention
from telemetry.store.store import Store
from tests.telemetry.due_spans import MANY_BYTES
from tests.telemetry.span_rows import make_row, make_rows, span_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from telemetry.store.rows import PendingSpan

NOW_NS = 100

_added = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 5_000)), max_size=5)
_operations = st.one_of(
    st.tuples(st.just("add"), _added, st.sampled_from((0, 1, 2, -1))),
    st.tuples(st.just("take"), st.integers(1, 100)),
    st.tuples(st.just("deliver"), st.integers(0, 4), st.integers(1, 4)),
    st.tuples(st.just("reject"), st.integers(0, 4)),
    st.tuples(st.just("retry"), st.integers(0, 4), st.sampled_from((50, 200))),
    st.tuples(st.just("alone"), st.integers(0, 4), st.sampled_from((50, 200))),
    st.tuples(st.just("prune")),
    st.tuples(st.just("reopen")),
)


def _carry_out(store: Store, operation: tuple[object, ...], clock_ns: list[int]) -> None:
    pending = _read(store, 100, MANY_BYTES)
    match operation:
        case "add", list() as added, int() as step_ns:
            clock_ns[0] += step_ns
            store.add([make_row(n, padding_bytes=s, recorded_ns=clock_ns[0]) for n, s in added])
        case "take", int() as limit_spans:
            store.read_due(limit_spans, MANY_BYTES, NOW_NS)
        case "deliver", int() as first, int() as count:
            store.mark_delivered([span.seq for span in pending[first : first + count]])
        case "reject", int() as index:
            store.mark_rejected([span.seq for span in pending[index : index + 1]], "no")
        case "retry", int() as index, int() as at_ns:
            store.mark_retry([span.seq for span in pending[index : index + 1]], at_ns, "down")
        case "alone", int() as index, int() as at_ns:
            for span in pending[index : index + 1]:
                store.mark_failed_alone(span.seq, at_ns, "bad")
        case ("prune",):
            store.prune(NOW_NS)
        case ("reopen",):
            store._file._disconnect()


def _read(store: Store, limit_spans: int, limit_bytes: int) -> Sequence[PendingSpan]:
    """What the file says, and nothing learnt from it."""
    with patch.object(store._fresh, "begin"):
        return store.read_due(limit_spans, limit_bytes, NOW_NS)


@settings(deadline=None, max_examples=120)
@given(st.lists(_operations, max_size=25), st.sampled_from((1 << 20, 9_000)))
def test_what_is_remembered_is_what_is_in_the_file(
    operations: list[tuple[object, ...]], max_bytes: int
) -> None:
    """Whatever was done to the store, memory gives what a read gives, or does not know."""
    clock_ns = [1_000]
    with (
        patch.object(fresh_spans, "MAX_FRESH_BYTES", max_bytes),
        tempfile.TemporaryDirectory() as folder,
        Store.open(Path(folder) / "s.db", retention=Retention(max_bytes=150_000)) as store,
    ):
        store.read_due(1, MANY_BYTES, NOW_NS)
        for operation in operations:
            _carry_out(store, operation, clock_ns)
            for limits in ((100, MANY_BYTES), (2, MANY_BYTES), (100, 6_000), (1, 1)):
                remembered = store.read_fresh(*limits)
                assert remembered is None or list(remembered) == list(_read(store, *limits))


def test_what_a_read_found_whole_is_known_from_then_on(store: Store) -> None:
    """Not before; and from then on nothing that is added need be read."""
    store.add(make_rows([1]))
    assert store.read_fresh(10, MANY_BYTES) is None
    store.read_due(10, MANY_BYTES, NOW_NS)
    store.add(make_rows([1, 2]))
    with store._file.use() as connection:
        connection.execute("UPDATE span_bytes SET span = x'00'")
    remembered = store.read_fresh(10, MANY_BYTES)
    assert remembered is not None
    assert [span.span for span in remembered] == [make_row(1).span, make_row(2).span]


def test_a_read_that_left_some_teaches_nothing(store: Store) -> None:
    """Neither where the batch was full, nor where some wait for their next try."""
    store.add(make_rows([1, 2]))
    store.read_due(1, MANY_BYTES, NOW_NS)
    assert store.read_fresh(10, MANY_BYTES) is None
    store.mark_retry([1], 2 * NOW_NS, "down")
    store.read_due(10, MANY_BYTES, NOW_NS)
    assert store.read_fresh(10, MANY_BYTES) is None


def test_memory_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are remembered as far as there is room; then the file is read."""
    monkeypatch.setattr(fresh_spans, "MAX_FRESH_BYTES", 2_500)
    store.read_due(10, MANY_BYTES, NOW_NS)
    store.add([make_row(number, padding_bytes=1_000) for number in range(1, 5)])
    assert sum(len(span.span) for span in store._fresh._spans) <= 2_500
    remembered = store.read_fresh(2, MANY_BYTES)
    assert remembered is not None
    assert [span.span_id for span in remembered] == [span_id(1), span_id(2)]
    assert store.read_fresh(3, MANY_BYTES) is None
    assert not store._fresh._spans


def test_spans_that_are_kept_are_not_to_be_sent(path: Path) -> None:
    """Where the store is the backend there is nothing to remember."""
    with Store.open(path, delivers=False) as store:
        store.read_due(10, MANY_BYTES, NOW_NS)
        store.add(make_rows([1]))
        assert not store.read_fresh(10, MANY_BYTES)


def test_a_clock_that_was_put_back(store: Store) -> None:
    """What is added then is older than what was: the file is asked who comes first."""
    store.read_due(10, MANY_BYTES, NOW_NS)
    store.add([make_row(1, recorded_ns=5)])
    store.add([make_row(2, recorded_ns=4)])
    assert store.read_fresh(10, MANY_BYTES) is None
    assert [span.span_id for span in store.read_due(10, MANY_BYTES, NOW_NS)] == [
        span_id(2),
        span_id(1),
    ]


def test_spans_that_were_lost_are_not_sent(path: Path) -> None:
    """What size took from the file is in no memory either."""
    with Store.open(path, retention=Retention(max_bytes=1)) as store:
        store.read_due(10, MANY_BYTES, NOW_NS)
        store.add(make_rows([1, 2]))
        assert store.prune(NOW_NS).lost == 2
        assert not store.read_fresh(10, MANY_BYTES)


def test_another_file(store: Store) -> None:
    """What is known of the file as it was opened need not be true in the next one."""
    store.read_due(10, MANY_BYTES, NOW_NS)
    store.add(make_rows([1]))
    with store._file.use() as connection:
        connection.execute("DELETE FROM spans")
    store._file._disconnect()
    assert store.read_fresh(10, MANY_BYTES) is None


def test_a_call_that_failed_may_have_added_spans_all_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were committed, and nobody was told: the file is asked, and takes more of them."""
    store.read_due(10, MANY_BYTES, NOW_NS)
    with monkeypatch.context() as patched:
        patched.setattr(store._file, "growth", _fail_afterwards)
        with pytest.raises(StoreUnavailable):
            store.add(make_rows([1]))
    store.add(make_rows([1, 2]))
    assert store.read_fresh(10, MANY_BYTES) is None
    assert [span.span_id for span in store.read_due(10, MANY_BYTES, NOW_NS)] == [
        span_id(1),
        span_id(2),
    ]


@contextlib.contextmanager
def _fail_afterwards(_connection: object) -> Iterator[None]:
    yield
    raise StoreUnavailable("the disk is away")
