"""Metrics to an OTLP backend, on a thread of their own.

The bytes go through the senders that spans go through. OpenTelemetry's own exporters hide why a
backend refused, follow redirects with credentials on board, and try again inside their ten seconds,
which cumulative metrics have no use for: the next request has it all.

Rules:

1. One request per interval, one try each. A last one at :meth:`MetricsExporter.close`, which waits
   no longer than it is told to.
2. Nothing is raised to anybody, and the thread lives on.
3. Failures are one line in the log per ten minutes, without credentials (R7); a backend that takes
   metrics again is told of once.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from typing import TYPE_CHECKING

from telemetry.export.delivery import Verdict
from telemetry.export.settings import OtlpProtocol
from telemetry.rate_limit import RateLimit

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.resources import Resource

    from telemetry.export.delivery import Sender
    from telemetry.export.settings import OtlpSettings
    from telemetry.metrics.snapshot import Snapshot

__all__ = ("MetricsExporter", "open_metrics_sender")

_LOG_SECONDS = 600.0
"""Between two log lines about failures: numbers that nobody gets are worth fewer than spans."""

_log = logging.getLogger("spantap.exporter")


def open_metrics_sender(settings: OtlpSettings) -> Sender:
    """The sender that `settings` ask for; the libraries of the other one are not imported."""
    if settings.protocol is OtlpProtocol.GRPC:
        from telemetry.export.grpc_metrics_sender import (  # noqa: PLC0415 - only when asked for
            GrpcMetricsSender,
        )

        return GrpcMetricsSender(settings)
    from telemetry.export.http_sender import HttpSender  # noqa: PLC0415 - as above

    return HttpSender(settings)


class MetricsExporter:
    """Sends a snapshot now and then. The sender stays the caller's to close, after :meth:`close`.

    Args:
        take_snapshot: gives the numbers, on the exporter's thread.
        sender: takes the requests.
        resource: whose numbers they are.
        interval_seconds: from one request to the next.
    """

    def __init__(
        self,
        take_snapshot: Callable[[], Snapshot],
        sender: Sender,
        resource: Resource,
        *,
        interval_seconds: float,
    ) -> None:
        self._take_snapshot = take_snapshot
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
        # Here, for the SDK's metrics take long to import, and nothing is sent for a minute.
        from telemetry.export.otlp_metrics import (  # noqa: PLC0415 - only where metrics are sent
            encode_snapshot,
            with_instance_id,
        )

        self._resource = with_instance_id(self._resource)  # drawn the first time, then kept
        try:
            answer = self._sender.send(encode_snapshot(self._take_snapshot(), self._resource))
        except Exception as error:  # noqa: BLE001 - rule 2
            # Its text may hold a credential that a library was given; the place says enough.
            place = traceback.extract_tb(error.__traceback__)[-1]
            self._tell_failure(
                f"{type(error).__name__} in {place.name}, {place.filename}:{place.lineno}"
            )
            return
        if answer.verdict is not Verdict.DELIVERED:
            self._tell_failure(answer.brief or answer.words)
        elif self._failing:
            self._failing = False
            _log.info("%s takes metrics again", self._sender.backend)

    def _tell_failure(self, words: str) -> None:
        if self._failure_lines.admit() is not None:
            self._failing = True
            _log.warning("%s takes no metrics (%s)", self._sender.backend, words)
