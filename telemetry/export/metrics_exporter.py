"""Metrics to an OTLP backend, on a thread of their own.

The senders are those of the spans. OpenTelemetry's own exporters hide why a backend refused, follow
redirects with credentials, and try again inside their ten seconds, which is of no use for
cumulative metrics: the next request has it all.

Rules:

1. One request per interval, one try each. One more at :meth:`MetricsExporter.close`, which waits no
   longer than it is told to.
2. Nothing is raised, and the thread lives on.
3. Failures are one line in the log per ten minutes, without credentials (R7), and a recovery one.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from telemetry.export.delivery import Verdict
from telemetry.export.journal import describe_defect
from telemetry.rate_limit import RateLimit

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.resources import Resource

    from telemetry.export.delivery import Sender
    from telemetry.metrics.snapshot import Snapshot

_LOG_SECONDS = 600.0
"""The time between two log lines about failures: numbers are worth fewer lines than spans."""

_log = logging.getLogger("spantap.exporter")


class MetricsExporter:
    """Sends a snapshot once per interval. The caller closes the sender, after :meth:`close`.

    `read_snapshot` is called on the exporter's thread.
    """

    def __init__(
        self,
        read_snapshot: Callable[[], Snapshot],
        sender: Sender,
        resource: Resource,
        *,
        interval_seconds: float,
    ) -> None:
        self._read_snapshot = read_snapshot
        self._sender = sender
        self._resource = resource
        self._interval_seconds = interval_seconds
        self._failure_lines = RateLimit(time.monotonic_ns, interval_seconds=_LOG_SECONDS)
        self._failing = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spantap-metrics", daemon=True)

    def start(self) -> None:
        """Begin to send, the first time after one interval."""
        self._thread.start()

    def close(self, timeout_seconds: float) -> bool:
        """Send once more and stop; false if that took longer than `timeout_seconds`.

        A request that is then under way ends with its own timeout, or with the process.
        """
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.wait(self._interval_seconds):
            self._export()
        self._export()

    def _export(self) -> None:
        # The SDK's metrics take long to import, and nothing is sent for a minute.
        from telemetry.export.otlp_metrics import (  # noqa: PLC0415 - only where metrics are sent
            encode_snapshot,
            with_instance_id,
        )

        self._resource = with_instance_id(self._resource)  # drawn the first time, then kept
        try:
            answer = self._sender.send(encode_snapshot(self._read_snapshot(), self._resource))
        except Exception as error:  # noqa: BLE001 - rule 2
            self._tell_failure(describe_defect(error))
            return
        if answer.verdict is not Verdict.DELIVERED:
            self._tell_failure(answer.brief or answer.words)
        elif self._failing:
            self._failing = False
            _log.info("%s accepts metrics again", self._sender.backend)

    def _tell_failure(self, words: str) -> None:
        if self._failure_lines.admit() is not None:
            self._failing = True
            _log.warning("%s accepts no metrics (%s)", self._sender.backend, words)
