"""The observing half on a thread of the worker's own process.

:class:`InProcessTelemetry` is what a worker's taps emit into. The frames are those that go over
a socket when observation has a process of its own; nothing else would change.

Rules:

1. :meth:`InProcessTelemetry.emit` appends to a queue and returns: no lock, no wait, no wake-up
   (R2). One thread emits, one consumes.
2. The queue is bounded (R5). Past :data:`SHED_BYTES` bodies are shed, while ``begin``,
   ``response_head`` and ``end`` still pass: the span exists, marked. Past
   :data:`MAX_QUEUED_BYTES` exchanges that begin are left out whole, and counted.
3. Nothing of an answer follows a gap: once a piece was shed, the rest of it is shed too, and the
   ``end`` says so.
4. A frame is consumed at most :data:`POLL_SECONDS` after it came, and committed with its batch:
   well within R8's 250 ms when the thread keeps up.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from telemetry.frames import Begin, End, Frame, RequestBody, ResponseData

if TYPE_CHECKING:
    from telemetry.service import TelemetryService

__all__ = ("InProcessTelemetry",)

POLL_SECONDS = 0.05
"""Between two looks at the queue. Looking is cheap; a wake-up for each frame is not, it makes the
emitting thread give up the interpreter."""

SHED_BYTES = 64 * 1024 * 1024
"""What may wait with bodies: one second of a thousand fast streams."""

MAX_QUEUED_BYTES = 96 * 1024 * 1024
"""What may wait in all, but for the ends of open exchanges: another 20,000 exchanges without
bodies, while an observer that is stuck is found out."""

_FRAME_BYTES = 512
"""What a frame takes beside its body, as an estimate: streams come in reads of a few bytes."""


class InProcessTelemetry:
    """A queue, a thread and the service that it feeds.

    Attributes:
        shed_bytes: bytes of bodies that were left out (rule 2).
        shed_exchanges: exchanges that were left out whole.
    """

    def __init__(self, service: TelemetryService) -> None:
        self._service = service
        self._queue: deque[Frame] = deque()
        self._emitted_bytes = 0  # written by the emitting thread only
        self._consumed_bytes = 0  # written by the consuming thread only
        self._shed: dict[int, int] = {}  # bytes, by the number of an open exchange
        self._left_out: set[int] = set()  # open exchanges
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spantap-telemetry", daemon=True)
        self.shed_bytes = 0
        self.shed_exchanges = 0

    def start(self) -> None:
        """Begin to consume."""
        self._thread.start()

    @property
    def queued_bytes(self) -> int:
        """What waits, as an estimate of its memory."""
        return self._emitted_bytes - self._consumed_bytes

    def emit(self, frame: Frame) -> None:
        """Take one frame (rule 1)."""
        number = frame.exchange
        if isinstance(frame, Begin) and self.queued_bytes >= MAX_QUEUED_BYTES:
            self._left_out.add(number)
            self.shed_exchanges += 1
        if number in self._left_out:
            if isinstance(frame, End):
                self._left_out.discard(number)
            return
        size = _body_bytes(frame)
        full = self.queued_bytes + size > SHED_BYTES
        if isinstance(frame, ResponseData) and (full or number in self._shed):
            self.shed_bytes += size
            self._shed[number] = self._shed.get(number, 0) + size
            return
        if isinstance(frame, RequestBody) and full:
            self.shed_bytes += size
            frame = msgspec.structs.replace(frame, data=None)
        elif isinstance(frame, End) and (shed := self._shed.pop(number, 0)):
            frame = msgspec.structs.replace(frame, shed_bytes=frame.shed_bytes + shed)
        self._emitted_bytes += _FRAME_BYTES + _body_bytes(frame)
        self._queue.append(frame)

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
            self._consumed_bytes += _FRAME_BYTES + _body_bytes(frame)
            self._service.feed(frame)
        self._service.commit()


def _body_bytes(frame: Frame) -> int:
    if isinstance(frame, ResponseData):
        return len(frame.data)
    if isinstance(frame, RequestBody) and frame.data is not None:
        return len(frame.data)
    return 0
