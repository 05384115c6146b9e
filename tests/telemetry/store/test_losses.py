"""What a store has lost without SQLite's noticing: its write-ahead log, or the bits of a span."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import msgspec
import pytest

from telemetry.reading.stored_calls import open_calls
from telemetry.store.checksum import DAMAGED_WORDS
from telemetry.store.opening import wal_path
from telemetry.store.rows import SpanState
from telemetry.store.store import Store
from telemetry.store.writing import RefusedRow
from tests.telemetry.damage import fold, forget_pages, make_older
from tests.telemetry.due_spans import FOREVER_NS, taken
from tests.telemetry.exporting import Clock, ScriptedSender, stepwise, summaries
from tests.telemetry.span_rows import make_row, make_rows, span_id

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


# A write-ahead log that is gone


def killed(path: Path, folder: Path) -> Path:
    """The files of a store as a kill of its owner leaves them."""
    folder.mkdir()
    for suffix in ("", "-wal", ".lock"):
        shutil.copy(f"{path}{suffix}", folder)
    return folder / path.name


def garble(wal: Path, first: float) -> None:
    """Overwrite a part of the log, from this share of it on."""
    content = wal.read_bytes()
    at = int(len(content) * first)
    wal.write_bytes(content[:at] + bytes(byte ^ 0xA5 for byte in content[at:]))


@pytest.mark.parametrize(
    "lose",
    [
        lambda wal: wal.unlink(),
        lambda wal: wal.write_bytes(b""),
        lambda wal: wal.write_bytes(wal.read_bytes()[:1000]),
        lambda wal: garble(wal, 0),
    ],
    ids=["removed", "emptied", "truncated", "garbled"],
)
def test_spans_of_a_lost_log_are_told(
    path: Path, tmp_path: Path, lose: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    """One line says how many are missing, once; they are counted, and the store goes on."""
    with Store.open(path) as store:
        store.add(make_rows(range(1, 5)))
        fold(store)
        for number in range(5, 65):
            store.add([make_row(number)])
        after = killed(path, tmp_path / "after")
    lose(wal_path(after))
    with Store.open(after) as store:
        (record,) = caplog.records
        assert f"the store {after} lacks the last 60 spans" in record.getMessage()
        assert store.counts().damaged == 60
        assert taken(store) == [span_id(number) for number in range(1, 5)]
        assert store.add([make_row(100)]) == 1
    with Store.open(after) as store:
        assert store.counts().damaged == 0
    assert len(caplog.records) == 1


def test_spans_of_the_very_first_log_are_told(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A new store is one in its file before the first span is in its log."""
    with Store.open(path) as store:
        store.add(make_rows(range(60)))
        after = killed(path, tmp_path / "after")
    wal_path(after).unlink()
    with Store.open(after) as store:
        assert store.counts().damaged == 60
        assert store.counts().pending == 0
    assert "lacks the last 60 spans" in caplog.text


def test_spans_of_a_log_that_is_half_garbled_are_told(path: Path, tmp_path: Path) -> None:
    """What lies before the damage is kept, and the number is that of the others."""
    with Store.open(path) as store:
        for number in range(60):
            store.add([make_row(number)])
        after = killed(path, tmp_path / "after")
    garble(wal_path(after), 0.5)
    with Store.open(after) as store:
        counts = store.counts()
        assert 0 < counts.damaged < 60
        assert counts.damaged + counts.pending == 60
        assert counts.pending == len(taken(store))


def test_a_store_that_lacks_nothing_is_silent(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After a kill, replays, commits that failed, removals, and with a lock of a former version."""
    with Store.open(path) as store:
        store.add(make_rows([1, 2, 3]))
        store.add(make_rows([2, 3, 4]))
        with pytest.raises(RefusedRow):
            store.add([make_row(5), msgspec.structs.replace(make_row(6), start_ns=None)])
        store.mark_delivered([1])
        store.prune(FOREVER_NS)
        after = killed(path, tmp_path / "after")
    for _ in range(2):
        with Store.open(after) as store:
            assert (store.counts().damaged, store.counts().pending) == (0, 3)
    lock = after.with_name(f"{after.name}.lock")
    lock.write_text("\n".join(lock.read_text().splitlines()[:2]) + "\n")
    Store.open(after).close()
    assert caplog.records == []


def test_another_store_in_its_place_lacks_nothing(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever removes a store, and not its lock file, has lost nothing of the next one."""
    with Store.open(path) as store:
        store.add(make_rows(range(60)))
    path.unlink()
    Store.open(path).close()
    assert caplog.records == []


def test_an_older_copy_in_its_place_is_told(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What was recorded since the copy was made is missing."""
    copy = tmp_path / "copy.db"
    for numbers in (range(10), range(10, 30)):
        with Store.open(path) as store:
            store.add(make_rows(numbers))
        if not copy.exists():
            shutil.copy(path, copy)
    shutil.copy(copy, path)
    Store.open(path).close()
    assert "lacks the last 20 spans" in caplog.text


# Bits that were turned


def turn_bit(store: Store, number: int) -> None:
    """Turn one bit of a span in the file, as a failing disk does."""
    fold(store)
    span = make_row(number, padding_bytes=200).span
    content = bytearray(store.path.read_bytes())
    at = content.index(span[-150:])
    assert content.count(span[-150:]) == 1
    content[at] ^= 0x10
    with store.path.open("r+b") as file:
        file.seek(at)
        file.write(content[at : at + 1])
    forget_pages(store)


def test_a_damaged_span_is_never_sent(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is set aside with words of ours, counted and told; the others are delivered."""
    with Store.open(path) as store:
        store.add([make_row(number, padding_bytes=200) for number in range(1, 11)])
        turn_bit(store, 3)
        turn_bit(store, 8)
        sender = ScriptedSender()
        exporter = stepwise(store, sender, Clock())
        while exporter.step() == 0:
            pass
        whole = [number for number in range(1, 11) if number not in {3, 8}]
        assert b"".join(sender.batches) == b"".join(
            make_row(number, padding_bytes=200).span for number in whole
        )
        found = summaries(store)
        for number in (3, 8):
            assert found[span_id(number)].state is SpanState.REJECTED
            assert found[span_id(number)].last_error == DAMAGED_WORDS
        counts = store.counts()
        assert (counts.delivered, counts.rejected, counts.pending) == (8, 2, 0)
        assert counts.damaged == 2
    (record,) = caplog.records
    message = record.getMessage()
    assert (
        f"2 spans of the store {path} are damaged so far, the last of them {span_id(8)}" in message
    )


def test_whole_batches_that_are_damaged_hold_nobody_up(path: Path) -> None:
    """What is due behind them is given out by the same call."""
    with Store.open(path) as store:
        store.add([make_row(number, padding_bytes=200) for number in range(1, 6)])
        for number in range(1, 5):
            turn_bit(store, number)
        assert taken(store, limit_spans=2) == [span_id(5)]
        assert store.counts().damaged == 4


def test_a_span_that_is_tried_alone_is_no_exception(path: Path) -> None:
    """A damaged one is set aside; the next of its kind is given out."""
    with Store.open(path) as store:
        store.add([make_row(number, padding_bytes=200) for number in (1, 2)])
        store.mark_failed_alone(1, 0, "broke")
        store.mark_failed_alone(2, 1, "broke")
        turn_bit(store, 1)
        alone = store.read_alone(FOREVER_NS)
        assert alone is not None
        assert alone.span_id == span_id(2)
        turn_bit(store, 2)
        assert store.read_alone(FOREVER_NS) is None
        assert store.counts().rejected == 2


def test_bytes_that_became_text_are_bytes(store: Store) -> None:
    """One bit of a row says that it is text, which need not be UTF-8."""
    store.add([make_row(1, padding_bytes=200)])
    with store._file.use() as connection:
        connection.execute("UPDATE span_bytes SET span = CAST(span AS TEXT)")
    assert len(taken(store)) == 1
    store.mark_failed_alone(1, 0, "broke")
    assert store.read_alone(FOREVER_NS) is not None
    with open_calls(store.path) as reader:
        (found,) = reader.find(span_id(1))
    assert found.span == make_row(1, padding_bytes=200).span


# Spans of an older schema


@pytest.fixture
def old(path: Path) -> Path:
    """A store that a former version wrote: two pending spans and a delivered one."""
    with Store.open(path) as store:
        store.add(make_rows([1, 2, 3]))
        store.mark_delivered([3])
    make_older(path)
    return path


def test_spans_without_a_checksum_are_sent_and_shown(old: Path) -> None:
    """Before the owner has migrated the file as well as after it; all of them are counted."""
    whole = [row.span for row in make_rows([3, 2, 1])]
    with open_calls(old) as reader:
        assert [found.span for found in reader.find("0")] == whole
        with Store.open(old) as store:
            counts = store.counts()
            assert (counts.pending, counts.delivered, counts.damaged) == (2, 1, 0)
            assert [found.span for found in reader.find("0")] == whole
            store.add([make_row(4)])
            assert taken(store) == [span_id(1), span_id(2), span_id(4)]
            assert store.counts().pending == 3


def test_a_reader_shows_nothing_that_is_damaged(path: Path) -> None:
    """The span is there, without its bytes; the others are whole."""
    with Store.open(path, delivers=False) as store, open_calls(path) as reader:
        store.add([make_row(number, padding_bytes=200) for number in (1, 2)])
        turn_bit(store, 1)
        second = make_row(2, padding_bytes=200).span
        assert [found.span for found in reader.newest(10)] == [b"", second]
        assert [found.span for found in reader.find(span_id(1))] == [b""]
