"""News on their way to one watcher."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from telemetry.news.messages import MAX_ASKED_TEXTS, Lost, encode_line
from telemetry.news.texts import TextReader

if TYPE_CHECKING:
    from telemetry.news.messages import Watch

MAX_FEED_BYTES: Final = 1 << 20
"""News that wait for one watcher: some two thousand rows."""


class Feed:
    """A bounded queue of lines, and what its watcher wants.

    One thread puts and another one takes; neither needs a lock, and neither waits.

    Attributes:
        dropped: how many lines did not fit.
        watches: what the watcher asked for and :meth:`follow` has not read yet.
        readers: of the texts that the watcher wants, by span id; for the thread that puts.
    """

    def __init__(self) -> None:
        self.watches: deque[Watch] = deque()
        self.dropped = 0  # written by the thread that puts only
        self.readers: dict[str, TextReader] = {}
        self._lines: deque[bytes] = deque()
        self._put_bytes = 0  # written by the thread that puts only
        self._taken_bytes = 0  # written by the thread that takes only
        self._reported = 0  # how many of the dropped lines the watcher knows of

    @property
    def size_bytes(self) -> int:
        """The bytes that wait."""
        return self._put_bytes - self._taken_bytes

    def put(self, line: bytes) -> None:
        """Append a line, or drop it if there is no room."""
        if self.size_bytes + len(line) > MAX_FEED_BYTES:
            self.dropped += 1
            return
        self._put_bytes += len(line)
        self._lines.append(line)

    def take(self, most_bytes: int) -> bytes:
        """Take lines of about `most_bytes`; the first says how many were lost, if some were."""
        taken = []
        if (lost := self.dropped - self._reported) > 0:
            self._reported += lost
            taken.append(encode_line(Lost(count=lost)))
        size_bytes = 0
        while self._lines and size_bytes < most_bytes:
            line = self._lines.popleft()
            size_bytes += len(line)
            taken.append(line)
        self._taken_bytes += size_bytes
        return b"".join(taken)

    def follow(self) -> None:
        """Read what the watcher asked for; for the thread that puts."""
        while self.watches:
            watch = self.watches.popleft()
            again = {*watch.again}
            kept = {span_id: self.readers.get(span_id) for span_id in watch.texts[:MAX_ASKED_TEXTS]}
            self.readers = {
                span_id: TextReader() if reader is None or span_id in again else reader
                for span_id, reader in kept.items()
            }
