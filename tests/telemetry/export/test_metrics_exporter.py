"""``telemetry.export.metrics_exporter``: metrics to a real OTLP backend."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.resources import Resource

from telemetry.export.delivery import Answer, Verdict
from telemetry.export.metrics_exporter import MetricsExporter, open_metrics_sender
from telemetry.export.metrics_settings import read_metrics_settings
from telemetry.metrics.instruments import REQUESTS
from telemetry.metrics.registry import MetricsRegistry
from tests.otlp_sink import GrpcSink, HttpSink, SinkAnswer

if TYPE_CHECKING:
    from telemetry.export.delivery import Sender
    from telemetry.metrics.snapshot import Snapshot

RESOURCE = Resource({"service.name": "spantap"})
NEVER = 3600.0
SOON = 0.02


def open_sender(endpoint: str, **variables: str) -> Sender:
    """A sender with settings from variables (their common prefix left out)."""
    settings = read_metrics_settings(
        {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": endpoint}
        | {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in variables.items()}
    )
    assert settings is not None
    return open_metrics_sender(settings.otlp)


class FakeSender:
    """Answers as it is told, then takes everything."""

    backend = "fake://backend"

    def __init__(self, *answers: Answer | Exception) -> None:
        self._answers = [*answers]
        self.sent = 0

    def send(self, batch: bytes) -> Answer:
        assert batch
        self.sent += 1
        answer = self._answers.pop(0) if self._answers else Answer(verdict=Verdict.DELIVERED)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """Nothing is open."""

    def wait_for(self, count: int) -> None:
        until = time.monotonic() + 10.0
        while self.sent < count:
            assert time.monotonic() < until
            time.sleep(0.005)


def test_rule_1_metrics_are_sent_at_every_interval() -> None:
    """Each request has all since the start, so a later one holds what an earlier one had."""
    registry = MetricsRegistry()
    with HttpSink() as sink:
        sender = open_sender(f"{sink.url}/v1/metrics", HEADERS="x-key=1")
        exporter = MetricsExporter(registry.snapshot, sender, RESOURCE, interval_seconds=SOON)
        registry.add(REQUESTS)
        exporter.start()
        sink.wait_for_requests(2)
        registry.add(REQUESTS, 5)
        assert exporter.close(10.0)
        sender.close()
    counted = [request.counted(REQUESTS.name) for request in sink.requests]
    assert (counted[:2], counted[-1]) == ([1, 1], 6)
    first = sink.requests[0]
    assert first.path == "/v1/metrics"
    assert first.headers["content-type"] == "application/x-protobuf"
    assert first.headers["x-key"] == "1"
    ids = [
        pair.value.string_value
        for request in sink.requests
        for pair in request.metrics.resource.attributes
        if pair.key == "service.instance.id"
    ]
    assert len(ids) == len(sink.requests)
    assert len(set(ids)) == 1


def test_rule_1_the_last_numbers_are_sent_at_the_end() -> None:
    """Even where no interval has passed."""
    registry = MetricsRegistry()
    with HttpSink() as sink:
        sender = open_sender(f"{sink.url}/v1/metrics")
        exporter = MetricsExporter(registry.snapshot, sender, RESOURCE, interval_seconds=NEVER)
        exporter.start()
        registry.add(REQUESTS, 7)
        assert exporter.close(10.0)
        sender.close()
    [request] = sink.requests
    assert request.counted(REQUESTS.name) == 7


def test_rule_1_the_end_waits_no_longer_than_it_is_told() -> None:
    """A backend that does not answer holds nobody up."""
    may_answer = threading.Event()

    def hold(_: list[str]) -> SinkAnswer:
        may_answer.wait(10.0)
        return SinkAnswer()

    with HttpSink() as sink:
        sink.rule = hold
        sender = open_sender(f"{sink.url}/v1/metrics")
        exporter = MetricsExporter(
            MetricsRegistry().snapshot, sender, RESOURCE, interval_seconds=NEVER
        )
        exporter.start()
        began = time.monotonic()
        assert not exporter.close(0.1)
        assert time.monotonic() - began < 2.0
        may_answer.set()
        assert exporter.close(10.0)
        sender.close()


def test_an_exporter_that_was_not_started_can_be_closed() -> None:
    """It sends nothing."""
    sender = FakeSender()
    exporter = MetricsExporter(MetricsRegistry().snapshot, sender, RESOURCE, interval_seconds=NEVER)
    assert exporter.close(0.0)
    assert sender.sent == 0


def test_rule_2_nothing_ends_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    """Numbers that cannot be taken and a sender with a defect cost one request each."""
    registry = MetricsRegistry()
    troubles = [KeyError("sekret")]

    def take_snapshot() -> Snapshot:
        if troubles:
            raise troubles.pop()
        return registry.snapshot()

    caplog.set_level("INFO")
    sender = FakeSender(RuntimeError("sekret"))
    exporter = MetricsExporter(take_snapshot, sender, RESOURCE, interval_seconds=SOON)
    exporter.start()
    sender.wait_for(3)
    assert exporter.close(10.0)
    warning, recovery = (record.getMessage() for record in caplog.records)
    assert warning.startswith("fake://backend takes no metrics (KeyError in take_snapshot, ")
    assert recovery == "fake://backend takes metrics again"
    assert "sekret" not in caplog.text


def test_rule_3_failures_are_one_line_in_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """With the backend's words; a backend that flaps is no reason for more."""
    fails = Answer(verdict=Verdict.RETRY, words="HTTP 503: busy")
    takes = Answer(verdict=Verdict.DELIVERED)
    sender = FakeSender(fails, fails, takes, fails, takes)
    exporter = MetricsExporter(MetricsRegistry().snapshot, sender, RESOURCE, interval_seconds=SOON)
    caplog.set_level("INFO")
    exporter.start()
    sender.wait_for(5)
    assert exporter.close(10.0)
    assert [record.getMessage() for record in caplog.records] == [
        "fake://backend takes no metrics (HTTP 503: busy)",
        "fake://backend takes metrics again",
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
    with HttpSink() as sink:
        sink.script.append(answer)
        sender = open_sender(f"{sink.url}/v1/metrics", HEADERS="authorization=Bearer%20sekret-1")
        exporter = MetricsExporter(
            MetricsRegistry().snapshot, sender, RESOURCE, interval_seconds=NEVER
        )
        exporter.start()
        assert exporter.close(10.0)
        sender.close()
    assert [record.getMessage() for record in caplog.records] == [
        f"{sink.url} takes no metrics ({words})"
    ]


def test_rule_3_a_backend_that_is_away_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody listens there; the endpoint's credentials stay out of the line."""
    sender = open_sender("http://user:sekret@127.0.0.1:9/v1/metrics")
    exporter = MetricsExporter(MetricsRegistry().snapshot, sender, RESOURCE, interval_seconds=NEVER)
    exporter.start()
    assert exporter.close(10.0)
    sender.close()
    (record,) = caplog.records
    assert record.getMessage() == (
        "http://127.0.0.1:9 takes no metrics (no connection: Connection refused)"
    )


def test_metrics_over_grpc() -> None:
    """The service of metrics is called, with headers as metadata."""
    registry = MetricsRegistry()
    registry.add(REQUESTS, 3)
    with GrpcSink() as sink:
        sender = open_sender(f"http://{sink.address}", PROTOCOL="grpc", HEADERS="x-key=1")
        exporter = MetricsExporter(registry.snapshot, sender, RESOURCE, interval_seconds=NEVER)
        exporter.start()
        assert exporter.close(10.0)
        sender.close()
    [request] = sink.requests
    assert request.counted(REQUESTS.name) == 3
    assert request.path == "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
    assert request.headers["x-key"] == "1"


def test_grpc_is_imported_on_demand() -> None:
    """Who sends over HTTP does not pay for it."""
    code = (
        "import sys, telemetry.export.metrics_exporter as e, telemetry.export.metrics_settings as"
        " s; e.open_metrics_sender(s.read_metrics_settings("
        "{'OTEL_EXPORTER_OTLP_METRICS_ENDPOINT': 'http://h'}).otlp); print('grpc' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
