"""The exporter in its thread, against backends with sockets."""

from __future__ import annotations

import threading
import time

import pytest

from telemetry.export.exporter import Exporter
from telemetry.store.rows import SpanState
from telemetry.store.store import Store
from tests.otlp_sink import GrpcSink, HttpSink, SinkAnswer
from tests.telemetry.exporting import ScriptedSender, ids, in_state, lines, running
from tests.telemetry.span_rows import make_row, make_rows, span_id


def test_outage_loses_and_doubles_nothing(store: Store) -> None:
    """R8: spans recorded while the backend was away arrive once it is back, in order, once each."""
    with HttpSink() as sink:
        port = sink.port
    with running(store, f"http://127.0.0.1:{port}") as exporter:
        for number in range(0, 300, 10):
            store.add(make_rows(range(number, number + 10)))
            exporter.wake()
            time.sleep(0.005)
        assert store.counts().pending == 300
        with HttpSink(port=port) as sink:
            assert sink.wait_for_spans(300) == ids(range(300))
            assert exporter.flush(5.0) == 0
            assert len(sink.accepted) == 300
    assert len(in_state(store, SpanState.DELIVERED)) == 300


@pytest.mark.parametrize(
    "trouble",
    [
        SinkAnswer(status=503),
        SinkAnswer(status=429, headers=(("Retry-After", "0"),)),
        SinkAnswer(status=401, words="who are you"),
        SinkAnswer(breaks="before"),
        SinkAnswer(breaks="within"),
    ],
)
def test_flapping_backend(store: Store, trouble: SinkAnswer) -> None:
    """R8: a backend that fails every other request gets every span, in order."""
    with HttpSink() as sink:
        sink.script.extend([trouble, SinkAnswer()] * 5)
        with running(store, sink.url) as exporter:
            for number in range(5):
                store.add(make_rows([number]))
                exporter.wake()
                sink.wait_for_spans(number + 1)
        assert sink.accepted == ids(range(5))
        assert len(sink.requests) == 10


def test_restart_goes_on_where_it_ended(store: Store) -> None:
    """R8: what one exporter could not send is sent by the next one, from the same file."""
    store.add(make_rows(range(10)))
    with HttpSink() as sink:
        sink.rule = lambda _: SinkAnswer(status=503)
        with running(store, sink.url) as exporter:
            assert exporter.flush(0.1) == 10
    store.close()
    with Store.open(store.path) as successor, HttpSink() as sink, running(successor, sink.url):
        assert sink.wait_for_spans(10) == ids(range(10))


def test_wake_sends_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle exporter that is woken sends long before it would have looked by itself."""
    monkeypatch.setattr("telemetry.export.exporter._IDLE_SECONDS", 60.0)
    with HttpSink() as sink, running(store, sink.url) as exporter:
        assert exporter.flush(5.0) == 0
        store.add([make_row(1)])
        exporter.wake()
        assert sink.wait_for_spans(1, timeout_seconds=2.0) == [span_id(1)]


def test_idle_exporter_looks_by_itself(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A span that nobody announced is found."""
    monkeypatch.setattr("telemetry.export.exporter._IDLE_SECONDS", 0.02)
    with HttpSink() as sink, running(store, sink.url) as exporter:
        exporter.flush(5.0)
        store.add([make_row(1)])
        sink.wait_for_spans(1)


def test_flush_ends_a_wait(store: Store) -> None:
    """A flush tries at once, even where the backend asked for minutes."""
    store.add([make_row(1)])
    with HttpSink() as sink:
        sink.script.append(SinkAnswer(status=503, headers=(("Retry-After", "300"),)))
        with running(store, sink.url) as exporter:
            sink.wait_for_requests(1)
            exporter.wake()
            time.sleep(0.05)
            assert len(sink.requests) == 1
            assert exporter.flush(5.0) == 0
        assert sink.accepted == [span_id(1)]


def test_flush_meets_its_deadline(store: Store) -> None:
    """With a dead backend a flush ends at its deadline and tells what is left."""
    store.add(make_rows(range(3)))
    with HttpSink() as sink:
        url = sink.url
    with running(store, url) as exporter:
        began = time.monotonic()
        assert exporter.flush(0.2) == 3
        assert 0.2 <= time.monotonic() - began < 2.0


def test_flush_without_a_thread(store: Store) -> None:
    """Where nothing was started a flush only counts."""
    store.add([make_row(1)])
    exporter = Exporter(store, ScriptedSender())
    assert exporter.flush(60.0) == 1
    exporter.stop()


def test_stop_does_not_wait_for_a_slow_backend(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """A stop waits for a request under way as long as it is told; the span stays pending."""
    store.add([make_row(1)])
    with HttpSink() as sink:
        sink.script.append(SinkAnswer(delay_seconds=2.0))
        with running(store, sink.url) as exporter:
            sink.wait_for_requests(1)
            began = time.monotonic()
            exporter.stop(0.05)
            assert time.monotonic() - began < 1.5
            assert store.counts().pending == 1
            store.close()
    # The thread has had its answer by now, and nowhere to write it.
    assert lines(caplog) == []


def test_stopped_thread_is_gone(store: Store) -> None:
    """After a stop nothing is sent any more."""
    with HttpSink() as sink, running(store, sink.url) as exporter:
        exporter.flush(5.0)
        exporter.stop()
        exporter.stop()
        assert "spantap-exporter" not in {thread.name for thread in threading.enumerate()}


def test_grpc(store: Store) -> None:
    """The same over gRPC: an outage, a refusal, and a delivery in order."""
    store.add(make_rows(range(10)))
    with GrpcSink() as sink:
        sink.script.append(SinkAnswer(grpc_code="UNAVAILABLE"))
        sink.rule = lambda span_ids: SinkAnswer(
            grpc_code="INVALID_ARGUMENT" if span_id(4) in span_ids else "OK"
        )
        with running(store, f"http://{sink.address}", "grpc") as exporter:
            assert exporter.flush(10.0) == 0
        assert sink.accepted == ids([0, 1, 2, 3, 5, 6, 7, 8, 9])
    assert in_state(store, SpanState.REJECTED) == {span_id(4)}
