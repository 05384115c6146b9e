"""The observing half put together: service, store, exporter, metrics, from the environment."""

from __future__ import annotations

import contextlib
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.semconv.attributes.service_attributes import SERVICE_NAME, SERVICE_VERSION

from codec._version import __version__
from telemetry.errors import StoreError
from telemetry.export.exporter import ExportCounts, Exporter, open_sender
from telemetry.export.metrics_exporter import MetricsExporter, read_metrics_settings
from telemetry.export.otel_environment import check_otel_environment
from telemetry.export.sdk_logs import quiet_sdk_logs
from telemetry.export.settings import read_otlp_settings
from telemetry.metrics.instruments import (
    BODIES_HELD,
    CONVERSATION_AMBIGUOUS,
    CONVERSATION_LINKS,
    CONVERSATION_REMEMBERED,
    EXPORT_FAILURES,
    RUNS_ENDED,
    RUNS_OPEN,
    SPANS_CUT,
    SPANS_DROPPED,
    SPANS_EXPORTED,
    SPANS_FAILED,
    SPANS_RECORDED,
    SPANS_REJECTED,
    SPANS_WAITING,
    STORE_OLDEST_PENDING_AGE,
    STORE_SIZE,
    STORE_SPANS,
    DropReason,
)
from telemetry.metrics.registry import MetricsRegistry
from telemetry.observing.crash_counter import CrashCounter
from telemetry.observing.encryption import OWN_CIPHER
from telemetry.semconv import SCOPE_NAME
from telemetry.service import TelemetryService
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.rules import SpanRules
from telemetry.store.rows import SpanState
from telemetry.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from telemetry.export.delivery import Sender
    from telemetry.export.metrics_exporter import MetricsSettings
    from telemetry.metrics.registry import Reading
    from telemetry.metrics.snapshot import Snapshot
    from telemetry.observing.encryption import Cipher
    from telemetry.store.rows import Retention

_log = logging.getLogger("spantap.telemetry")

METRICS_CLOSE_SECONDS = 2.0
"""How long it waits for the last numbers to be sent: they are worth less than spans."""


class Pipeline:
    """The observing half as a whole, but for the way that frames come to it.

    Attributes:
        service: one thread feeds it with frames and makes it commit.
        store: the span store.
        backend: the OTLP backend for log lines, ``None`` where spans stay in the store.
        metrics: all numbers of the process.
    """

    def __init__(
        self,
        store: Store,
        sender: Sender | None,
        recorder: SpanRecorder,
        rules: SpanRules,
        metrics_backend: MetricsSettings | None = None,
        *,
        crashes: CrashCounter | None = None,
        more_numbers: Callable[[Snapshot], Snapshot] = lambda own: own,
        cipher: Cipher = OWN_CIPHER,
    ) -> None:
        self.store = store
        self.metrics = MetricsRegistry()
        self.backend = sender.backend if sender is not None else None
        self._sender = sender
        self._crashes = crashes or CrashCounter()
        self._exporter = Exporter(store, sender) if sender is not None else None
        self.service = TelemetryService(
            recorder,
            store,
            rules=rules,
            metrics=self.metrics,
            crashes=self._crashes,
            now_ns=time.time_ns,
            steady_ns=_start_steady_clock(),
            on_stored=self._exporter.wake if self._exporter is not None else _nothing,
            cipher=cipher,
        )
        self._recorder = recorder
        self.metrics.read_from(self._read_observing)
        self.metrics.read_from(self._read_exporting)
        self.metrics.read_from(self._read_store)
        self._metrics_sender: Sender | None = None
        self._metrics_exporter: MetricsExporter | None = None
        if metrics_backend is not None:
            self._metrics_sender = open_sender(metrics_backend.otlp)
            self._metrics_exporter = MetricsExporter(
                lambda: more_numbers(self.metrics.snapshot()),
                self._metrics_sender,
                build_resource(),
                interval_seconds=metrics_backend.interval_seconds,
            )

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        retention: Retention,
        environ: Mapping[str, str],
        rules: SpanRules | None = None,
        fsync_each_commit: bool = False,
        holder_pid: int | None = None,
        more_numbers: Callable[[Snapshot], Snapshot] = lambda own: own,
        cipher: Cipher = OWN_CIPHER,
    ) -> Self:
        """Open the store and prepare the exporter; nothing runs yet.

        The process's ``opentelemetry`` loggers are quieted (:mod:`telemetry.export.sdk_logs`).

        Args:
            path: of the store, see :meth:`telemetry.store.store.Store.open`.
            retention: see there, as for `fsync_each_commit` and `holder_pid`.
            environ: the process's own: the SDK reads resource and span limits from there.
            rules: what the settings say about every span.
            fsync_each_commit: see there.
            holder_pid: see there.
            more_numbers: adds those of other processes to ours, for the backend of metrics.
            cipher: decrypts what may be credentials in frames.

        Raises:
            ConfigurationError: an ``OTEL_*`` variable cannot be followed.
            StoreError: the store cannot be opened.
        """
        quiet_sdk_logs()
        check_otel_environment(environ)
        rules = rules or SpanRules()
        recorder = SpanRecorder(build_resource(), build_span_limits(), rules)
        settings = read_otlp_settings(environ)
        metrics_backend = read_metrics_settings(environ)
        sender = open_sender(settings) if settings is not None else None
        try:
            store = Store.open(
                path,
                delivers=sender is not None,
                retention=retention,
                fsync_each_commit=fsync_each_commit,
                holder_pid=holder_pid,
            )
        except StoreError:
            if sender is not None:
                sender.close()
            raise
        return cls(
            store,
            sender,
            recorder,
            rules,
            metrics_backend,
            crashes=CrashCounter.open(Path(f"{path.resolve()}.strikes")),
            more_numbers=more_numbers,
            cipher=cipher,
        )

    def start(self) -> None:
        """Begin to send."""
        if self._exporter is not None:
            self._exporter.start()
        if self._metrics_exporter is not None:
            self._metrics_exporter.start()

    def _read_observing(self) -> Iterator[Reading]:
        counts = self.service.counts
        yield SPANS_RECORDED, (), counts.recorded
        yield SPANS_FAILED, (), counts.failed
        yield SPANS_CUT, (), self._recorder.cut_count
        conversations = self.service.conversations
        for rule, count in conversations.continuations.items():
            yield CONVERSATION_LINKS, (rule.value,), count
        yield CONVERSATION_AMBIGUOUS, (), conversations.ambiguous
        yield CONVERSATION_REMEMBERED, (), conversations.remembered
        yield RUNS_OPEN, (), len(conversations.runs)
        for reason, count in conversations.runs.ended.items():
            yield RUNS_ENDED, (reason,), count
        yield SPANS_WAITING, (), self.service.waiting
        yield BODIES_HELD, (), self.service.held_bytes
        yield SPANS_DROPPED, (DropReason.STORE_UNAVAILABLE,), counts.dropped
        yield SPANS_DROPPED, (DropReason.OBSERVER_FAILED,), counts.lost

    def _read_exporting(self) -> Iterator[Reading]:
        counts = self._exporter.counts if self._exporter is not None else ExportCounts()
        yield SPANS_EXPORTED, (), counts.delivered
        yield SPANS_REJECTED, (), counts.rejected
        yield EXPORT_FAILURES, (), counts.failures

    def _read_store(self) -> Iterator[Reading]:
        """Read the store's numbers; may wait for a commit. They are absent if it cannot be read."""
        with contextlib.suppress(StoreError):
            stored = self.store.counts()
            for state in SpanState:
                yield STORE_SPANS, (state.value,), getattr(stored, state.value)
            oldest_ns = stored.oldest_pending_ns
            waited_ns = 0 if oldest_ns is None else max(0, time.time_ns() - oldest_ns)
            yield STORE_OLDEST_PENDING_AGE, (), waited_ns / 1e9
            yield STORE_SIZE, (), stored.size_bytes
            yield SPANS_DROPPED, (DropReason.STORE_FULL,), stored.lost
            yield SPANS_DROPPED, (DropReason.STORE_DAMAGED,), stored.damaged

    def close(self, flush_seconds: float) -> int:
        """Send what is pending as far as time allows, and close.

        What was fed is committed already.

        Returns:
            How many spans are lost: made, but not accepted by the store (R5).
        """
        if self._exporter is not None:
            try:
                if pending := self._exporter.flush(flush_seconds):
                    _log.warning("%d spans are still to be sent; they stay in the store", pending)
            except StoreError as error:
                _log.error("%s", error)
            self._exporter.stop()
        if self._metrics_exporter is not None:
            self._metrics_exporter.close(METRICS_CLOSE_SECONDS)
        for sender in (self._sender, self._metrics_sender):
            if sender is not None:
                sender.close()
        self.store.close()
        self._crashes.close()
        # Only now is it settled: until here the store may have taken a late commit.
        if lost := self.service.waiting:
            dropped = self.service.counts.dropped
            _log.error(
                "%d spans are lost: the store did not accept them (%d before)", lost, dropped
            )
        return lost


def _start_steady_clock() -> Callable[[], int]:
    """Start a clock at the machine's time, that never steps."""
    offset_ns = time.time_ns() - time.monotonic_ns()
    return lambda: offset_ns + time.monotonic_ns()


def _nothing() -> None:
    """Wake nobody."""


def build_resource() -> Resource:
    """The resource of every span, as the standard environment describes it.

    It says which service speaks (``docs/contract/spans.md#span-resource``).
    ``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES`` (where also the Phoenix project is set,
    ``openinference.project.name``) win over our own name and version.
    """
    defaults = {SERVICE_NAME: SCOPE_NAME, SERVICE_VERSION: __version__}
    # create() lets the mapping it is given win over the environment, hence the detour.
    return Resource.create({**defaults, **OTELResourceDetector().detect().attributes})
