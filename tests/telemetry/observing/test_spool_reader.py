"""``telemetry.observing.spool_reader``: what waits in the spool is observed, then deleted."""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from telemetry.errors import StoreUnavailable
from telemetry.frames import spool as frame_spool
from telemetry.frames.frame import ResponseData
from telemetry.frames.records import encode_records
from telemetry.frames.spool import FrameSpool, find_segments
from telemetry.observing.spool_reader import SpoolReader
from telemetry.own_files import open_own
from tests.telemetry import tap_frames
from tests.telemetry.service_bench import Bench, FailingStore
from tests.telemetry.tap_frames import HEL, ROLE, START_NS, WHOLE_STREAM, exchange_frames

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from telemetry.frames.frame import Frame


class Reading:
    """A reader, as telemetry has it, and the rows that came of it."""

    def __init__(self, folder: Path) -> None:
        self.bench = Bench(FailingStore())
        self.begun: list[tuple[str, int]] = []
        service = self.bench.service
        self.reader = SpoolReader(folder, service.open_source, lambda: self.bench.now_ns)
        self.reader.on_begin = lambda token, number: self.begun.append((token, number))

    def read_all(self) -> dict[int, str]:
        """Look, read what is there, commit, look again; the outcomes by exchange."""
        self.reader.look()
        while self.reader.read():
            pass
        self.bench.service.commit()
        self.reader.look()
        self.bench.service.commit()
        self.reader.look()
        return {int(row.span_id, 16): row.outcome for row in self.bench.store.rows}


def write(spool: FrameSpool, frames: Sequence[Frame]) -> None:
    """Write each frame as a record of its own."""
    for frame in frames:
        spool.write(encode_records([frame], 1 << 30))


def whole(number: int) -> list[Frame]:
    return exchange_frames(*WHOLE_STREAM, number=number)


def half(number: int) -> list[Frame]:
    return exchange_frames(ROLE, HEL, number=number)[:-1]


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_spool, "SEGMENT_BYTES", 1_000)


def test_what_was_spooled_is_recorded_and_deleted(tmp_path: Path) -> None:
    """Of two workers, over many segments, with exchanges that lie in several of them."""
    one, two = FrameSpool(tmp_path, "a1"), FrameSpool(tmp_path, "b2")
    for pair in zip(whole(1), whole(2), strict=True):
        write(one, pair)
    write(two, whole(3))
    for spool in (one, two):
        spool.close()
    reading = Reading(tmp_path)
    assert len(find_segments(tmp_path)) > 3
    assert reading.read_all() == dict.fromkeys((1, 2, 3), "completed")
    assert find_segments(tmp_path) == []
    assert reading.reader.is_empty
    assert sorted(reading.begun) == [("a1", 1), ("a1", 2), ("b2", 3)]


def test_segments_stay_until_their_spans_are_stored(tmp_path: Path) -> None:
    """A telemetry that dies leaves them to its successor, which reads them again."""
    spool = FrameSpool(tmp_path, "a1")
    write(spool, [*whole(1), *whole(2)])
    spool.close()
    doomed = Reading(tmp_path)
    doomed.bench.store.error = StoreUnavailable("full")
    assert doomed.read_all() == {}
    segments = find_segments(tmp_path)
    assert len(segments) > 1
    assert Reading(tmp_path).read_all() == dict.fromkeys((1, 2), "completed")
    assert find_segments(tmp_path) == []


def test_a_long_exchange_keeps_what_lies_behind_its_begin(tmp_path: Path) -> None:
    """It is read again from there, should telemetry die."""
    spool = FrameSpool(tmp_path, "a1")
    write(spool, [*whole(1), *half(2), *whole(3)])
    reading = Reading(tmp_path)
    assert reading.read_all() == dict.fromkeys((1, 3), "completed")
    kept = [segment.number for segment in find_segments(tmp_path)]
    assert kept[0] > 1
    write(spool, whole(2)[len(half(2)) :])
    spool.close()
    successor = Reading(shutil.copytree(tmp_path, tmp_path / "copy"))
    assert successor.read_all()[2] == "completed"
    assert reading.read_all()[2] == "completed"


def test_what_a_dead_worker_left_open_is_lost_and_that_of_a_living_one_is_not(
    tmp_path: Path,
) -> None:
    """Once all that it wrote is read."""
    spool = FrameSpool(tmp_path, "a1")
    write(spool, [*half(1), *whole(2)])
    reading = Reading(tmp_path)
    assert reading.read_all() == {2: "completed"}
    assert reading.reader.has_unread("a1")
    spool.close()
    assert reading.read_all() == {1: "worker_lost", 2: "completed"}
    assert not reading.reader.has_unread("a1")
    assert find_segments(tmp_path) == []


def test_what_is_lost_ends_when_its_worker_wrote_last(tmp_path: Path) -> None:
    """Not when it is found, which may be days later; and not before its last read."""
    ended = {}
    for name, written_ns in (("later", START_NS + 5_000_000_000), ("earlier", 1)):
        folder = tmp_path / name
        spool = FrameSpool(folder, "a1")
        write(spool, half(1))
        spool.close()
        for segment in find_segments(folder):
            os.utime(segment.path, ns=(written_ns, written_ns))
        reading = Reading(folder)
        reading.bench.now_ns = START_NS + 3_600_000_000_000
        reading.read_all()
        [row] = reading.bench.store.rows
        ended[name] = row.end_ns
    assert ended["later"] == START_NS + 5_000_000_000
    last = half(1)[-1]
    assert isinstance(last, ResponseData)
    assert ended["earlier"] == last.at_ns


def test_a_worker_that_writes_again_is_heard_again(tmp_path: Path) -> None:
    """It lets go of its segment whenever nothing is open there."""
    spool = FrameSpool(tmp_path, "a1")
    reading = Reading(tmp_path)
    for number in (1, 2):
        write(spool, whole(number))
        spool.close()
        assert reading.read_all()[number] == "completed"
        assert reading.reader.is_empty


def test_what_cannot_be_deleted_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told, and deleted when that is possible again."""
    spool = FrameSpool(tmp_path, "a1")
    write(spool, whole(1))
    spool.close()
    reading = Reading(tmp_path)

    def refuse(path: Path, *, missing_ok: bool) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(type(tmp_path), "unlink", refuse)
    for _ in range(3):
        assert reading.read_all() == {1: "completed"}
    assert len(reading.bench.store.rows) == 1
    assert caplog.text.count("cannot be emptied: Operation not permitted") == 1
    monkeypatch.undo()
    assert reading.read_all() == {1: "completed"}
    assert find_segments(tmp_path) == []


@pytest.mark.parametrize("cut", [1, 9, 40])
def test_a_frame_that_was_not_written_whole_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, cut: int
) -> None:
    """The worker was killed meanwhile; what is before it counts."""
    spool = FrameSpool(tmp_path, "a1")
    write(spool, [*whole(1), *half(2)])
    spool.close()
    last = find_segments(tmp_path)[-1].path
    last.write_bytes(last.read_bytes()[:-cut])
    assert Reading(tmp_path).read_all() == {1: "completed", 2: "worker_lost"}
    assert "ends within a frame" in caplog.text
    assert find_segments(tmp_path) == []


@pytest.mark.parametrize("garbage", [b"\xff" * 20, b"\0" * 64, b"\0\0\0\1\0\0\0\0\xc1"])
def test_damage_is_told_and_the_next_segments_are_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, garbage: bytes
) -> None:
    """With the place of it, and nothing of it is tried without end."""
    spool = FrameSpool(tmp_path, "a1")
    write(spool, [*whole(1), tap_frames.begin(9)])
    first = find_segments(tmp_path)[0].path
    first.write_bytes(first.read_bytes() + garbage)
    write(spool, [*whole(2), *whole(3)])
    spool.close()
    outcomes = Reading(tmp_path).read_all()
    assert outcomes[3] == "completed"
    assert f"{first} is damaged near byte" in caplog.text
    assert find_segments(tmp_path) == []


def fail_to_open(monkeypatch: pytest.MonkeyPatch, path: Path, times: int) -> None:
    """As where no descriptors are left."""
    left = iter(range(times))

    def open_or_fail(opened: Path, flags: int) -> int:
        if opened == path and next(left, None) is not None:
            raise OSError(errno.EMFILE, "Too many open files")
        return open_own(opened, flags)

    monkeypatch.setattr("telemetry.observing.spool_reader.open_own", open_or_fail)


def test_a_read_that_fails_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing of the worker is read before that, for its frames have an order."""
    spool = FrameSpool(tmp_path, "a1")
    write(spool, [*whole(1), *whole(2)])
    spool.close()
    segments = find_segments(tmp_path)
    fail_to_open(monkeypatch, segments[0].path, 2)
    reading = Reading(tmp_path)
    assert [reading.read_all(), reading.read_all()] == [{}, {}]
    assert find_segments(tmp_path) == segments
    assert "cannot be read: Too many open files" in caplog.text
    assert reading.read_all() == dict.fromkeys((1, 2), "completed")
    assert find_segments(tmp_path) == []


def test_what_fails_for_long_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And told as damage, and what is behind it is read."""
    spool = FrameSpool(tmp_path, "a1")
    write(spool, [*whole(1), *whole(2), *whole(3)])
    spool.close()
    [first, *_] = find_segments(tmp_path)
    fail_to_open(monkeypatch, first.path, 100)
    reading = Reading(tmp_path)
    assert reading.read_all() == {}
    reading.bench.now_ns += int(29e9)
    assert reading.read_all() == {}
    reading.bench.now_ns += int(1e9)
    assert reading.read_all()[3] == "completed"
    assert f"{first.path} is damaged near byte 0" in caplog.text
    assert find_segments(tmp_path) == []


def test_what_another_worker_spooled_is_read_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many slices that takes: time counts, and not how often it was tried."""
    one, other = FrameSpool(tmp_path, "a1"), FrameSpool(tmp_path, "b2")
    write(one, whole(1))
    for number in range(2, 40):
        write(other, whole(number))
    one.close()
    other.close()
    fail_to_open(monkeypatch, find_segments(tmp_path)[0].path, 1_000)
    reading = Reading(tmp_path)
    assert reading.read_all() == dict.fromkeys(range(2, 40), "completed")
    monkeypatch.undo()
    assert reading.read_all()[1] == "completed"


def test_what_a_full_disk_cut_off_and_was_read_already_is_read_whole_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader has seen half of a record that the writer then takes back."""
    monkeypatch.setattr(frame_spool, "SEGMENT_BYTES", 100_000)
    spool = FrameSpool(tmp_path, "a1")
    reading = Reading(tmp_path)
    write(spool, half(1))
    write_some = os.write

    def fail(descriptor: int, data: bytes) -> int:
        if len(data) > 20:
            return write_some(descriptor, data[:20])
        reading.read_all()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="No space"):
        spool.write(encode_records(whole(2)[:2], 0)[:1])
    monkeypatch.setattr(os, "write", write_some)
    write(spool, [*whole(1)[len(half(1)) :], *whole(2)])
    spool.close()
    assert reading.read_all() == dict.fromkeys((1, 2), "completed")


def test_what_is_whole_before_the_damage_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Though nothing is between them; and the damage is nobody's end."""
    spool = FrameSpool(tmp_path, "a1")
    spool.write(encode_records(whole(1), 0))
    spool.close()
    [segment] = find_segments(tmp_path)
    segment.path.write_bytes(segment.path.read_bytes() + b"\0\0\0\1\0\0\0\0\xc1" * 2)
    assert Reading(tmp_path).read_all() == {1: "completed"}
    assert caplog.text.count("is damaged near byte") == 1
    assert "was killed" not in caplog.text
