"""Snapshots of metrics as OTLP.

Everything is cumulative since the snapshot's start: if a request is lost, the next has it all
(OpenTelemetry specification, "Metrics Data Model").
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, cast

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.semconv._incubating.attributes.service_attributes import SERVICE_INSTANCE_ID

from codec._version import __version__
from telemetry.metrics.instruments import INSTRUMENTS, Instrument, Kind
from telemetry.semconv import SCOPE_NAME

if TYPE_CHECKING:
    from telemetry.metrics.snapshot import HistogramSeries, Labels, Snapshot


def with_instance_id(resource: Resource) -> Resource:
    """Add a random ``service.instance.id`` to `resource`, if it has none.

    Each cumulative series has to have one writer: the id tells replicas of one service apart.
    """
    return Resource({SERVICE_INSTANCE_ID: str(uuid.uuid4()), **resource.attributes})


def encode_snapshot(snapshot: Snapshot, resource: Resource) -> bytes:
    """Encode an ``ExportMetricsServiceRequest``, without metrics that have no series."""
    metrics = [
        Metric(
            name=instrument.name,
            description=instrument.description,
            unit=instrument.unit,
            data=data,
        )
        for instrument in INSTRUMENTS
        if (data := _data(instrument, snapshot)).data_points
    ]
    scope = InstrumentationScope(SCOPE_NAME, __version__)
    scope_metrics = ScopeMetrics(scope=scope, metrics=metrics, schema_url="")
    sent = ResourceMetrics(resource=resource, scope_metrics=[scope_metrics], schema_url="")
    request: bytes = encode_metrics(MetricsData([sent])).SerializeToString()
    return request


def _data(instrument: Instrument, snapshot: Snapshot) -> Sum | Gauge | Histogram:
    cumulative = AggregationTemporality.CUMULATIVE
    if instrument.kind is Kind.HISTOGRAM:
        return Histogram(
            data_points=[
                _histogram_point(instrument, snapshot, series)
                for series in snapshot.histograms.get(instrument.name, ())
            ],
            aggregation_temporality=cumulative,
        )
    numbers = [
        NumberDataPoint(
            attributes=_attributes(instrument, series.labels),
            start_time_unix_nano=snapshot.start_ns,
            time_unix_nano=snapshot.at_ns,
            value=series.value,
        )
        for series in snapshot.numbers.get(instrument.name, ())
    ]
    if instrument.kind is Kind.COUNTER:
        return Sum(data_points=numbers, aggregation_temporality=cumulative, is_monotonic=True)
    return Gauge(data_points=numbers)


def _histogram_point(
    instrument: Instrument, snapshot: Snapshot, series: HistogramSeries
) -> HistogramDataPoint:
    # Extremes since the start would soon say nothing; OTLP lets them be absent.
    absent = cast("float", None)
    return HistogramDataPoint(
        attributes=_attributes(instrument, series.labels),
        start_time_unix_nano=snapshot.start_ns,
        time_unix_nano=snapshot.at_ns,
        count=series.count,
        sum=series.sum,
        bucket_counts=series.counts,
        explicit_bounds=instrument.bounds,
        min=absent,
        max=absent,
    )


def _attributes(instrument: Instrument, labels: Labels) -> dict[str, str | int]:
    pairs = zip(instrument.labels, labels, strict=True)
    return {name: value for name, value in pairs if value != ""}
