"""The telemetry process: observes, stores, exports.

Run as ``python -m proxy.processes.telemetry CONTROL FRAMES``, two inherited descriptors: the
control channel, and the listening Unix socket that workers connect to.

Its main thread reads frames and commits (:mod:`proxy.processes.frame_intake`). Other threads report
its numbers, obey the supervisor, and export.
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
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from proxy.logging.logs import set_up_logging
from proxy.processes.control import COUNTERS_SECONDS, FAILED_TO_START, begin_child
from proxy.processes.frame_intake import FrameIntake
from proxy.processes.messages import Counters, Finish, Finished, Ready
from proxy.processes.news_server import NewsServer
from proxy.processes.open_calls import MAX_OPEN_CALLS, NO_CALLS, AskOpen, OpenCalls
from proxy.processes.scratch import news_path, remove_frames_folder
from proxy.processes.store_orders import CompactStore, DeleteSpans, OrderTaker
from proxy.settings.spans import SpanSettings, build_span_rules
from telemetry.errors import TelemetryError
from telemetry.export.otel_environment import find_reason_for_no_spans
from telemetry.frames.spool import measure_spool, spool_folder
from telemetry.metrics.instruments import SPANS_DROPPED, SPOOL_SIZE, WEBSOCKETS_OPEN
from telemetry.metrics.snapshot import merge
from telemetry.news.messages import Numbers, ProxyPlace
from telemetry.observing.encryption import Cipher
from telemetry.pipeline import Pipeline
from telemetry.store.rows import Retention
from telemetry.store.unobserved_keeper import UnobservedKeeper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.processes.control import Control
    from proxy.processes.messages import Start
    from telemetry.metrics.instruments import Instrument
    from telemetry.metrics.registry import Reading
    from telemetry.metrics.snapshot import Snapshot
    from telemetry.news.reporter import Reporter

_log = logging.getLogger("spantap.telemetry")

_DAY_NS = 24 * 3600 * 1_000_000_000

_GC_OBJECTS = 20_000
"""How many new objects, some megabytes, trigger a search for cycles; calls leave hardly any. With
Python's default a busy process searched a hundred times a second, for a twentieth of its CPU."""


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What telemetry needs in addition to :class:`proxy.settings.spans.SpanSettings`.

    Attributes:
        lacks_spool: there is no spool, and only because something is hidden
            (:func:`proxy.settings.spans.hand_over`).
    """

    store: str
    store_max_bytes: int
    store_max_age_days: float
    store_fsync: bool
    log_level: str
    log_format: str
    lacks_spool: bool = False
    inbound_keys: tuple[str, ...] | None = None
    inbound_keys_file: str | None = None

    @property
    def asks_for_key(self) -> bool:
        """Whether calls need one of the proxy's own keys."""
        return self.inbound_keys is not None or self.inbound_keys_file is not None


_NO_SPOOL = (
    "no spool, because content is hidden from spans: if telemetry cannot keep up, bodies are left "
    "out of spans (SPANTAP_MAX_SPOOL_BYTES in `spantap help settings`)"
)


def main() -> int:
    """Run the telemetry process, and return its exit status."""
    control, start, (frames,) = begin_child()
    settings = msgspec.json.decode(start.settings, type=StoreSettings)
    set_up_logging(settings.log_level, settings.log_format, "telemetry")
    orders = _Orders(control)
    try:
        pipeline = _open_pipeline(settings, start, orders)
    except TelemetryError as error:
        print(f"spantap: {error}", file=sys.stderr)  # noqa: T201 - the command line's voice
        return FAILED_TO_START
    spool = spool_folder(Path(settings.store))
    pipeline.metrics.read_from(partial(_read_spool, spool))
    pipeline.start()
    gc.freeze()  # what exists now stays to the end: no search for cycles needs to look at it
    gc.set_threshold(_GC_OBJECTS)
    intake = FrameIntake(socket.socket(fileno=frames), pipeline.service, spool)
    reporter = pipeline.service.report_to(intake.sources)
    reporter.proxy = ProxyPlace(url=start.proxy_url, asks_for_key=settings.asks_for_key)
    server = _open_news_server(news_path(start.frames_path), reporter, intake)
    _start_thread("spantap-control", orders.obey, intake, OrderTaker(pipeline.store, control.send))
    keeps = bool(msgspec.json.decode(start.settings, type=SpanSettings).keep)
    control.send(Ready(notes=_describe(settings, pipeline, keeps=keeps)))
    unobserved = UnobservedKeeper(pipeline.store, time.time_ns)

    def keep_others(own: Snapshot) -> None:
        unobserved.keep(orders.others)
        reporter.numbers = _read_numbers(orders.add_others(own))

    ending = threading.Event()
    reporting = _start_thread("spantap-report", _report, control, pipeline, keep_others, ending)
    intake.run()
    if server is not None:
        server.close()
    keep_others(pipeline.metrics.snapshot())
    control.send(Finished(lost=pipeline.service.waiting))  # the rest is in the store now
    lost = pipeline.close(orders.flush_seconds)
    ending.set()
    reporting.join(COUNTERS_SECONDS)
    control.send(Finished(lost=lost))
    control.close()
    if orders.is_orphaned:
        remove_frames_folder(start.frames_path)
    return 0


def _start_thread(name: str, work: Callable[..., None], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
    thread.start()
    return thread


def _read_numbers(snapshot: Snapshot) -> Numbers:
    """Read what watchers are told of the whole proxy."""
    return Numbers(
        dropped=_sum_up(snapshot, SPANS_DROPPED), web_sockets=_sum_up(snapshot, WEBSOCKETS_OPEN)
    )


def _sum_up(snapshot: Snapshot, instrument: Instrument) -> int:
    """Sum up all series of a counter or a gauge of whole numbers."""
    return int(sum(one.value for one in snapshot.numbers.get(instrument.name, ())))


def _open_news_server(path: str, reporter: Reporter, intake: FrameIntake) -> NewsServer | None:
    """Open the server of live news; if that fails, calls are recorded without it."""
    try:
        server = NewsServer(path, reporter, intake.ask)
    except OSError as error:
        _log.warning("live news is not available: %s: %s", path, error.strerror or error)
        return None
    _start_thread("spantap-news", server.run)
    return server


def _open_pipeline(settings: StoreSettings, start: Start, orders: _Orders) -> Pipeline:
    """Open the observing half that the settings and the environment describe.

    Raises:
        ConfigurationError: a setting or variable cannot be followed.
        TelemetryError: an ``OTEL_*`` variable cannot be followed, or the store cannot be opened.
    """
    return Pipeline.open(
        Path(settings.store),
        retention=Retention(
            max_age_ns=int(settings.store_max_age_days * _DAY_NS),
            max_bytes=settings.store_max_bytes,
        ),
        rules=build_span_rules(msgspec.json.decode(start.settings, type=SpanSettings), os.environ),
        environ=os.environ,
        fsync_each_commit=settings.store_fsync,
        holder_pid=os.getppid(),  # the supervisor: it would restart this process
        more_numbers=orders.add_others,
        cipher=Cipher(start.cipher_key),
    )


def _report(
    control: Control,
    pipeline: Pipeline,
    keep_others: Callable[[Snapshot], None],
    ending: threading.Event,
) -> None:
    """Regularly send the supervisor our numbers, and let the store keep some of the others'.

    This runs on a thread, because the store may be slow. It reports a last time at the end.
    """
    is_last = False
    while not is_last:
        is_last = ending.wait(COUNTERS_SECONDS)
        own = pipeline.metrics.snapshot()
        keep_others(own)
        control.send(Counters(snapshot=own))


def _read_spool(spool: Path) -> Iterator[Reading]:
    """Measure how much waits in the spool; no number if that fails."""
    with contextlib.suppress(OSError):
        yield SPOOL_SIZE, (), measure_spool(spool)


def _describe(
    settings: StoreSettings, pipeline: Pipeline, *, keeps: bool
) -> tuple[tuple[int, str], ...]:
    """Say for the log where spans go, and what they may lack."""
    if reason := find_reason_for_no_spans(os.environ, keeps=keeps):
        return ((logging.WARNING, f"calls are relayed, and nothing is recorded: {reason}"),)
    where = f"sent to {pipeline.backend}" if pipeline.backend else "kept there (no OTLP endpoint)"
    notes = [(logging.INFO, f"spans are recorded in {settings.store} and {where}")]
    if settings.lacks_spool:
        notes.append((logging.INFO, _NO_SPOOL))
    return tuple(notes)


def _tell_open(intake: FrameIntake, others: Snapshot | None) -> OpenCalls:
    """List the open calls, as many as fit an answer; none if that fails.

    `others` are the numbers of workers.
    """
    try:
        calls = intake.tell_open()
    except Exception as error:  # noqa: BLE001 - the thread must go on reading orders
        _log.debug("open calls cannot be listed: %s", type(error).__name__)
        return NO_CALLS
    return OpenCalls(
        calls=tuple(calls[-MAX_OPEN_CALLS:]),
        count=len(calls),
        web_sockets=0 if others is None else _sum_up(others, WEBSOCKETS_OPEN),
    )


class _Orders:
    """Listens to the supervisor.

    Attributes:
        others: the last numbers of all other processes.
        flush_seconds: how long to wait for the backend at the end.
        is_orphaned: the supervisor is gone without an order to finish.
    """

    def __init__(self, control: Control) -> None:
        self.others: Snapshot | None = None
        self.flush_seconds = 0.0
        self.is_orphaned = True
        self._control = control

    def add_others(self, own: Snapshot) -> Snapshot:
        """Add the numbers of all other processes to ours."""
        return own if self.others is None else merge([own, self.others])

    def obey(self, intake: FrameIntake, taker: OrderTaker) -> None:
        """Listen until the order to finish comes, or the supervisor is gone; then finish.

        Orders for the store go to the `taker`.
        """
        while (message := self._control.receive()) is not None:
            if isinstance(message, Counters):
                self.others = message.snapshot
            elif isinstance(message, AskOpen):
                self._control.send(_tell_open(intake, self.others))
            elif isinstance(message, DeleteSpans | CompactStore):
                taker.take(message)
            elif isinstance(message, Finish):
                self.flush_seconds = message.flush_seconds
                self.is_orphaned = False
                break
        intake.finish()


if __name__ == "__main__":
    sys.exit(main())
