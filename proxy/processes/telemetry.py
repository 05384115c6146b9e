"""The telemetry process: observes, stores, exports.

Run as ``python -m proxy.processes.telemetry CONTROL FRAMES``, two inherited descriptors: the
control channel, and the listening Unix socket that workers connect to.

Its main thread reads frames and commits (:mod:`proxy.processes.frame_intake`); others report its
numbers, obey the supervisor, and export.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import socket
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from proxy.logging.logs import set_up_logging
from proxy.processes.control import COUNTERS_SECONDS, FAILED_TO_START, begin_child
from proxy.processes.frame_intake import FrameIntake
from proxy.processes.handed_settings import StoreSettings
from proxy.processes.messages import Counters, Finish, Finished, Ready
from proxy.processes.scratch import remove_frames_folder
from proxy.settings.spans import SpanSettings, build_span_rules
from telemetry.errors import TelemetryError
from telemetry.export.otel_environment import find_reason_for_no_spans
from telemetry.frames.spool import measure_spool, spool_folder
from telemetry.metrics.instruments import SPOOL_SIZE
from telemetry.metrics.snapshot import merge
from telemetry.observing.sealing import Seal
from telemetry.pipeline import Pipeline
from telemetry.store.rows import Retention
from telemetry.store.unobserved_calls import UnobservedKeeper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from proxy.processes.control import Control
    from proxy.processes.messages import Start
    from telemetry.metrics.registry import Reading
    from telemetry.metrics.snapshot import Snapshot

__all__ = ("main",)

_DAY_NS = 24 * 3600 * 1_000_000_000

_GC_OBJECTS = 20_000
"""New objects between two searches for cycles, of which calls leave hardly any: some megabytes. A
busy process searched a hundred times a second, for a twentieth of its CPU."""


def main() -> int:
    """Be the telemetry process; the exit status."""
    control, start, (frames,) = begin_child()
    settings = msgspec.json.decode(start.settings, type=StoreSettings)
    set_up_logging(settings.log_level, settings.log_format, "telemetry")
    others = _OthersNumbers()
    try:
        pipeline = _open_pipeline(settings, start, others)
    except TelemetryError as error:
        print(f"spantap: {error}", file=sys.stderr)  # noqa: T201 - the command line's voice
        return FAILED_TO_START
    pipeline.metrics.read_from(partial(_read_spool, spool_folder(settings.path)))
    pipeline.start()
    gc.freeze()  # what is there now stays to the end: no search for cycles need look at it
    gc.set_threshold(_GC_OBJECTS)
    intake = FrameIntake(
        socket.socket(fileno=frames), pipeline.service, spool_folder(settings.path)
    )
    obeying = _Obedience(control, intake, others)
    obeying.start()
    keeps = bool(msgspec.json.decode(start.settings, type=SpanSettings).keep)
    control.send(Ready(notes=_describe(settings, pipeline, keeps=keeps)))
    unobserved = UnobservedKeeper(pipeline.store, time.time_ns)
    reporting = _Report(control, pipeline, lambda: unobserved.keep(others.latest))
    reporting.start()
    intake.run()
    unobserved.keep(others.latest)
    control.send(Finished(lost=pipeline.service.waiting))  # all else is in the store now
    lost = pipeline.close(obeying.flush_seconds)
    reporting.finish()
    control.send(Finished(lost=lost))
    control.close()
    if obeying.is_orphaned:
        remove_frames_folder(start.frames_path)
    return 0


def _open_pipeline(settings: StoreSettings, start: Start, others: _OthersNumbers) -> Pipeline:
    """The observing half that the settings and the environment describe.

    Raises:
        ConfigurationError: a setting or variable cannot be followed.
        TelemetryError: an ``OTEL_*`` variable cannot be followed, or the store not be opened.
    """
    return Pipeline.open(
        settings.path,
        retention=Retention(
            max_age_ns=int(settings.store_max_age_days * _DAY_NS),
            max_bytes=settings.store_max_bytes,
        ),
        rules=build_span_rules(msgspec.json.decode(start.settings, type=SpanSettings), os.environ),
        environ=os.environ,
        fsync_each_commit=settings.store_fsync,
        holder_pid=os.getppid(),  # the supervisor: to end this process alone would not end it
        more_numbers=others.take,
        seal=Seal(start.seal_key),
    )


def _read_spool(spool: Path) -> Iterator[Reading]:
    """How much waits there; absent where that cannot be told."""
    with contextlib.suppress(OSError):
        yield SPOOL_SIZE, (), measure_spool(spool)


def _describe(
    settings: StoreSettings, pipeline: Pipeline, *, keeps: bool
) -> tuple[tuple[int, str], ...]:
    """Say where spans go, for the log."""
    if reason := find_reason_for_no_spans(os.environ, keeps=keeps):
        return ((logging.WARNING, f"calls are relayed, and nothing is recorded: {reason}"),)
    where = f"sent to {pipeline.backend}" if pipeline.backend else "kept there (no OTLP endpoint)"
    return ((logging.INFO, f"spans are recorded in {settings.store} and {where}"),)


class _OthersNumbers:
    """The last numbers that the supervisor told of all other processes."""

    def __init__(self) -> None:
        self.latest: Snapshot | None = None

    def take(self, own: Snapshot) -> Snapshot:
        """Everybody's numbers together."""
        latest = self.latest
        return own if latest is None else merge([own, latest])


class _Obedience(threading.Thread):
    """Waits for what the supervisor says.

    Attributes:
        flush_seconds: how long the backend may be waited for at the end.
        is_orphaned: the supervisor is gone without a word.
    """

    def __init__(self, control: Control, intake: FrameIntake, others: _OthersNumbers) -> None:
        super().__init__(name="spantap-control", daemon=True)
        self.flush_seconds = 0.0
        self.is_orphaned = True
        self._control = control
        self._intake = intake
        self._others = others

    def run(self) -> None:
        """Until it is told to finish, or the supervisor is gone."""
        while (message := self._control.receive()) is not None:
            if isinstance(message, Counters):
                self._others.latest = message.snapshot
            elif isinstance(message, Finish):
                self.flush_seconds = message.flush_seconds
                self.is_orphaned = False
                break
        self._intake.finish()


class _Report(threading.Thread):
    """Tells the supervisor our numbers now and then, and the store what it keeps of others'.

    On a thread, for the store may be slow.
    """

    def __init__(
        self, control: Control, pipeline: Pipeline, keep_others: Callable[[], None]
    ) -> None:
        super().__init__(name="spantap-report", daemon=True)
        self._keep_others = keep_others
        self._control = control
        self._pipeline = pipeline
        self._ending = threading.Event()

    def run(self) -> None:
        """Until the end, and once more then."""
        while True:
            stopping = self._ending.wait(COUNTERS_SECONDS)
            self._keep_others()
            self._control.send(Counters(snapshot=self._pipeline.metrics.snapshot()))
            if stopping:
                return

    def finish(self) -> None:
        """Report for the last time."""
        self._ending.set()
        self.join(COUNTERS_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
