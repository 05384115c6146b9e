"""Rows of the disk: full, or not to be written, while calls go on.

Every client gets its answer byte for byte (R2). Spans wait in memory and arrive once they can be
recorded (R8); past what memory may hold (R5), and at an end before that, what is lost is counted
and said.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.e2e.processes import wait_until
from tests.faults.disk import full, immutable, small_disk
from tests.faults.scene import ARRIVAL_SECONDS, playing
from tests.faults.stage import is_long, scaled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.faults.load import LoadResult
    from tests.faults.scene import Scene

pytestmark = pytest.mark.timeout(900 if is_long() else 120)

DISK_BYTES = 32 << 20
"""Room for a store of some thousand spans, and quickly filled."""

COUNT = 5_000

CALM_COUNT = 1_000

LARGE_DISK_BYTES = 256 << 20
"""Room for all that memory held."""

LARGE_COUNT = 200

LARGE_RATE = 20.0
"""So few per second that no body is shed on the way to memory."""

PAD_BYTES = 512 << 10
"""Of a large request, which its span holds twice: so many are thrice what memory may hold."""

RECORDED = "spantap_spans_recorded_total"
WAITING = "spantap_spans_waiting"
DROPPED = "spantap_spans_dropped_total"
SPOOLED = "spantap_spool_size_bytes"

SAID_LOST = re.compile(r"(\d+) spans are lost")


def test_spans_wait_for_room_on_a_full_disk(load_upstream: str, tmp_path: Path) -> None:
    """The log says that the disk is full; when there is room again nothing is missing."""
    with playing_on_disk(tmp_path, load_upstream, DISK_BYTES) as (scene, disk):
        assert_spans_wait(scene, full(disk), "full", "disk full during load, then room")


def test_spans_wait_for_a_store_that_cannot_be_written(load_upstream: str, tmp_path: Path) -> None:
    """Likewise where writing fails for another reason."""
    with playing(tmp_path, load_upstream) as scene:
        store = scene.spantap.store
        fault = immutable(store, store.with_name(f"{store.name}-wal"))
        assert_spans_wait(scene, fault, " ERROR ", "store read-only during load, then not")


def test_what_a_full_disk_costs_at_the_end_is_said(load_upstream: str, tmp_path: Path) -> None:
    """Ended while the disk is full: exit status 1, and the log has the number that is missing."""
    with playing_on_disk(tmp_path, load_upstream, DISK_BYTES) as (scene, disk):
        calm = scene.calm_load(scaled(CALM_COUNT))
        with full(disk):
            during, _ = load_until_said(scene, "full")
            assert scene.spantap.terminate() == 1
        said = sum(map(int, SAID_LOST.findall(scene.spantap.log)))
        scene.spantap.start()
        with scene.backend():
            scene.wait_for_none_pending()
        scene.finish(
            "ended while the disk is full",
            during,
            calm,
            {"said to be lost": said},
            counted_lost=said,
        )
        assert said > 0, "the disk was not full"


@pytest.mark.skipif(not is_long(), reason="some 200 MB of spans: run `make faults`")
def test_what_memory_cannot_hold_is_counted(load_upstream: str, tmp_path: Path) -> None:
    """More spans than memory may hold while the disk is full: the rest is dropped and counted."""
    with playing_on_disk(tmp_path, load_upstream, LARGE_DISK_BYTES) as (scene, disk):
        calm = scene.calm_load(LARGE_COUNT // 10, rate=LARGE_RATE, pad_bytes=PAD_BYTES)
        with full(disk):
            during = scene.load(LARGE_COUNT, rate=LARGE_RATE, pad_bytes=PAD_BYTES)
            waiting = count_waiting(scene)
            dropped = int(scene.spantap.metrics()[DROPPED])
        with scene.backend():
            scene.wait_for_number(WAITING, lambda number: number == 0)
            scene.wait_for_none_pending()
        scene.finish(
            "disk full for more spans than 64 MiB of memory hold",
            during,
            calm,
            {"waited": waiting, "counted as dropped": dropped},
            counted_lost=dropped,
        )
        assert dropped > 0, "memory held them all"


@contextmanager
def playing_on_disk(folder: Path, upstream: str, size_bytes: int) -> Iterator[tuple[Scene, Path]]:
    """A scene whose store is on a small disk of its own, and the folder of that disk."""
    with (
        small_disk(folder, size_bytes=size_bytes) as disk,
        playing(folder, upstream, store=disk / "traces.db") as scene,
    ):
        yield scene, disk


def assert_spans_wait(
    scene: Scene, fault: AbstractContextManager[None], words: str, name: str
) -> None:
    """Spans of a load during a fault, of which the log has words, wait and then arrive."""
    calm = scene.calm_load(scaled(CALM_COUNT))
    with fault:
        during, waiting = load_until_said(scene, words)
    with scene.backend():
        scene.wait_for_all()
    scene.finish(name, during, calm, {"waited": waiting})
    assert waiting > 0, "the store could be written"


def load_until_said(scene: Scene, words: str) -> tuple[LoadResult, int]:
    """Send load, wait until the log says `words`; what clients saw, and how many spans wait."""
    during = scene.load(scaled(COUNT, least=200))
    wait_until(lambda: words in scene.spantap.log, ARRIVAL_SECONDS, f"the log says {words!r}")
    return during, count_waiting(scene)


def count_waiting(scene: Scene) -> int:
    """How many spans wait in memory, once all others are told or wait in the spool."""

    def all_told() -> bool:
        numbers = scene.spantap.metrics()
        told = sum(numbers.get(name, 0.0) for name in (RECORDED, WAITING, DROPPED))
        return told == len(scene.sent) or numbers.get(SPOOLED, 0.0) > 0

    wait_until(all_told, ARRIVAL_SECONDS, "all spans are accounted for")
    return int(scene.spantap.metrics()[WAITING])
