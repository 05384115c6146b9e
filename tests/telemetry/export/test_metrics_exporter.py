"""``telemetry.export.metrics_exporter``: metrics to a real OTLP backend."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.sdk.resources import Resource

from telemetry.export.delivery import Answer, Verdict
from telemetry.export.exporter import open_sender
from telemetry.export.metrics_exporter import MetricsExporter
from telemetry.export.metrics_settings import read_metrics_settings
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


def test_rule_1_metrics_are_sent_at_every_interval() -> None:
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


def test_rule_1_the_last_numbers_are_sent_at_the_end() -> None:
    """Even where no interval has passed."""
    registry = MetricsRegistry()
    with HttpSink() as sink, exporting(make_sender(sink), registry.snapshot):
        registry.add(REQUESTS, 7)
    assert counted(sink) == [7]


def test_rule_1_the_end_waits_no_longer_than_it_is_told() -> None:
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


def test_rule_2_nothing_ends_the_thread(caplog: pytest.LogCaptureFixture) -> None:
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


def test_rule_3_failures_are_one_line_in_a_minute(caplog: pytest.LogCaptureFixture) -> None:
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
def test_rule_3_refusals_are_told_without_credentials(
    answer: SinkAnswer, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A backend that takes traces only, or not all, is told of in our words alone (R7)."""
    with (
        HttpSink() as sink,
        exporting(make_sender(sink, HEADERS="authorization=Bearer%20sekret-1")),
    ):
        sink.script.append(answer)
    assert lines(caplog) == [f"WARNING {sink.url} accepts no metrics ({words})"]


def test_rule_3_a_backend_that_is_away_is_told(caplog: pytest.LogCaptureFixture) -> None:
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
