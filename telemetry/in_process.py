"""The observing half on a thread of the worker's own process.

:class:`InProcessTelemetry` is what a worker's taps emit into. The frames are those that go over
a socket when observation has a process of its own; nothing else would change.

Rules:

1. :meth:`InProcessTelemetry.emit` appends to a queue and returns: no lock, no wait, no wake-up
   (R2). One thread emits, one consumes.
2. The queue has one limit of bytes; past it bodies are shed and the exchange's ``end`` says so,
   while ``begin``, ``response_head`` and ``end`` still pass: the span exists, marked (R5).
3. A frame is consumed at most :data:`POLL_SECONDS` after it came, and committed with its batch:
   well within R8's 250 ms when the thread keeps up.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from telemetry.frames import End, Frame, RequestBody, ResponseData

if TYPE_CHECKING:
    from telemetry.service import TelemetryService

__all__ = ("InProcessTelemetry",)

_log = logging.getLogger("spantap.telemetry")

POLL_SECONDS = 0.05
"""Between two looks at the queue. Looking is cheap; a wake-up for each frame is not, it makes the
emitting thread give up the interpreter."""

MAX_QUEUED_BYTES = 64 * 1024 * 1024
"""Bodies that wait to be observed: one second of a thousand fast streams."""


class InProcessTelemetry:
    """A queue, a thread and the service that it feeds."""

    def __init__(self, service: TelemetryService) -> None:
        self._service = service
        self._queue: deque[Frame] = deque()
        self._emitted_bytes = 0  # written by the emitting thread only
        self._consumed_bytes = 0  # written by the consuming thread only
        self._shed: dict[int, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spantap-telemetry", daemon=True)
        self.shed_bytes = 0

    def start(self) -> None:
        """Begin to consume."""
        self._thread.start()

    @property
    def queued_bytes(self) -> int:
        """Bodies that wait."""
        return self._emitted_bytes - self._consumed_bytes

    def emit(self, frame: Frame) -> None:
        """Take one frame (rule 1)."""
        size = _body_bytes(frame)
        if size and self.queued_bytes + size > MAX_QUEUED_BYTES:
            self._note_shed(frame, size)
            return
        if isinstance(frame, End) and (shed := self._shed.pop(frame.exchange, 0)):
            frame = msgspec.structs.replace(frame, shed_bytes=frame.shed_bytes + shed)
        self._emitted_bytes += size
        self._queue.append(frame)

    def _note_shed(self, frame: Frame, size: int) -> None:
        self.shed_bytes += size
        self._shed[frame.exchange] = self._shed.get(frame.exchange, 0) + size
        if isinstance(frame, RequestBody):
            self._queue.append(msgspec.structs.replace(frame, data=None))

    def close(self, timeout_seconds: float) -> bool:
        """Consume and commit what was emitted, and stop; false if time ran out."""
        self._stop.set()
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            self._consume()
        self._consume()

    def _consume(self) -> None:
        """Everything that is there now; what comes meanwhile waits for the next look."""
        for _ in range(len(self._queue)):
            frame = self._queue.popleft()
            self._consumed_bytes += _body_bytes(frame)
            self._service.feed(frame)
        self._service.commit()


def _body_bytes(frame: Frame) -> int:
    if isinstance(frame, ResponseData):
        return len(frame.data)
    if isinstance(frame, RequestBody) and frame.data is not None:
        return len(frame.data)
    return 0
