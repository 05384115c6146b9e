"""``telemetry.export.metrics_exporter``: metrics to an OTLP backend, and settings."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.sdk.resources import Resource

from telemetry.errors import ConfigurationError
from telemetry.export.delivery import Answer, Verdict
from telemetry.export.exporter import open_sender
from telemetry.export.metrics_exporter import (
    MetricsExporter,
    MetricsSettings,
    read_metrics_settings,
)
from telemetry.export.settings import OtlpProtocol, OtlpSettings
from telemetry.metrics.instruments import REQUESTS
from telemetry.metrics.registry import MetricsRegistry
from tests.otlp_sink import GrpcSink, HttpSink, SinkAnswer
from tests.telemetry.exporting import DELIVERED, ScriptedSender, lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from telemetry.export.delivery import Sender
    from telemetry.metrics.snapshot import Snapshot

RESOURCE = Resource({"service.name": "spantap"})
NEVER = 3600.0
SOON = 0.02
EMPTY = MetricsRegistry().snapshot

GENERAL = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
SPECIFIC = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://h:9090/api/v1/otlp/v1/metrics"}
ON = GENERAL | {"OTEL_METRICS_EXPORTER": "otlp"}


def make_sender(endpoint: str | HttpSink, **variables: str) -> Sender:
    """A sender with settings from variables (their common prefix left out)."""
    if isinstance(endpoint, HttpSink):
        endpoint = f"{endpoint.url}/v1/metrics"
    settings = read_metrics_settings(
        {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": endpoint}
        | {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in variables.items()}
    )
    assert settings is not None
    return open_sender(settings.otlp)


def counted(sink: HttpSink | GrpcSink) -> list[int]:
    """How many requests were counted, request by request."""
    return [request.metrics[REQUESTS.name].sum.data_points[0].as_int for request in sink.requests]


def wait_for(sender: ScriptedSender, count: int) -> None:
    """Wait until so many requests were sent."""
    until = time.monotonic() + 10.0
    while len(sender.batches) < count:
        assert time.monotonic() < until
        time.sleep(0.005)


@contextlib.contextmanager
def exporting(
    sender: Sender,
    read_snapshot: Callable[[], Snapshot] = EMPTY,
    *,
    interval_seconds: float = NEVER,
) -> Iterator[MetricsExporter]:
    """An exporter in its thread, which sends its last request at the end."""
    exporter = MetricsExporter(read_snapshot, sender, RESOURCE, interval_seconds=interval_seconds)
    exporter.start()
    yield exporter
    assert exporter.close(10.0)
    sender.close()


def test_metrics_are_sent_at_every_interval() -> None:
    """Each request has all since the start, so a later one holds what an earlier one had."""
    registry = MetricsRegistry()
    with HttpSink() as sink:
        registry.add(REQUESTS)
        sender = make_sender(sink, HEADERS="x-key=1")
        with exporting(sender, registry.snapshot, interval_seconds=SOON):
            sink.wait_for_requests(2)
            registry.add(REQUESTS, 5)
    counts = counted(sink)
    assert (counts[:2], counts[-1]) == ([1, 1], 6)
    headers = sink.requests[0].headers
    assert headers["content-type"] == "application/x-protobuf"
    assert headers["x-key"] == "1"
    ids = [
        pair.value.string_value
        for request in sink.requests
        for pair in ExportMetricsServiceRequest.FromString(request.body)
        .resource_metrics[0]
        .resource.attributes
        if pair.key == "service.instance.id"
    ]
    assert len(ids) == len(sink.requests)
    assert len(set(ids)) == 1


def test_the_last_numbers_are_sent_at_the_end() -> None:
    """Even where no interval has passed."""
    registry = MetricsRegistry()
    with HttpSink() as sink, exporting(make_sender(sink), registry.snapshot):
        registry.add(REQUESTS, 7)
    assert counted(sink) == [7]


def test_the_end_waits_no_longer_than_it_is_told() -> None:
    """A backend that does not answer holds nobody up."""
    with HttpSink() as sink, exporting(make_sender(sink)) as exporter:
        sink.script.append(SinkAnswer(delay_seconds=0.5))
        assert not exporter.close(0.1)


def test_an_exporter_that_was_not_started_can_be_closed() -> None:
    """It sends nothing."""
    sender = ScriptedSender()
    exporter = MetricsExporter(EMPTY, sender, RESOURCE, interval_seconds=NEVER)
    assert exporter.close(0.0)
    assert sender.batches == []


def test_nothing_ends_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    """Numbers that cannot be taken and a sender with a defect cost one request each."""
    registry = MetricsRegistry()
    troubles = [KeyError("sekret")]

    def read_snapshot() -> Snapshot:
        if troubles:
            raise troubles.pop()
        return registry.snapshot()

    caplog.set_level("INFO")
    sender = ScriptedSender(RuntimeError("sekret"))
    with exporting(sender, read_snapshot, interval_seconds=SOON):
        wait_for(sender, 3)
    warning, recovery = (record.getMessage() for record in caplog.records)
    assert warning.startswith(f"{sender.backend} accepts no metrics (KeyError in read_snapshot, ")
    assert recovery == f"{sender.backend} accepts metrics again"
    assert "sekret" not in caplog.text


def test_failures_are_one_line_in_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """With the backend's words; a backend that flaps is no reason for more."""
    fails = Answer(verdict=Verdict.RETRY, words="HTTP 503: busy")
    sender = ScriptedSender(fails, fails, DELIVERED, fails, DELIVERED)
    caplog.set_level("INFO")
    with exporting(sender, interval_seconds=SOON):
        wait_for(sender, 5)
    assert lines(caplog) == [
        f"WARNING {sender.backend} accepts no metrics (HTTP 503: busy)",
        f"INFO {sender.backend} accepts metrics again",
    ]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (SinkAnswer(status=404, words="no such path"), "HTTP 404"),
        (SinkAnswer(rejected_spans=3, words="too many series"), "partial success"),
        (SinkAnswer(status=401, words="who is sekret-1?"), "HTTP 401"),
    ],
)
def test_refusals_are_told_without_credentials(
    answer: SinkAnswer, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A backend that takes traces only, or not all, is told of in our words alone (R7)."""
    with (
        HttpSink() as sink,
        exporting(make_sender(sink, HEADERS="authorization=Bearer%20sekret-1")),
    ):
        sink.script.append(answer)
    assert lines(caplog) == [f"WARNING {sink.url} accepts no metrics ({words})"]


def test_a_backend_that_is_away_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody listens there; the endpoint's credentials stay out of the line."""
    with exporting(make_sender("http://user:sekret@127.0.0.1:9/v1/metrics")):
        pass
    assert lines(caplog) == [
        "WARNING http://127.0.0.1:9 accepts no metrics (no connection: Connection refused)"
    ]


def test_metrics_over_grpc() -> None:
    """The service of metrics is called, with headers as metadata."""
    registry = MetricsRegistry()
    registry.add(REQUESTS, 3)
    with GrpcSink() as sink:
        sender = make_sender(f"http://{sink.address}", PROTOCOL="grpc", HEADERS="x-key=1")
        with exporting(sender, registry.snapshot):
            pass
    assert counted(sink) == [3]
    (request,) = sink.requests
    assert request.path == "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
    assert request.headers["x-key"] == "1"


@pytest.mark.parametrize(
    "environ",
    [
        {},
        GENERAL,
        GENERAL | {"OTEL_METRICS_EXPORTER": " "},
        GENERAL | {"OTEL_METRICS_EXPORTER": "none"},
        GENERAL | {"OTEL_METRICS_EXPORTER": "prometheus"},
        SPECIFIC | {"OTEL_METRICS_EXPORTER": "none"},
        SPECIFIC | {"OTEL_METRICS_EXPORTER": "prometheus"},
        {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "  "},
    ],
)
def test_nothing_is_sent_unasked(environ: dict[str, str]) -> None:
    """The general endpoint alone is where traces go; a named exporter other than OTLP wins."""
    assert read_metrics_settings(environ) is None


def test_sent_when_the_exporter_is_named() -> None:
    """Then the general endpoint will do; the interval is the specification's minute."""
    assert read_metrics_settings(ON) == MetricsSettings(
        otlp=OtlpSettings(
            signal="metrics",
            protocol=OtlpProtocol.HTTP_PROTOBUF,
            endpoint="http://127.0.0.1:4318/v1/metrics",
            backend="http://127.0.0.1:4318",
            gzip=False,  # nothing is said, and it is on loopback
        ),
        interval_seconds=60.0,
    )


@pytest.mark.parametrize("exporters", ["otlp", " otlp , prometheus ", "prometheus,otlp,", ""])
def test_sent_where_metrics_have_an_endpoint(exporters: str) -> None:
    """It is used as it is, whatever the general one says."""
    environ = GENERAL | SPECIFIC | {"OTEL_METRICS_EXPORTER": exporters}
    settings = read_metrics_settings(environ)
    assert settings is not None
    assert settings.otlp.endpoint == "http://h:9090/api/v1/otlp/v1/metrics"


def test_variables_for_metrics_win() -> None:
    """Those for traces have no say, the general ones where nothing else does."""
    settings = read_metrics_settings(
        ON
        | {
            "OTEL_EXPORTER_OTLP_METRICS_HEADERS": "a=1",
            "OTEL_EXPORTER_OTLP_HEADERS": "b=2",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "c=3",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "3",
            "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "4",
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://traces",
            "OTEL_METRIC_EXPORT_INTERVAL": "1500",
        }
    )
    assert settings is not None
    assert settings.otlp.headers == (("a", "1"),)
    assert settings.otlp.timeout_seconds == 3
    assert settings.otlp.protocol is OtlpProtocol.HTTP_PROTOBUF
    assert settings.otlp.endpoint == "http://127.0.0.1:4318/v1/metrics"
    assert settings.interval_seconds == 1.5


def test_grpc() -> None:
    """The protocol of metrics is their own."""
    settings = read_metrics_settings(ON | {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc"})
    assert settings is not None
    assert settings.otlp.protocol is OtlpProtocol.GRPC
    assert settings.otlp.endpoint == "127.0.0.1:4318"


@pytest.mark.parametrize("value", ["true", "TRUE"])
def test_the_sdk_switch_turns_metrics_off(value: str) -> None:
    """Whatever else is set."""
    assert read_metrics_settings(ON | SPECIFIC | {"OTEL_SDK_DISABLED": value}) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "Cumulative"),
        (
            "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
            "explicit_bucket_histogram",
        ),
        ("OTEL_METRIC_EXPORT_INTERVAL", " "),
        ("OTEL_METRIC_EXPORT_INTERVAL", "60000"),
    ],
)
def test_defaults_may_be_said(name: str, value: str) -> None:
    """What we do anyway can be asked for."""
    assert read_metrics_settings(ON | {name: value}) == read_metrics_settings(ON)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"OTEL_METRICS_EXPORTER": "console"}, "is 'console', but only otlp, prometheus, none"),
        ({"OTEL_METRICS_EXPORTER": "otlp,none"}, "none cannot stand beside another"),
        ({"OTEL_METRICS_EXPORTER": "OTLP"}, "OTEL_METRICS_EXPORTER is 'OTLP'"),
        ({"OTEL_SDK_DISABLED": "1"}, "OTEL_SDK_DISABLED is '1'"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
            "neither OTEL_EXPORTER_OTLP_METRICS_ENDPOINT nor OTEL_EXPORTER_OTLP_ENDPOINT says",
        ),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "h"}, "OTLP_METRICS_ENDPOINT must be an http"),
        ({"OTEL_EXPORTER_OTLP_METRICS_TIMEOUT": "soon"}, "OTLP_METRICS_TIMEOUT is 'soon'"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "soon"}, "OTEL_METRIC_EXPORT_INTERVAL is 'soon'"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "99"}, "milliseconds from 100 to 86400000"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "86400001"}, "milliseconds from 100"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "-1"}, "milliseconds from 100"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "1e3"}, "a whole number"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "9" * 5000}, "a whole number"),
        (
            {"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta"},
            "PREFERENCE is 'delta', but only cumulative is known",
        ),
        (
            {
                "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": (
                    "base2_exponential_bucket_histogram"
                )
            },
            "only explicit_bucket_histogram is known",
        ),
    ],
)
def test_values_that_cannot_be_followed(variables: dict[str, str], message: str) -> None:
    """One sentence that names the variable."""
    with pytest.raises(ConfigurationError) as refused:
        read_metrics_settings(ON | variables)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_switch_is_looked_at_even_where_nothing_is_sent() -> None:
    """A slip in the switch itself must not pass for "off"."""
    with pytest.raises(ConfigurationError, match="OTEL_METRICS_EXPORTER"):
        read_metrics_settings({"OTEL_METRICS_EXPORTER": "otpl", "OTEL_SDK_DISABLED": "true"})
