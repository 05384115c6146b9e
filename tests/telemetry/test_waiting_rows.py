"""``telemetry.waiting_rows``: what waits for the store, and what is committed together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from telemetry import waiting_rows
from telemetry.store.rows import CallPicture, LeftOut
from telemetry.waiting_rows import Waiting, WaitingRows, join_open_runs
from tests.telemetry.span_rows import make_row

if TYPE_CHECKING:
    import pytest


def test_a_batch_has_its_bytes_and_one_entry_at_least(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The oldest come first, and stay until they are settled."""
    entries = [Waiting((make_row(number),), {}, None) for number in range(4)]
    monkeypatch.setattr(waiting_rows, "BATCH_BYTES", 2 * entries[0].size_bytes)
    waiting = WaitingRows()
    for entry in entries:
        waiting.add(entry)
    assert waiting.is_due
    batch = waiting.choose_batch()
    assert batch == entries[:2]
    assert waiting.spans == 4
    waiting.settle(batch)
    assert (waiting.spans, waiting.choose_batch()) == (2, entries[2:])
    monkeypatch.setattr(waiting_rows, "BATCH_BYTES", 1)
    assert waiting.choose_batch() == entries[2:3]


def test_open_runs_count_among_the_bytes_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call of a run brings all of it: an hour without a store must not fill the memory."""
    row = make_row(1)
    monkeypatch.setattr(waiting_rows, "MAX_WAITING_BYTES", 3 * (len(row.span) + 1_000))
    waiting = WaitingRows()
    for number in range(5):
        waiting.add(Waiting((row,), {1: bytes(1_000), 2: None, number: None}, None))
    assert waiting.size_bytes == 5 * (len(row.span) + 1_000) - 1_000  # run 1 is over once
    assert waiting.drop_surplus() == 2
    assert waiting.size_bytes <= waiting_rows.MAX_WAITING_BYTES


def test_of_one_run_the_last_change_counts() -> None:
    """It may be over, and begin no more."""
    batch = [
        Waiting((), {1: b"a", 2: b"b"}, None),
        Waiting((), {}, None),
        Waiting((), {1: None, 3: b"c"}, None),
    ]
    assert join_open_runs(batch) == {1: None, 2: b"b", 3: b"c"}


def test_pictures_are_given_up_before_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the store is away the oldest go, and their rows say so; no span is dropped for them."""
    monkeypatch.setattr(waiting_rows, "MAX_WAITING_BESIDE_BYTES", 2_500)
    waiting = WaitingRows()
    for number in range(4):
        picture = CallPicture(is_answer=False, message=0, part=0, data=bytes(1_000))
        waiting.add(Waiting((replace(make_row(number), pictures=(picture,)),), {}, None))
    assert waiting.drop_surplus() == 0
    assert (waiting.spans, waiting.beside_bytes) == (4, 2_000)
    found = [entry.rows[0].pictures[0].left_out for entry in waiting.choose_batch()]
    assert found == [LeftOut.NO_MEMORY, LeftOut.NO_MEMORY, None, None]
    waiting.settle(waiting.choose_batch())
    assert waiting.beside_bytes == 0


def test_pictures_are_committed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They count towards a batch, so that they do not pile up in memory."""
    monkeypatch.setattr(waiting_rows, "BATCH_BYTES", 1_000)
    picture = CallPicture(is_answer=False, message=0, part=0, data=bytes(1_000))
    waiting = WaitingRows()
    waiting.add(Waiting((replace(make_row(1), pictures=(picture,)),), {}, None))
    assert waiting.is_due
