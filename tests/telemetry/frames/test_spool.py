"""``telemetry.frames.spool``: what a worker writes is there whole, within limits."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from telemetry.errors import SpoolFull
from telemetry.frames import blocks
from telemetry.frames import spool as frame_spool
from telemetry.frames.spool import FrameSpool, find_segments, measure_spool, spool_folder
from telemetry.own_files import is_held

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return spool_folder(tmp_path / "t.db")


@pytest.fixture(autouse=True)
def _plain() -> Iterator[None]:
    """Blocks that are as long as what is in them, for these tests count bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "pack", lambda pieces: [b"".join(pieces)])
        yield


def contents(folder: Path) -> list[bytes]:
    return [segment.path.read_bytes() for segment in find_segments(folder)]


def test_segments_follow_one_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new one begins where the last has no room for more; each has whole records."""
    monkeypatch.setattr(frame_spool, "SEGMENT_BYTES", 10)
    spool = FrameSpool(folder, "a1")
    assert measure_spool(folder) == 0
    for letter in (b"a", b"b", b"c"):
        spool.write([letter * 4, letter])
    assert contents(folder) == [b"aaaaabbbbb", b"ccccc"]
    assert [(segment.worker, segment.number) for segment in find_segments(folder)] == [
        ("a1", 1),
        ("a1", 2),
    ]
    assert measure_spool(folder) == 15


def test_what_was_not_taken_leaves_no_trace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full in the midst of a record; what comes later is a segment of its own."""
    spool = FrameSpool(folder, "a1")
    spool.write([b"first."])
    write = os.write

    def fail(descriptor: int, data: bytes) -> int:
        if len(data) > 3:
            return write(descriptor, data[:3])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="No space"):
        spool.write([b"second"])
    monkeypatch.undo()
    spool.write([b"third"])
    spool.write([b"fourth"])
    assert contents(folder) == [b"first.", b"thirdfourth"]


def test_all_workers_share_one_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is reached nothing is written, until somebody has read and deleted."""
    monkeypatch.setattr(frame_spool, "SEGMENT_BYTES", 10)
    one, two = (FrameSpool(folder, token, max_bytes=25) for token in ("a1", "b2"))
    one.write([b"x" * 14])
    two.write([b"y" * 10])
    for spool in (one, two):
        with pytest.raises(SpoolFull, match="is full"):
            spool.write([b"z"])
    assert measure_spool(folder) == 24
    find_segments(folder)[0].path.unlink()
    one.write([b"z"])
    assert contents(folder) == [b"z", b"y" * 10]


def test_nobody_grows_past_the_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that are begun keep room to grow, and a large write is judged by its own size."""
    monkeypatch.setattr(frame_spool, "SEGMENT_BYTES", 10)
    spools = [FrameSpool(folder, token, max_bytes=35) for token in ("a1", "b2", "c3", "d4")]
    for spool in spools[:3]:
        spool.write([b"x"])
    with pytest.raises(SpoolFull):
        spools[3].write([b"x"])
    with pytest.raises(SpoolFull):
        spools[0].write([b"x" * 25])
    for spool in spools[:3]:
        spool.write([b"x" * 9])
    assert measure_spool(folder) == 30


def test_room_is_left_on_the_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store needs it."""
    monkeypatch.setattr(frame_spool, "SPARE_BYTES", 1 << 60)
    with pytest.raises(SpoolFull, match="is almost full"):
        FrameSpool(folder, "a1").write([b"x"])
    assert contents(folder) == []


def test_a_spool_of_nothing_takes_nothing(folder: Path) -> None:
    """``max_spool_bytes`` 0."""
    with pytest.raises(SpoolFull):
        FrameSpool(folder, "a1", max_bytes=0).write([b"x"])


def test_the_last_segment_is_held_until_it_is_closed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one before it is not."""
    monkeypatch.setattr(frame_spool, "SEGMENT_BYTES", 1)
    spool = FrameSpool(folder, "a1")
    spool.write([b"x"])
    spool.write([b"y"])
    first, last = (segment.path for segment in find_segments(folder))
    assert (is_held(first), is_held(last)) == (False, True)
    spool.close()
    assert not is_held(last)
    spool.write([b"z"])
    assert contents(folder) == [b"x", b"y", b"z"]


def test_a_segment_that_does_not_close_well_is_let_go_of(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk may tell of a failure only then; the descriptor is somebody else's after that."""
    spool = FrameSpool(folder, "a1")
    spool.write([b"x"])
    close = os.close

    def fail(descriptor: int) -> None:
        close(descriptor)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "close", fail)
    spool.close()
    monkeypatch.undo()
    spool.close()
    spool.write([b"y"])
    assert contents(folder) == [b"x", b"y"]


def test_only_files_are_segments(folder: Path) -> None:
    """Nobody waits for what stands there under such a name: a pipe has no end."""
    folder.mkdir()
    os.mkfifo(folder / "a1-00000001.blocks")
    (folder / "b2-00000001.blocks").mkdir()
    (folder / "c3-00000001.blocks").symlink_to(folder / "elsewhere")
    assert find_segments(folder) == []


def test_the_owner_alone_may_read(folder: Path) -> None:
    """Folder and file."""
    FrameSpool(folder, "a1").write([b"x"])
    [segment] = find_segments(folder)
    assert [path.stat().st_mode & 0o777 for path in (folder, segment.path)] == [0o700, 0o600]
