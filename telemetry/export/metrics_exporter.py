"""Sends metrics to an OTLP backend on a separate thread, and reads the settings for it.

The senders are those of the spans. OpenTelemetry's own exporters hide why a backend refused, follow
redirects with credentials, and try again within ten seconds. Trying again is of no use for
cumulative metrics, because the next request has them all.

Settings are OpenTelemetry's environment variables (OpenTelemetry specification, "Environment
Variable Specification"). :mod:`telemetry.export.settings` says how the backend is reached. The
specification would send metrics to the general endpoint by default; but a trace backend like
Phoenix would refuse them for ever. So they are sent only if ``OTEL_METRICS_EXPORTER`` names
``otlp``, or if it is unset and ``OTEL_EXPORTER_OTLP_METRICS_ENDPOINT`` is set.
``OTEL_SDK_DISABLED`` switches them off. ``prometheus`` changes nothing, because the admin port
always has them. Unsupported settings are an error at start: ``otlp`` without any endpoint, deltas,
exponential histograms.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from telemetry.errors import ConfigurationError
from telemetry.export.delivery import Verdict
from telemetry.export.journal import describe_defect
from telemetry.export.settings import OtlpSettings, is_sdk_disabled, read_backend
from telemetry.rate_limit import RateLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.sdk.resources import Resource

    from telemetry.export.delivery import Sender
    from telemetry.metrics.snapshot import Snapshot

_LOG_SECONDS = 600.0
"""The time between two log lines about failures: metrics are worth fewer lines than spans."""

_ENDPOINT = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"

_EXPORTERS: Final = ("otlp", "prometheus", "none")

_DEFAULT_INTERVAL_MS = 60_000
"""The specification's."""

_MIN_INTERVAL_MS, _MAX_INTERVAL_MS = 100, 24 * 3600 * 1000
"""The limits of the interval. A smaller number was probably meant as seconds; metrics that are
older than the larger limit are of no use."""

_ONLY_VALUES: Final = {
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "cumulative",
    "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": "explicit_bucket_histogram",
}
"""Variables of which only the default is accepted."""

_log = logging.getLogger("spantap.exporter")


class MetricsExporter:
    """Sends a snapshot once per interval and once at the end, with one try each.

    No error ends the thread. The log has one line about failures in ten minutes, without
    credentials (R7), and one line when the backend accepts metrics again.

    `read_snapshot` is called on the exporter's thread. The caller closes the sender, after
    :meth:`close`.
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
        except Exception as error:  # noqa: BLE001 - the thread has to live on
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """The address of the backend of metrics, and the time from one request to the next."""

    otlp: OtlpSettings
    interval_seconds: float


def read_metrics_settings(environ: Mapping[str, str]) -> MetricsSettings | None:
    """Read the settings in `environ`; ``None`` if nothing is to be sent.

    Raises:
        ConfigurationError: a variable has a value that cannot be followed.
    """
    exporters = _read_exporters(environ.get("OTEL_METRICS_EXPORTER", ""))
    if is_sdk_disabled(environ):
        return None
    if "otlp" not in exporters and (exporters or not environ.get(_ENDPOINT, "").strip()):
        return None
    for name, only in _ONLY_VALUES.items():
        value = environ.get(name, "").strip()
        if value.lower() not in {"", only}:
            raise ConfigurationError(f"{name} is {value!r}, but only {only} is known")
    otlp = read_backend(environ, "metrics")
    if otlp is None:
        raise ConfigurationError(
            f"OTEL_METRICS_EXPORTER is otlp, but neither {_ENDPOINT} nor "
            "OTEL_EXPORTER_OTLP_ENDPOINT says where to"
        )
    interval_ms = _read_interval_ms(environ.get("OTEL_METRIC_EXPORT_INTERVAL", "").strip())
    return MetricsSettings(otlp=otlp, interval_seconds=interval_ms / 1000)


def _read_exporters(value: str) -> frozenset[str]:
    """Read the names in ``OTEL_METRICS_EXPORTER``, a list with commas."""
    names = frozenset(filter(None, map(str.strip, value.split(","))))
    if not names <= set(_EXPORTERS):
        raise ConfigurationError(
            f"OTEL_METRICS_EXPORTER is {value!r}, but only {', '.join(_EXPORTERS)} are known"
        )
    if "none" in names and len(names) > 1:
        raise ConfigurationError(
            f"OTEL_METRICS_EXPORTER is {value!r}, but none cannot stand beside another"
        )
    return names


def _read_interval_ms(value: str) -> int:
    try:
        interval_ms = int(value or _DEFAULT_INTERVAL_MS)
    except ValueError:
        interval_ms = -1
    if not _MIN_INTERVAL_MS <= interval_ms <= _MAX_INTERVAL_MS:
        raise ConfigurationError(
            f"OTEL_METRIC_EXPORT_INTERVAL is {value!r}, but must be a whole number of milliseconds "
            f"from {_MIN_INTERVAL_MS} to {_MAX_INTERVAL_MS}"
        )
    return interval_ms
