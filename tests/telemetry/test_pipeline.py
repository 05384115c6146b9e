"""``telemetry.pipeline``: the observing half put together, against real parts."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from typing import TYPE_CHECKING, Any

import pytest

from telemetry import pipeline as pipeline_module
from telemetry.errors import ConfigurationError, StoreError, StoreLocked
from telemetry.otlp import decode_spans
from telemetry.pipeline import Pipeline
from telemetry.store_rows import Retention
from tests.otlp_sink import HttpSink, SinkAnswer
from tests.telemetry import tap_frames
from tests.telemetry.tap_frames import WHOLE_STREAM, exchange_frames

if TYPE_CHECKING:
    from collections.abc import Iterator
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


def open_pipeline(path: Path, **environ: str) -> Pipeline:
    """A pipeline by an environment of its own."""
    return Pipeline.open(path, retention=RETENTION, environ=environ)


def emit(pipeline: Pipeline, *numbers: int) -> None:
    """Whole exchanges with these numbers."""
    for number in numbers:
        for frame in exchange_frames(*WHOLE_STREAM, number=number):
            pipeline.emit(frame)


def test_with_an_endpoint_every_exchange_reaches_the_backend(path: Path) -> None:
    """Over real OTLP, each span once, and the store knows that it was delivered."""
    with HttpSink() as sink:
        pipeline = open_pipeline(path, OTEL_EXPORTER_OTLP_ENDPOINT=sink.url)
        assert pipeline.backend is not None
        assert str(sink.port) in pipeline.backend
        pipeline.start()
        emit(pipeline, *range(1, 21))
        accepted = sink.wait_for_spans(20)
        (first, *_) = decode_spans(sink.requests[0].body)
        pipeline.close(10)
    assert sorted(accepted) == [tap_frames.identity(number).span_id for number in range(1, 21)]
    assert first.attributes["llm.token_count.total"] == 5
    assert first.resource["service.name"]
    with pytest.raises(StoreError, match="closed"):
        pipeline.store.counts()


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
    assert pipeline.backend is None
    pipeline.start()
    emit(pipeline, 1, 2)
    assert pipeline._telemetry.close(10)
    assert pipeline.store.counts().kept == 2
    pipeline.close(0)


def test_metrics_tell_of_every_stage(path: Path) -> None:
    """All names are there from the start, and count."""
    pipeline = open_pipeline(path)
    names = pipeline.metrics().keys()
    pipeline.start()
    emit(pipeline, 1, 2, 3)
    assert pipeline._telemetry.close(10)
    metrics = pipeline.metrics()
    assert metrics.keys() == names
    assert metrics == {
        "spans_recorded_total": 3,
        "spans_failed_total": 0,
        "spans_dropped_total": 0,
        "spans_waiting": 0,
        "tap_queue_bytes": 0,
        "tap_shed_bytes_total": 0,
        "tap_shed_exchanges_total": 0,
        "store_spans_pending": 0,
        "store_spans_delivered": 0,
        "store_spans_rejected": 0,
        "store_spans_kept": 3,
        "store_spans_lost_total": 0,
    }
    pipeline.store.close()
    assert pipeline.metrics()["spans_recorded_total"] == 3  # the store's own are left out
    assert "store_spans_kept" not in pipeline.metrics()
    pipeline.close(0)


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
        "telemetry.http_sender.HttpSender.close", lambda sender: closed.append(sender.backend)
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
    monkeypatch.setattr(pipeline._telemetry, "close", lambda _: False)
    pipeline.close(0)
    assert "observed exchanges were lost" in caplog.text
    monkeypatch.undo()
    assert pipeline._telemetry.close(10)


def test_spans_that_the_store_did_not_take_by_the_end_are_told(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """R5: they are counted while they wait, and as lost when the process ends without them."""
    pipeline = open_pipeline(path)
    assert pipeline.store._connection is not None
    pipeline.store._connection.execute("PRAGMA busy_timeout = 0")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # nobody else can write
        pipeline.start()
        emit(pipeline, 1, 2)
        deadline = time.monotonic() + 10
        while pipeline.metrics()["spans_waiting"] < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert pipeline.close(0) == 2
    last = caplog.records[-1]
    assert last.levelname == "ERROR"
    assert last.getMessage() == "2 spans are lost: the store did not take them (0 before)"


def test_a_store_that_fails_at_the_end_does_not_keep_the_rest_from_closing(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is one line in the log."""

    def fail(*_: object) -> Any:
        raise StoreError("the disk is gone")

    with HttpSink() as sink:
        pipeline = open_pipeline(path, OTEL_EXPORTER_OTLP_ENDPOINT=sink.url)
        pipeline.start()
        monkeypatch.setattr(pipeline.store, "counts", fail)
        pipeline.close(5)
    assert "the disk is gone" in caplog.text
    monkeypatch.undo()
    with pytest.raises(StoreError, match="closed"):
        pipeline.store.counts()


def test_the_sdks_loggers_are_quieted(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Opening does it, before anything of a client can be logged (R7)."""
    pipeline = open_pipeline(path)
    logging.getLogger("opentelemetry.trace.span").warning("Invalid %s", "c4n4ry")
    assert "Invalid ..." in caplog.text
    assert "c4n4ry" not in caplog.text
    pipeline.start()
    pipeline.close(0)


def test_closing_waits_for_the_queue_no_longer_than_it_says() -> None:
    """Long enough for a full queue, short enough for an orchestrator's patience."""
    assert 1 <= pipeline_module.CLOSE_SECONDS <= 10
