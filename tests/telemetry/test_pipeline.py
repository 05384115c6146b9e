"""``telemetry.pipeline``: the observing half put together, against real parts."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from typing import TYPE_CHECKING, Any

import pytest

from codec._version import __version__
from telemetry.conversations.continuation import CONTINUING_RULES
from telemetry.conversations.run import ENDINGS
from telemetry.errors import ConfigurationError, StoreError, StoreLocked
from telemetry.in_process import InProcessPipeline
from telemetry.metrics.prometheus import render
from telemetry.pipeline import build_resource
from telemetry.spans.otlp.decoding import decode_spans
from telemetry.store.rows import Retention
from tests.otlp_sink import HttpSink, SinkAnswer
from tests.telemetry import tap_frames
from tests.telemetry.tap_frames import WHOLE_STREAM, exchange_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

RETENTION = Retention()


@pytest.fixture(autouse=True)
def _sdk_logger(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The SDK's logger as it was before, and no variable of whoever runs the tests."""
    for name in ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(name, raising=False)
    sdk = logging.getLogger("opentelemetry")
    before = sdk.propagate, sdk.handlers
    yield
    sdk.propagate, sdk.handlers = before


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spans.db"


def open_pipeline(path: Path, **environ: str) -> InProcessPipeline:
    """A pipeline by an environment of its own."""
    return InProcessPipeline.open(path, retention=RETENTION, environ=environ)


def emit(pipeline: InProcessPipeline, *numbers: int) -> None:
    """Whole exchanges with these numbers."""
    for number in numbers:
        for frame in exchange_frames(*WHOLE_STREAM, number=number):
            pipeline.emit(frame)


def test_with_an_endpoint_every_exchange_reaches_the_backend(path: Path) -> None:
    """Over real OTLP, each span once, and the store knows that it was delivered."""
    with HttpSink() as sink:
        pipeline = open_pipeline(path, OTEL_EXPORTER_OTLP_ENDPOINT=sink.url)
        assert pipeline.pipeline.backend is not None
        assert str(sink.port) in pipeline.pipeline.backend
        pipeline.start()
        emit(pipeline, *range(1, 21))
        accepted = sink.wait_for_spans(20)
        (first, *_) = decode_spans(sink.requests[0].body)
        pipeline.close(10)
    assert sorted(accepted) == [tap_frames.identity(number).span_id for number in range(1, 21)]
    assert first.attributes["llm.token_count.total"] == 5
    assert first.resource["service.name"]
    with pytest.raises(StoreError, match="closed"):
        pipeline.pipeline.store.counts()


def test_a_span_is_sent_soon_after_its_exchange(path: Path) -> None:
    """An idle exporter is woken; by itself it would look five seconds later."""
    with HttpSink() as sink:
        pipeline = open_pipeline(path, OTEL_EXPORTER_OTLP_ENDPOINT=sink.url)
        pipeline.start()
        time.sleep(0.3)
        emit(pipeline, 1)
        start = time.perf_counter()
        sink.wait_for_spans(1, timeout_seconds=4)
        print(f"sent after {(time.perf_counter() - start) * 1000:.0f} ms")
        pipeline.close(10)


def test_what_was_emitted_just_before_the_close_is_sent_too(path: Path) -> None:
    """Closing commits, and flushes as far as time allows."""
    with HttpSink() as sink:
        pipeline = open_pipeline(path, OTEL_EXPORTER_OTLP_ENDPOINT=sink.url)
        pipeline.start()
        emit(pipeline, 1)
        assert pipeline.close(10) == 0
        assert sink.accepted == [tap_frames.identity(1).span_id]


def test_what_the_backend_did_not_take_stays_and_is_sent_by_the_next_process(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """R8: it is pending in the store, and the end of the process says so."""
    with HttpSink() as sink:
        sink.rule = lambda _: SinkAnswer(status=503)
        pipeline = open_pipeline(path, OTEL_EXPORTER_OTLP_ENDPOINT=sink.url)
        pipeline.start()
        emit(pipeline, 1, 2)
        sink.wait_for_requests(1)
        assert pipeline.close(0.1) == 0  # spans in the store are not lost
        assert "2 spans are still to be sent; they stay in the store" in caplog.text
        sink.rule = lambda _: SinkAnswer()
        pipeline = open_pipeline(path, OTEL_EXPORTER_OTLP_ENDPOINT=sink.url)
        pipeline.start()
        assert len(sink.wait_for_spans(2)) == 2
        pipeline.close(10)


def test_without_an_endpoint_spans_are_kept(path: Path) -> None:
    """The store is the backend."""
    pipeline = open_pipeline(path)
    assert pipeline.pipeline.backend is None
    pipeline.start()
    emit(pipeline, 1, 2)
    assert pipeline.finish(10)
    assert pipeline.pipeline.store.counts().kept == 2
    pipeline.close(0)


def numbers(pipeline: InProcessPipeline) -> dict[str, float]:
    """The samples of counters and gauges, by Prometheus' names and labels."""
    lines = render(pipeline.pipeline.metrics.snapshot()).splitlines()
    samples = (line.rpartition(" ") for line in lines if line.startswith("spantap_"))
    return {name: float(value) for name, _, value in samples}


def test_metrics_tell_of_every_stage(path: Path) -> None:
    """All names are there from the start, and count."""
    pipeline = open_pipeline(path)
    names = numbers(pipeline).keys()
    pipeline.start()
    emit(pipeline, 1, 2, 3)
    assert pipeline.finish(10)
    metrics = numbers(pipeline)
    assert metrics.keys() == names
    size = metrics.pop("spantap_store_size_bytes")
    assert size >= path.stat().st_size > 0
    assert metrics == {
        "spantap_client_disconnects_total": 0,
        "spantap_usage_resends_total": 0,
        "spantap_connections_refused_total": 0,
        "spantap_connections_stalled_total": 0,
        "spantap_requests_total": 0,
        "spantap_requests_refused_total": 0,
        "spantap_upstream_failures_total": 0,
        "spantap_spans_recorded_total": 3,
        "spantap_spans_exported_total": 0,
        "spantap_spans_rejected_total": 0,
        "spantap_spans_failed_total": 0,
        "spantap_spans_cut_total": 0,
        **{f'spantap_conversation_links_total{{rule="{rule}"}}': 0 for rule in CONTINUING_RULES},
        "spantap_conversation_ambiguous_total": 0,
        "spantap_conversation_remembered": 3,
        "spantap_conversation_runs_open": 0,
        **{f'spantap_conversation_runs_ended_total{{reason="{one}"}}': 0 for one in ENDINGS},
        "spantap_bodies_held_bytes": 0,
        "spantap_spans_waiting": 0,
        'spantap_spans_dropped_total{reason="store_unavailable"}': 0,
        'spantap_spans_dropped_total{reason="tap_shed"}': 0,
        'spantap_spans_dropped_total{reason="observer_failed"}': 0,
        'spantap_spans_dropped_total{reason="store_full"}': 0,
        'spantap_spans_dropped_total{reason="store_damaged"}': 0,
        "spantap_export_failures_total": 0,
        'spantap_store_spans{state="pending"}': 0,
        'spantap_store_spans{state="delivered"}': 0,
        'spantap_store_spans{state="rejected"}': 0,
        'spantap_store_spans{state="kept"}': 3,
        "spantap_store_oldest_pending_age_seconds": 0,
        "spantap_tap_queue_bytes": 0,
        "spantap_tap_shed_bytes_total": 0,
    }
    text = render(pipeline.pipeline.metrics.snapshot())
    assert "gen_ai_client_operation_duration_seconds_count" in text
    pipeline.pipeline.store.close()
    left = numbers(pipeline)
    assert left["spantap_spans_recorded_total"] == 3  # the store's own are left out
    assert 'spantap_store_spans{state="kept"}' not in left
    pipeline.close(0)


def test_metrics_tell_what_a_backend_took_and_what_waits(path: Path) -> None:
    """Exported, refused tries, and the age of the oldest span."""
    with HttpSink() as sink:
        pipeline = open_pipeline(path, OTEL_EXPORTER_OTLP_ENDPOINT=sink.url)
        pipeline.start()
        emit(pipeline, 1, 2)
        assert len(sink.wait_for_spans(2)) == 2
        wait_for(lambda: numbers(pipeline)["spantap_spans_exported_total"] == 2)
        sink.rule = lambda _: SinkAnswer(status=503)
        emit(pipeline, 3)
        wait_for(lambda: numbers(pipeline)["spantap_export_failures_total"] > 0)
        wait_for(lambda: numbers(pipeline)["spantap_store_oldest_pending_age_seconds"] > 0)
        pipeline.close(0)


def test_metrics_are_sent_where_a_variable_says_so(path: Path) -> None:
    """By OTLP, the last numbers when the process ends; a backend of spans alone gets none."""
    with HttpSink() as spans, HttpSink() as metrics:
        pipeline = open_pipeline(
            path,
            OTEL_EXPORTER_OTLP_ENDPOINT=spans.url,
            OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=f"{metrics.url}/v1/metrics",
        )
        pipeline.start()
        emit(pipeline, 1)
        assert len(spans.wait_for_spans(1)) == 1
        pipeline.close(10)
        names = metrics.requests[-1].metrics.keys()
    assert {"gen_ai.client.operation.duration", "spantap.spans.exported"} <= names
    assert all(request.path == "/v1/traces" for request in spans.requests)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "many"}, "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"),
        ({"OTEL_TRACES_SAMPLER": "sometimes"}, "OTEL_TRACES_SAMPLER is 'sometimes'"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL": "smoke"},
            "smoke",
        ),
    ],
)
def test_a_variable_that_cannot_be_followed_is_named(
    environ: dict[str, str], words: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And leaves no store behind."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=words):
        open_pipeline(path, **environ)
    assert not path.exists()


@pytest.mark.parametrize("endpoint", [None, "http://127.0.0.1:9"])
def test_a_store_that_another_owns_is_refused(
    endpoint: str | None, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one goes on undisturbed, and a sender that was made is closed."""
    closed = []
    monkeypatch.setattr(
        "telemetry.export.http_sender.HttpSender.close",
        lambda sender: closed.append(sender.backend),
    )
    environ = {} if endpoint is None else {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    pipeline = open_pipeline(path)
    with pytest.raises(StoreLocked):
        open_pipeline(path, **environ)
    assert closed == ([] if endpoint is None else [endpoint])
    pipeline.start()
    pipeline.close(0)


def test_a_queue_that_cannot_be_consumed_in_time_is_told(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The end of the process does not wait for ever, and does not pretend."""
    pipeline = open_pipeline(path)
    pipeline.start()
    monkeypatch.setattr(pipeline, "finish", lambda _: False)
    pipeline.close(0)
    assert "observed exchanges were lost" in caplog.text
    monkeypatch.undo()
    assert pipeline.finish(10)


def test_spans_that_the_store_did_not_take_by_the_end_are_told(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """R5: they are counted while they wait, and as lost when the process ends without them."""
    pipeline = open_pipeline(path)
    with pipeline.pipeline.store._file.use() as connection:
        connection.execute("PRAGMA busy_timeout = 0")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # nobody else can write
        pipeline.start()
        emit(pipeline, 1, 2)
        wait_for(lambda: numbers(pipeline)["spantap_spans_waiting"] == 2)
        assert pipeline.close(0) == 2
    last = caplog.records[-1]
    assert last.levelname == "ERROR"
    assert last.getMessage() == "2 spans are lost: the store did not accept them (0 before)"


def test_a_store_that_fails_at_the_end_does_not_keep_the_rest_from_closing(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is one line in the log."""

    def fail(*_: object) -> Any:
        raise StoreError("the disk is gone")

    with HttpSink() as sink:
        pipeline = open_pipeline(path, OTEL_EXPORTER_OTLP_ENDPOINT=sink.url)
        pipeline.start()
        monkeypatch.setattr(pipeline.pipeline.store, "counts", fail)
        pipeline.close(5)
    assert "the disk is gone" in caplog.text
    monkeypatch.undo()
    with pytest.raises(StoreError, match="closed"):
        pipeline.pipeline.store.counts()


def test_the_sdks_loggers_are_quieted(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Opening does it, before anything of a client can be logged (R7)."""
    pipeline = open_pipeline(path)
    logging.getLogger("opentelemetry.trace.span").warning("Invalid %s", "c4n4ry")
    assert "Invalid ..." in caplog.text
    assert "c4n4ry" not in caplog.text
    pipeline.start()
    pipeline.close(0)


def test_the_resource_is_spantap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without environment the service is spantap, and no project is named."""
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    attributes = build_resource().attributes
    assert attributes["service.name"] == "spantap"
    assert attributes["service.version"] == __version__
    assert attributes["telemetry.sdk.name"] == "opentelemetry"
    assert "openinference.project.name" not in attributes


def test_the_environment_names_the_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard variables win over our name and version, and may name the Phoenix project."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", "gateway")
    monkeypatch.setenv(
        "OTEL_RESOURCE_ATTRIBUTES", "service.version=7,openinference.project.name=my%20project"
    )
    attributes = build_resource().attributes
    assert attributes["service.name"] == "gateway"
    assert attributes["service.version"] == "7"
    assert attributes["openinference.project.name"] == "my project"
