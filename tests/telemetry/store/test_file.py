"""``telemetry.store.file``: a store that is damaged, while it runs or when it is opened."""

from __future__ import annotations

import logging
import sqlite3
from typing import TYPE_CHECKING

import pytest

from telemetry.errors import StoreDamaged, StoreError, StoreForeign, StoreUnavailable
from telemetry.store import file as store_file
from telemetry.store.store import Store
from tests.telemetry.damage import (
    PAGE_BYTES,
    damage_page,
    damaged_sets,
    fold,
    forget_pages,
    integrity,
    pages_of,
)
from tests.telemetry.due_spans import FOREVER_NS, MANY_BYTES, taken
from tests.telemetry.span_rows import make_row, make_rows, span_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
DAMAGED_HEAD = b"\0" * 100


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """A store of 200 pending spans of a few pages' size, all in the file."""
    with Store.open(path) as opened:
        opened.add([make_row(number, padding_bytes=500) for number in range(1, 201)])
        fold(opened)
        yield opened


# Damaged while running

OPERATIONS: dict[str, Callable[[Store], object]] = {
    "add": lambda store: store.add([make_row(1000)]),
    "take": lambda store: store.read_due(1000, MANY_BYTES, FOREVER_NS),
    "mark_delivered": lambda store: store.mark_delivered(range(1, 201)),
    "mark_retry": lambda store: store.mark_retry(range(1, 201), 0, "down"),
    "mark_rejected": lambda store: store.mark_rejected(range(1, 201), "no"),
    "prune": lambda store: store.prune(FOREVER_NS),
    "counts": lambda store: store.counts(),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_whoever_finds_the_damage_a_new_store_is_begun(
    store: Store, path: Path, operation: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The file goes aside, what was asked is done in a new one, one line tells what to do."""
    root, *leaves = pages_of(path, "spans")
    for page in (root, *pages_of(path, "spans_by_state")):
        damage_page(path, page)
    assert leaves
    forget_pages(store)
    OPERATIONS[operation](store)
    (aside,) = damaged_sets(path)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    message = record.getMessage()
    assert f"the store {path} was damaged (database disk image is malformed)" in message
    assert f"it is now {aside}" in message
    assert f"`sqlite3 {aside} .recover`" in message
    store.add([make_row(2000)])
    assert taken(store)[-1] == span_id(2000)
    assert integrity(path) == ["ok"]
    assert len(caplog.records) == 1


def test_pending_spans_go_along(store: Store, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What can be read around one bad page is carried over; the numbers mean what they meant."""
    before = {span.seq: span.span_id for span in store.read_due(1000, MANY_BYTES, FOREVER_NS)}
    damage_page(path, pages_of(path, "spans")[2])
    forget_pages(store)
    store.mark_retry(before, 0, "down")
    store.add([make_row(1000)])
    assert len(damaged_sets(path)) == 1
    after = {span.seq: span.span_id for span in store.read_due(1000, MANY_BYTES, FOREVER_NS)}
    new = {seq: one for seq, one in after.items() if seq > 200}
    assert list(new.values()) == [span_id(1000)]
    kept = {seq: one for seq, one in after.items() if seq <= 200}
    assert 120 < len(kept) < 200
    assert kept.items() <= before.items()
    assert store.counts().damaged == 200 - len(kept)
    assert f"({200 - len(kept)} more could not be read)" in caplog.text


def test_numbers_in_hand_settle_no_other_span(store: Store, path: Path) -> None:
    """R8: a fate that is reported after a new beginning is that of the same span, or of none."""
    in_hand = [span.seq for span in store.read_due(1000, MANY_BYTES, FOREVER_NS)]
    damage_page(path, 1, DAMAGED_HEAD)  # nothing can be read of this one
    forget_pages(store)
    assert store.add(make_rows([1000, 1001])) == 2
    store.mark_delivered(in_hand)
    assert taken(store) == [span_id(1000), span_id(1001)]


def test_bytes_that_cannot_be_read(path: Path) -> None:
    """A span whose bytes are damaged is lost alone."""
    with Store.open(path) as store:
        store.add([make_row(number, padding_bytes=3 * PAGE_BYTES) for number in range(1, 41)])
        fold(store)
        damage_page(path, pages_of(path, "span_bytes")[3])
        forget_pages(store)
        assert 30 < len(taken(store)) < 40
    assert integrity(path) == ["ok"]


def test_a_disk_that_damages_everything(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second damage within a minute is an error, and takes no file away; later it does."""
    damage_page(path, pages_of(path, "spans")[0])
    forget_pages(store)
    store.add([make_row(1000)])
    fold(store)
    damage_page(path, pages_of(path, "spans")[0])
    forget_pages(store)
    for _ in range(3):
        with pytest.raises(StoreDamaged):
            store.add([make_row(1001)])
    assert len(damaged_sets(path)) == 1
    monkeypatch.setattr(store_file, "MIN_ANEW_SECONDS", 0.0)
    assert store.add([make_row(1001)]) == 1
    assert len(damaged_sets(path)) == 2


def test_folder_that_cannot_be_written(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the file cannot be set aside the call fails; when it can, nothing more is needed."""

    def refuse(path: Path) -> Path:
        raise StoreUnavailable("read-only")

    damage_page(path, pages_of(path, "spans")[0])
    forget_pages(store)
    with monkeypatch.context() as patch:
        patch.setattr(store_file, "set_aside", refuse)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="read-only"):
                store.add([make_row(1000)])
    assert store.add([make_row(1000)]) == 1


def test_new_beginning_that_is_interrupted(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the new file cannot be written yet, what is to be carried over is not forgotten."""

    def refuse(*args: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    damage_page(path, pages_of(path, "spans_by_state")[0])
    forget_pages(store)
    with monkeypatch.context() as patch:
        patch.setattr(store_file, "carry_over", refuse)
        with pytest.raises(StoreUnavailable, match="disk I/O error"):
            store.add([make_row(1000)])
    assert store.add([make_row(1000)]) == 1
    assert len(taken(store)) == 201


# Damaged when it is opened


@pytest.mark.parametrize("damage", ["head", "page", "schema", "unmarked"])
def test_a_damaged_store_is_no_obstacle(store: Store, path: Path, damage: str) -> None:
    """At the next start as well: known by its head, or by the lock file where that is gone."""
    store.close()
    if damage == "page":
        damage_page(path, pages_of(path, "spans_by_state")[0])
    elif damage == "schema":
        damage_page(path, 1, path.read_bytes()[:100] + b"\xa5" * 3000)
    else:
        damage_page(path, 1, DAMAGED_HEAD)
    if damage != "head":
        path.with_name("spans.db.lock").unlink(missing_ok=damage == "unmarked")
    if damage == "unmarked":
        with pytest.raises(StoreForeign, match="no SQLite database"):
            Store.open(path)
        assert damaged_sets(path) == []
        return
    with Store.open(path) as successor:
        # An index is damaged: all is there; the head or the schema: nothing can be read.
        assert len(taken(successor)) == (200 if damage == "page" else 0)
        assert len(damaged_sets(path)) == 1
        assert successor.add([make_row(1000)]) == 1


@pytest.mark.parametrize("content", [b"no database " * 1000, b"SQLite format 3\0" + b"x" * 9000])
def test_a_file_that_never_was_a_store_stays(path: Path, content: bytes) -> None:
    """Neither a first nor a second start takes it away, though there is a lock file by then."""
    path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(StoreForeign):
            Store.open(path)
    assert path.read_bytes() == content
    assert damaged_sets(path) == []


def test_another_file_in_the_place_of_a_store_stays(store: Store, path: Path) -> None:
    """The lock file vouches for one file, not for whatever has its name."""
    store.close()
    path.rename(path.with_name("moved.db"))
    path.write_bytes(b"no database " * 1000)
    with pytest.raises(StoreForeign):
        Store.open(path)
    assert damaged_sets(path) == []


def test_closed_store_stays_closed(store: Store) -> None:
    """Nothing opens a file again that was closed, be it twice."""
    store.close()
    store.close()
    for operation in OPERATIONS.values():
        with pytest.raises(StoreError, match="is closed"):
            operation(store)
