"""Reads the frames that wait in the spool when there is room (:mod:`telemetry.frames.spool`).

The frames of a worker are read in the order in which it wrote them. Unreadable data is logged with
numbers, and skipped (R2).
"""

from __future__ import annotations

import logging
import os
from collections import deque
from typing import TYPE_CHECKING

from telemetry.frames.blocks import HEADER_BYTES, MalformedBlockError, read_header, unpack
from telemetry.frames.frame import Begin, RequestBody
from telemetry.frames.records import MalformedRecordError, RecordReader, decode_record
from telemetry.frames.spool import find_segments
from telemetry.own_files import is_held, open_own
from telemetry.rate_limit import RateLimit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import BinaryIO

    from telemetry.frames.frame import Frame
    from telemetry.frames.spool import Segment
    from telemetry.observing.source import FrameSource

_log = logging.getLogger("spantap.telemetry")

MAX_FAILING_SECONDS = 30.0
"""How long reads of a segment may fail in a row. A failed read is not damage yet, because
descriptors and disks come back."""


class SpoolReader:
    """Reads the spool a block at a time. For one thread.

    Args:
        folder: of the spool; it need not exist.
        open_source: opens a source for the frames of another worker.
        now_ns: nanoseconds since the epoch.

    Attributes:
        on_begin: called with the worker's token and the number of each exchange that begins here.
    """

    def __init__(
        self, folder: Path, open_source: Callable[[], FrameSource], now_ns: Callable[[], int]
    ) -> None:
        self.on_begin: Callable[[str, int], None] = lambda _token, _number: None
        self._folder = folder
        self._open_source = open_source
        self._now_ns = now_ns
        self._workers: dict[str, _Worker] = {}
        self._lines = RateLimit(now_ns)

    @property
    def is_empty(self) -> bool:
        """Whether all segments that were found are read and settled."""
        return not self._workers

    @property
    def unread_bytes(self) -> int:
        """The size of the data that was found and not read."""
        return sum(worker.unread_bytes for worker in self._workers.values())

    def has_unread(self, token: str) -> bool:
        """Tell whether frames of a worker still wait in the spool, or may come."""
        worker = self._workers.get(token)
        return worker is not None and not worker.is_read

    def look(self) -> None:
        """Find new segments, and delete those that are settled."""
        try:
            for segment in find_segments(self._folder):
                if (worker := self._workers.get(segment.worker)) is None:
                    worker = _Worker(segment.worker, self._open_source())
                    self._workers[segment.worker] = worker
                worker.note(segment)
        except OSError as error:
            self._report("read", error)
        for token, worker in tuple(self._workers.items()):
            try:
                worker.delete_settled()
            except OSError as error:
                self._report("emptied", error)
            if worker.is_read:
                self._lose_open(worker)
                if not worker.segments:
                    del self._workers[token]

    def read(self) -> bool:
        """Feed the next block; false if there was none."""
        for token, worker in tuple(self._workers.items()):
            try:
                was_block = worker.read(self.on_begin, self._now_ns())
            except OSError as error:  # too few descriptors, say, or a disk that is away
                self._report("read", error)
                continue
            if was_block:
                # The next worker's turn comes first the next time.
                self._workers[token] = self._workers.pop(token)
                return True
        return False

    def _report(self, what: str, error: OSError) -> None:
        if self._lines.admit() is not None:
            _log.error("the spool %s cannot be %s: %s", self._folder, what, error.strerror)

    def _lose_open(self, worker: _Worker) -> None:
        """End the open exchanges of a worker that is gone, as ``worker_lost`` (R3).

        They end at the time at which it wrote last, which may be days ago.
        """
        at_ns = max(worker.last_frame_ns, min(worker.written_ns, self._now_ns()))
        lost = worker.source.lose(at_ns, "the worker process ended")
        if lost:
            _log.error("a worker process ended with %d exchanges open, read from the spool", lost)


class _Worker:
    """The segments of one worker."""

    def __init__(self, token: str, source: FrameSource) -> None:
        self.token = token
        self.source = source
        self.written_ns = 0  # when it wrote last, by the file system
        self.last_frame_ns = 0  # the same, by the time of its last frame
        self.segments: deque[_OpenSegment] = deque()  # those that are not deleted
        self._last_number = -1
        self._first: dict[int, int] = {}  # the first segment of each exchange that is not settled

    @property
    def unread_bytes(self) -> int:
        return sum(segment.unread_bytes for segment in self.segments)

    @property
    def is_read(self) -> bool:
        """Whether nothing more is to be read."""
        return all(segment.is_read for segment in self.segments)

    def note(self, segment: Segment) -> None:
        """Note a segment that was found, perhaps again."""
        if segment.number > self._last_number:
            self._last_number = segment.number
            self.segments.append(_OpenSegment(segment))
        elif self.segments and self.segments[-1].segment.number == segment.number:
            self.segments[-1].segment = segment  # it may have grown

    def read(self, on_begin: Callable[[str, int], None], now_ns: int) -> bool:
        """Feed the next block; false if there was none.

        Raises:
            OSError: it cannot be read now; it may be later.
        """
        for place, segment in enumerate(self.segments):
            if segment.is_read:
                continue
            frames = segment.read(now_ns, is_last=place == len(self.segments) - 1)
            if frames is None:  # the next one begins where this one has ended
                continue
            self.written_ns = max(self.written_ns, segment.written_ns)
            for frame in frames:
                if not isinstance(frame, RequestBody):
                    self.last_frame_ns = max(self.last_frame_ns, frame.at_ns)
                if type(frame) is Begin:
                    self._first[frame.exchange] = segment.segment.number
                    on_begin(self.token, frame.exchange)
            self.source.feed(*frames)
            return True
        return False

    def delete_settled(self) -> None:
        """Delete the segments that are read and whose exchanges are all settled.

        Until then a successor could read them again, which is harmless because ids are stable (R8).

        Raises:
            OSError: one cannot be deleted. It stays in the list, or it would be found and read
                again.
        """
        for number in self.source.pop_acks().settled:
            self._first.pop(number, None)
        needed = min(self._first.values(), default=self._last_number + 1)
        while self.segments and self.segments[0].is_read:
            if self.segments[0].segment.number >= needed:
                return
            self.segments[0].segment.path.unlink(missing_ok=True)
            self.segments.popleft()


class _OpenSegment:
    """A segment, how far it was read, and when that was written."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.is_read = False
        self.written_ns = 0
        self._file: BinaryIO | None = None
        self._records = RecordReader()
        self._read_bytes = 0
        self._is_cut = False  # a part of a block follows
        self._failing_since_ns: int | None = None

    @property
    def unread_bytes(self) -> int:
        return 0 if self.is_read else max(0, self.segment.size_bytes - self._read_bytes)

    def read(self, now_ns: int, *, is_last: bool) -> list[Frame] | None:
        """Read the frames of the next block; ``None`` if there is none, for now or for good.

        Raises:
            OSError: it cannot be read now; it may be later.
        """
        path = self.segment.path
        try:
            # This comes before the read: its holder may write once more and then let go.
            may_grow = is_last and is_held(path)
            if self._file is None:
                descriptor = open_own(path, os.O_RDONLY)
                self._file = open(descriptor, "rb", buffering=0)  # noqa: PTH123, SIM115
            data = self._read_block(self._file)
            if not data:
                if not may_grow:
                    self._finish()
                return None
            self.written_ns = os.fstat(self._file.fileno()).st_mtime_ns
        except MalformedBlockError as error:
            self._tell_damage(error)
            return None
        except OSError as error:
            if self._may_succeed_later(error, now_ns):
                raise
            self._tell_damage(error)
            return None
        self._failing_since_ns = None
        frames: list[Frame] = []
        try:
            for record in self._records.feed(data):
                frames += decode_record(record)
        except MalformedRecordError as error:
            self._tell_damage(error)
        return frames

    def _read_block(self, file: BinaryIO) -> bytes:
        """Read the next block; no bytes if it is not complete.

        Raises:
            MalformedBlockError: the bytes are not a block.
            OSError: it cannot be read.
        """
        file.seek(self._read_bytes)
        header = file.read(HEADER_BYTES)
        self._is_cut = bool(header)
        if len(header) < HEADER_BYTES:
            return b""
        stored_bytes, plain_bytes = read_header(header)
        stored = file.read(stored_bytes)
        if len(stored) < stored_bytes:
            return b""
        self._is_cut = False
        self._read_bytes += HEADER_BYTES + stored_bytes
        return unpack(stored, plain_bytes)

    def _may_succeed_later(self, error: OSError, now_ns: int) -> bool:
        """Tell whether a failed read is to be tried again."""
        if self._failing_since_ns is None:
            self._failing_since_ns = now_ns
        failing_ns = now_ns - self._failing_since_ns
        return not isinstance(error, FileNotFoundError) and failing_ns < MAX_FAILING_SECONDS * 1e9

    def _tell_damage(self, error: Exception) -> None:
        """Log that nothing further can be read."""
        size_bytes = max(self.segment.size_bytes, self._read_bytes)
        _log.error(
            "%s is damaged near byte %d of %d: %s; the calls behind that are lost",
            self.segment.path,
            self._read_bytes,
            size_bytes,
            error,
        )
        self._records = RecordReader()
        self._is_cut = False
        self._finish()

    def _finish(self) -> None:
        """Close the segment: nothing more is read of it."""
        self.is_read = True
        if self._is_cut or not self._records.is_between_records:
            _log.warning("%s ends within a frame: its worker was killed there", self.segment.path)
        if self._file is not None:
            self._file.close()
            self._file = None
