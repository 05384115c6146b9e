"""The spool: a folder beside the store for frames that telemetry is too slow to take.

Each worker writes records (:mod:`telemetry.frames.records`) in compressed blocks
(:mod:`telemetry.frames.blocks`) into its own files, called segments.
:mod:`telemetry.observing.spool_reader` reads and deletes them.

The reader relies on these rules:

1. Whatever :meth:`FrameSpool.write` has written survives the end of any process. A segment ends
   with a whole block and record, unless its worker was killed while it wrote them.
2. A worker holds its last segment (:mod:`telemetry.own_files`) while it may write to it.

Only the owner may read the files: they hold bodies as clients and providers sent them (R7).
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from telemetry.errors import SpoolFull
from telemetry.own_files import hold, make_own_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_SPOOL_BYTES = 2 << 30
"""The limit of the compressed spool. This is enough for half an hour of 200-chunk streams, as fast
as one worker relays them, or for minutes of images, which cannot be compressed."""

SEGMENT_BYTES = 16 << 20
"""The largest file, unless one write is larger. A file is deleted once all its calls are stored."""

SPARE_BYTES = 64 << 20
"""Room that is left on the disk: the store needs some to recover from a full disk."""

_NAME = re.compile(r"([0-9a-f]{1,32})-([0-9]{1,12})\.blocks")


class Segment(msgspec.Struct, frozen=True, gc=False):
    """One file of the spool.

    Attributes:
        worker: the token of its writer.
        number: its place among the worker's segments.
        size_bytes: its size when it was found.
    """

    worker: str
    number: int
    path: Path
    size_bytes: int


def spool_folder(store: Path) -> Path:
    """The folder of the spool of the store at `store`, beside the file that a link leads to."""
    return Path(f"{store.resolve()}.spool")


def find_segments(folder: Path) -> list[Segment]:
    """List all segments, those of each worker in their order; empty if there is no folder."""
    found = []
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            named = _NAME.fullmatch(entry.name)
            if named is not None and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):
                    size_bytes = entry.stat().st_size
                    worker, number = named[1], int(named[2])
                    found.append(Segment(worker, number, Path(entry.path), size_bytes))
    return sorted(found, key=lambda segment: (segment.worker, segment.number))


def measure_spool(folder: Path) -> int:
    """Measure how many bytes wait in the spool."""
    return sum(segment.size_bytes for segment in find_segments(folder))


class FrameSpool:
    """The spool of one worker. For one thread at a time.

    Args:
        folder: made when it is needed.
        worker: a token of hexadecimal digits that no other worker has had.
        max_bytes: the limit of all segments of all workers together (R5); if it is 0, nothing is
            ever written.
    """

    def __init__(self, folder: Path, worker: str, max_bytes: int = MAX_SPOOL_BYTES) -> None:
        self._folder = folder
        self._worker = worker
        self._max_bytes = max_bytes
        self._descriptor = -1
        self._size_bytes = 0
        self._number = 0

    @property
    def is_open(self) -> bool:
        """Whether a segment is held."""
        return self._descriptor >= 0

    def write(self, pieces: Sequence[bytes]) -> None:
        """Write whole records; if that fails, no part of them stays.

        Raises:
            SpoolFull: there is no room for them, in the spool or on the disk.
            OSError: they cannot be written.
        """
        from telemetry.frames.blocks import pack  # noqa: PLC0415 - most workers spool nothing

        blocks = [*pack(pieces)]
        more_bytes = sum(map(len, blocks))
        if self._descriptor < 0 or self._size_bytes + more_bytes > SEGMENT_BYTES:
            self._begin_segment(more_bytes)
        try:
            for block in blocks:
                left = memoryview(block)
                while left:
                    left = left[os.write(self._descriptor, left) :]
        except OSError:
            # A new segment comes next, because somebody may have read a part of this write.
            size_bytes, self._size_bytes = self._size_bytes, SEGMENT_BYTES
            os.ftruncate(self._descriptor, size_bytes)
            raise
        self._size_bytes += more_bytes

    def close(self) -> None:
        """Release the last segment: all exchanges that began in the spool have ended in it."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):  # it is closed all the same
                os.close(descriptor)

    def _begin_segment(self, more_bytes: int) -> None:
        make_own_folder(self._folder)
        self._check_room(max(more_bytes, SEGMENT_BYTES))
        self._number += 1
        descriptor = hold(self._folder / f"{self._worker}-{self._number:08}.blocks")
        self.close()  # only now: without a held segment the worker would seem dead
        self._descriptor, self._size_bytes = descriptor, 0

    def _check_room(self, more_bytes: int) -> None:
        """Raise :exc:`SpoolFull` if there is no room for more."""
        found = find_segments(self._folder)
        # The last segment of each other worker may still grow to its full size.
        others = {segment.worker: segment for segment in found if segment.worker != self._worker}
        growing_bytes = sum(max(0, SEGMENT_BYTES - other.size_bytes) for other in others.values())
        taken_bytes = sum(segment.size_bytes for segment in found) + growing_bytes
        if taken_bytes + more_bytes > self._max_bytes:
            raise SpoolFull(f"the spool {self._folder} is full (max_spool_bytes)")
        status = os.statvfs(self._folder)
        if status.f_bavail * status.f_frsize < more_bytes + SPARE_BYTES:
            raise SpoolFull(f"the disk of the spool {self._folder} is almost full")
