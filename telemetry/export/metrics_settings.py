"""Settings of sending metrics, from OpenTelemetry's standard environment variables.

Rules (OpenTelemetry specification, "Environment Variable Specification"; how the backend is
reached, :mod:`telemetry.export.settings` says):

1. Metrics are sent if ``OTEL_METRICS_EXPORTER`` names ``otlp``, or if it is unset and
   ``OTEL_EXPORTER_OTLP_METRICS_ENDPOINT`` is set. The specification would send them to the general
   endpoint by default; but a trace backend like Phoenix would refuse them for ever.
2. ``OTEL_SDK_DISABLED`` switches them off. ``prometheus`` changes nothing: the admin port always
   has them.
3. What cannot be done is an error at start: ``otlp`` without any endpoint, deltas, exponential
   histograms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from telemetry.errors import ConfigurationError
from telemetry.export.settings import OtlpSettings, is_sdk_disabled, read_backend

if TYPE_CHECKING:
    from collections.abc import Mapping

_ENDPOINT = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"

_EXPORTERS: Final = ("otlp", "prometheus", "none")

_DEFAULT_INTERVAL_MS = 60_000
"""The specification's."""

_MIN_INTERVAL_MS, _MAX_INTERVAL_MS = 100, 24 * 3600 * 1000
"""Less is a number of seconds by mistake; after more nobody would look at the numbers."""

_ONLY_VALUES: Final = {
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "cumulative",
    "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": "explicit_bucket_histogram",
}
"""Variables of which we follow the default only (rule 3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """The address of the backend of metrics, and the time from one request to the next."""

    otlp: OtlpSettings
    interval_seconds: float


def read_metrics_settings(environ: Mapping[str, str]) -> MetricsSettings | None:
    """Read the settings in `environ`; ``None`` if nothing is to be sent (rules 1 and 2).

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
