"""``telemetry.export.otlp_metrics``: snapshots as OTLP."""

from __future__ import annotations

from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric
from opentelemetry.sdk.resources import Resource

from codec._version import __version__
from telemetry.export.otlp_metrics import encode_snapshot, with_instance_id
from telemetry.metrics.instruments import (
    INSTRUMENTS,
    REQUESTS,
    SPANS_DROPPED,
    STORE_OLDEST_PENDING_AGE,
    STORE_SPANS,
    TIME_TO_FIRST_CHUNK,
    Kind,
)
from telemetry.metrics.registry import MetricsRegistry

START_NS, AT_NS = 1_700_000_000_000_000_000, 1_700_000_060_000_000_000
LABELS = ("chat", "openai", "gpt-4o", "", "api.openai.com", 443)
CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


def make_registry() -> MetricsRegistry:
    """A registry that began at ``START_NS`` and is looked at one minute later."""
    times = iter((START_NS, AT_NS))
    return MetricsRegistry(now_ns=lambda: next(times))


def sent(registry: MetricsRegistry) -> dict[str, Metric]:
    """What goes out, decoded, by name."""
    body = encode_snapshot(registry.snapshot(), Resource({"service.name": "spantap"}))
    (resource_metrics,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    (resource_attribute,) = resource_metrics.resource.attributes
    assert (resource_attribute.key, resource_attribute.value.string_value) == (
        "service.name",
        "spantap",
    )
    (scope_metrics,) = resource_metrics.scope_metrics
    assert (scope_metrics.scope.name, scope_metrics.scope.version) == ("spantap", __version__)
    return {metric.name: metric for metric in scope_metrics.metrics}


def attributes(point: Any) -> dict[str, object]:
    """A point's attributes with the types that they have on the wire."""
    return {
        pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in point.attributes
    }


def test_counters_are_cumulative_sums() -> None:
    """Monotonic, from the start of the process to the moment of the snapshot."""
    registry = make_registry()
    registry.add(SPANS_DROPPED, 2, ("store_full",))
    metrics = sent(registry)
    metric = metrics[SPANS_DROPPED.name]
    assert (metric.unit, metric.description) == ("{span}", SPANS_DROPPED.description)
    assert metric.sum.is_monotonic
    assert metric.sum.aggregation_temporality == CUMULATIVE
    (point,) = metric.sum.data_points
    assert (point.start_time_unix_nano, point.time_unix_nano) == (START_NS, AT_NS)
    assert point.as_int == 2
    assert attributes(point) == {"reason": "store_full"}
    (zero,) = metrics[REQUESTS.name].sum.data_points
    assert (zero.WhichOneof("value"), zero.as_int) == ("as_int", 0)


def test_gauges() -> None:
    """A gauge is as it is, whole or not."""
    registry = make_registry()
    registry.set(STORE_SPANS, 3, ("pending",))
    registry.set(STORE_OLDEST_PENDING_AGE, 0.5)
    metrics = sent(registry)
    (spans,) = metrics[STORE_SPANS.name].gauge.data_points
    assert (spans.as_int, attributes(spans)) == (3, {"state": "pending"})
    (age,) = metrics[STORE_OLDEST_PENDING_AGE.name].gauge.data_points
    assert (age.as_double, age.time_unix_nano) == (0.5, AT_NS)


def test_histograms_are_cumulative() -> None:
    """Counts by bucket, not summed up; no extremes; an absent label is no attribute."""
    registry = make_registry()
    for value in (0.01, 0.3, 100.0):
        registry.observe_all([(TIME_TO_FIRST_CHUNK, value, LABELS)])
    metric = sent(registry)[TIME_TO_FIRST_CHUNK.name]
    assert metric.unit == "s"
    assert metric.histogram.aggregation_temporality == CUMULATIVE
    (point,) = metric.histogram.data_points
    assert (point.start_time_unix_nano, point.time_unix_nano) == (START_NS, AT_NS)
    assert (point.count, point.sum) == (3, 100.31)
    assert [*point.bucket_counts] == [1, 0, 0, 0, 0, 1, *[0] * 8, 1]
    assert tuple(point.explicit_bounds) == TIME_TO_FIRST_CHUNK.bounds
    assert not point.HasField("min")
    assert not point.HasField("max")
    assert attributes(point) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "server.address": "api.openai.com",
        "server.port": 443,
    }


def test_what_has_no_series_is_left_out() -> None:
    """At first there are the counters without labels, and nothing else."""
    assert set(sent(make_registry())) == {
        instrument.name
        for instrument in INSTRUMENTS
        if instrument.kind is Kind.COUNTER and not instrument.labels
    }


def test_each_process_has_an_id() -> None:
    """One of its own, unless the resource says which."""
    bare = Resource({"service.name": "a"})
    one, other = (with_instance_id(bare).attributes for _ in range(2))
    assert one["service.name"] == "a"
    assert len(str(one["service.instance.id"])) == 36
    assert one["service.instance.id"] != other["service.instance.id"]
    named = Resource({"service.instance.id": "pod-7"})
    assert with_instance_id(named).attributes == {"service.instance.id": "pod-7"}
