"""The observing half put together: queue, service, store, exporter, from the environment."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Self

from telemetry.errors import StoreError
from telemetry.exporter import Exporter, open_sender
from telemetry.in_process import InProcessTelemetry
from telemetry.otel_environment import check_otel_environment
from telemetry.otlp_settings import read_otlp_settings
from telemetry.recorder import SpanRecorder, build_span_limits
from telemetry.resource import build_resource
from telemetry.sdk_logs import quiet_sdk_logs
from telemetry.service import TelemetryService
from telemetry.span_rules import SpanRules
from telemetry.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from telemetry.delivery import Sender
    from telemetry.frames import Frame
    from telemetry.store_rows import Retention

__all__ = ("Pipeline",)

_log = logging.getLogger("spantap.telemetry")

CLOSE_SECONDS = 5.0
"""How long the end of the process waits for the queue to be consumed and committed."""


class Pipeline:
    """What a worker emits frames into, and closes at its end.

    Attributes:
        store: the span store.
        backend: the OTLP backend for log lines, ``None`` where spans stay in the store.
    """

    def __init__(
        self, store: Store, sender: Sender | None, recorder: SpanRecorder, rules: SpanRules
    ) -> None:
        self.store = store
        self.backend = sender.backend if sender is not None else None
        self._sender = sender
        self._exporter = Exporter(store, sender) if sender is not None else None
        self._service = TelemetryService(
            recorder,
            store,
            rules=rules,
            now_ns=time.time_ns,
            on_stored=self._exporter.wake if self._exporter is not None else _nothing,
        )
        self._telemetry = InProcessTelemetry(self._service)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        retention: Retention,
        environ: Mapping[str, str],
        rules: SpanRules | None = None,
    ) -> Self:
        """Open the store and prepare the exporter; nothing runs yet.

        The process's ``opentelemetry`` loggers are quieted (:mod:`telemetry.sdk_logs`). `environ`
        is the process's own: the SDK reads resource and span limits from there.

        Raises:
            ConfigurationError: an ``OTEL_*`` variable cannot be followed.
            StoreError: the store cannot be opened.
        """
        quiet_sdk_logs()
        check_otel_environment(environ)
        rules = rules or SpanRules()
        recorder = SpanRecorder(build_resource(), build_span_limits(), rules)
        settings = read_otlp_settings(environ)
        sender = open_sender(settings) if settings is not None else None
        try:
            store = Store.open(path, delivers=sender is not None, retention=retention)
        except StoreError:
            if sender is not None:
                sender.close()
            raise
        return cls(store, sender, recorder, rules)

    def start(self) -> None:
        """Begin to consume and to send."""
        self._telemetry.start()
        if self._exporter is not None:
            self._exporter.start()

    def emit(self, frame: Frame) -> None:
        """Take one frame; never blocks."""
        self._telemetry.emit(frame)

    def metrics(self) -> dict[str, int]:
        """Counters and gauges by name, for the admin port; may wait for the store."""
        counts = self._service.counts
        values = {
            "spans_recorded_total": counts.recorded,
            "spans_failed_total": counts.failed,
            "spans_dropped_total": counts.dropped,
            "spans_waiting": self._service.waiting,
            "tap_queue_bytes": self._telemetry.queued_bytes,
            "tap_shed_bytes_total": self._telemetry.shed_bytes,
            "tap_shed_exchanges_total": self._telemetry.shed_exchanges,
        }
        try:
            stored = self.store.counts()
        except StoreError:
            return values
        values |= {
            "store_spans_pending": stored.pending,
            "store_spans_delivered": stored.delivered,
            "store_spans_rejected": stored.rejected,
            "store_spans_kept": stored.kept,
            "store_spans_lost_total": stored.lost,
        }
        return values

    def close(self, flush_seconds: float) -> int:
        """Commit what was emitted, send what is pending as far as time allows, and close.

        Returns:
            How many spans are lost: made, but not taken by the store (R5).
        """
        if not self._telemetry.close(CLOSE_SECONDS):
            _log.error("observed exchanges were lost: not committed within %s s", CLOSE_SECONDS)
        if self._exporter is not None:
            try:
                if pending := self._exporter.flush(flush_seconds):
                    _log.warning("%d spans are still to be sent; they stay in the store", pending)
            except StoreError as error:
                _log.error("%s", error)
            self._exporter.stop()
        if self._sender is not None:
            self._sender.close()
        self.store.close()
        # Only now is it settled: until here the store may have taken a late commit.
        if lost := self._service.waiting:
            dropped = self._service.counts.dropped
            _log.error("%d spans are lost: the store did not take them (%d before)", lost, dropped)
        return lost


def _nothing() -> None:
    """Nobody to wake."""
