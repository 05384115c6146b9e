"""The observing half on a thread of the caller's own process: for tests and the demo.

The frames are those that would go over a socket to a separate process. The queue is bounded by
:mod:`telemetry.frames.shedding` (R5). A frame is consumed and committed at most
:data:`POLL_SECONDS` after it came. That is a little more than R8's 50 ms: a test or the demo has
nothing that a kill may take.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Self

from telemetry.frames.kept import frame_bytes
from telemetry.frames.shedding import Shedding
from telemetry.metrics.instruments import SPANS_DROPPED, TAP_QUEUE, TAP_SHED, DropReason
from telemetry.pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from telemetry.frames.frame import Frame
    from telemetry.metrics.registry import Reading
    from telemetry.spans.rules import SpanRules
    from telemetry.store.rows import Retention

_log = logging.getLogger("spantap.telemetry")

POLL_SECONDS = 0.05
"""The time between two looks at the queue. Looking is cheap. A wake-up for each frame is not: it
makes the emitting thread give up the interpreter."""

CLOSE_SECONDS = 5.0
"""How long the end of the process waits for the queue to be consumed and committed."""


class FrameByFrame:
    """An exchange's frames, each handed to one function."""

    __slots__ = ("_emit",)

    def __init__(self, emit: Callable[[Frame], None]) -> None:
        self._emit = emit

    def add(self, frame: Frame, size_bytes: int) -> None:
        """Add the next frame, whatever its size."""
        del size_bytes
        self._emit(frame)


class InProcessPipeline:
    """A pipeline, and the queue and the thread that feed it.

    Attributes:
        shedding: what was left out.
    """

    def __init__(self, pipeline: Pipeline, shedding: Shedding | None = None) -> None:
        self.pipeline = pipeline
        self.shedding = shedding or Shedding()
        self._queue: deque[Frame] = deque()
        self._emitted_bytes = 0  # written by the emitting thread only
        self._consumed_bytes = 0  # written by the consuming thread only
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spantap-telemetry", daemon=True)
        pipeline.metrics.read_from(self._read_metrics)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        retention: Retention,
        environ: Mapping[str, str],
        rules: SpanRules | None = None,
    ) -> Self:
        """Open the store of a pipeline; see :meth:`telemetry.pipeline.Pipeline.open`."""
        return cls(Pipeline.open(path, retention=retention, environ=environ, rules=rules))

    def start(self) -> None:
        """Begin to consume and to send."""
        self._thread.start()
        self.pipeline.start()

    @property
    def queued_bytes(self) -> int:
        """The estimated memory of the frames that wait."""
        return self._emitted_bytes - self._consumed_bytes

    def emit(self, frame: Frame) -> None:
        """Queue one frame, without a lock, a wait or a wake-up (R2).

        One thread emits, and another one consumes.
        """
        admitted = self.shedding.admit(frame, self.queued_bytes)
        if admitted is not None:
            self._emitted_bytes += frame_bytes(admitted)
            self._queue.append(admitted)

    def open_exchange(self, number: int) -> FrameByFrame:
        """Open a place for the frames of an exchange."""
        del number  # every frame has it
        return FrameByFrame(self.emit)

    def finish(self, timeout_seconds: float) -> bool:
        """Consume and commit what was emitted, and stop; return false if time ran out."""
        self._stop.set()
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def close(self, flush_seconds: float) -> int:
        """Commit what was emitted, then do what :meth:`telemetry.pipeline.Pipeline.close` does."""
        if not self.finish(CLOSE_SECONDS):
            _log.error("observed exchanges were lost: not committed within %s s", CLOSE_SECONDS)
        return self.pipeline.close(flush_seconds)

    def _run(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            self._consume()
        self._consume()

    def _consume(self) -> None:
        """Consume the frames that are there now; later ones wait for the next look."""
        for _ in range(len(self._queue)):
            frame = self._queue.popleft()
            self._consumed_bytes += frame_bytes(frame)
            self.pipeline.service.feed(frame)
        self.pipeline.service.commit()

    def _read_metrics(self) -> Iterator[Reading]:
        yield SPANS_DROPPED, (DropReason.TAP_SHED,), self.shedding.shed_exchanges
        yield TAP_QUEUE, (), self.queued_bytes
        yield TAP_SHED, (), self.shedding.shed_bytes
