"""``telemetry.in_process``: emitting never waits, and the queue is bounded."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.resources import Resource

from telemetry.frames.ending import EndKind
from telemetry.frames.frame import Begin, End, Frame, RequestBody, ResponseData, ResponseHead
from telemetry.frames.shedding import Shedding
from telemetry.in_process import InProcessPipeline
from telemetry.metrics.registry import MetricsRegistry
from telemetry.observing.exchange import Outcome
from telemetry.observing.observer import Observer
from telemetry.service import TelemetryService
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.store.store import Store
from tests.telemetry import tap_frames
from tests.telemetry.tap_frames import ANSWER, ASKED, HEL, WHOLE_STREAM, exchange_frames

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class StuckService:
    """A service that stands still until it is released; keeps what it is fed."""

    def __init__(self) -> None:
        self.moves = threading.Event()
        self.reached = threading.Event()
        self.frames: list[Frame] = []
        self.commits = 0

    def feed(self, frame: Frame) -> None:
        self.reached.set()
        self.moves.wait(30)
        self.frames.append(frame)

    def commit(self) -> None:
        self.commits += 1

    def kinds(self, number: int) -> list[type[Frame]]:
        return [type(frame) for frame in self.frames if frame.exchange == number]


@pytest.fixture
def service() -> Iterator[StuckService]:
    service = StuckService()
    yield service
    service.moves.set()


def make(service: Any, **limits: int) -> InProcessPipeline:
    """A queue in front of a service."""
    pipeline: Any = SimpleNamespace(service=service, metrics=MetricsRegistry(), start=lambda: None)
    return InProcessPipeline(pipeline, Shedding(**limits))


def emit(telemetry: InProcessPipeline, *frames: Frame) -> None:
    """Emit them all."""
    for frame in frames:
        telemetry.emit(frame)


def stick(telemetry: InProcessPipeline, service: StuckService) -> None:
    """Start it and wait until the service stands still."""
    telemetry.start()
    telemetry.emit(ResponseData(0, 0, b"x"))
    assert service.reached.wait(5)


def release(telemetry: InProcessPipeline, service: StuckService) -> None:
    """Let the service go on, and wait until all is consumed."""
    service.moves.set()
    assert telemetry.finish(10)


def test_emitting_does_not_wait_for_a_service_that_is_stuck(service: StuckService) -> None:
    """Ten thousand exchanges are emitted while nothing at all is consumed."""
    telemetry = make(service)
    stick(telemetry, service)
    start = time.perf_counter()
    for number in range(1, 10_001):
        emit(telemetry, *exchange_frames(HEL, number=number))
    seconds = time.perf_counter() - start
    print(f"10,000 exchanges emitted in {seconds:.3f} s")
    assert service.frames == []
    release(telemetry, service)
    assert len(service.frames) == 1 + 10_000 * 5
    assert telemetry.queued_bytes == 0


def test_frames_are_consumed_in_their_order(service: StuckService) -> None:
    """The very frames, nothing shed, and a commit after them."""
    service.moves.set()
    telemetry = make(service)
    telemetry.start()
    frames = exchange_frames(*WHOLE_STREAM)
    emit(telemetry, *frames)
    assert telemetry.finish(10)
    assert service.frames == frames
    assert service.commits >= 1
    assert (telemetry.shedding.shed_bytes, telemetry.shedding.shed_exchanges) == (0, 0)


def test_past_the_limit_bodies_are_shed_and_the_end_says_so(
    service: StuckService,
) -> None:
    """``begin``, ``response_head`` and ``end`` pass; the request's frame stays, without data."""
    telemetry = make(service, shed_bytes=100_000)
    stick(telemetry, service)
    telemetry.emit(tap_frames.begin(1))
    telemetry.emit(ResponseData(1, 1, bytes(98_000)))
    emit(telemetry, *exchange_frames(b"x" * 3000, b"y" * 4000, asked=b"a" * 5000, number=2))
    telemetry.emit(ResponseData(1, 2, bytes(9000)))
    telemetry.emit(tap_frames.end(1, shed_bytes=50))
    assert telemetry.shedding.shed_bytes == 5000 + 3000 + 4000 + 9000
    release(telemetry, service)
    assert service.kinds(1) == [Begin, ResponseData, End]
    assert service.kinds(2) == [Begin, RequestBody, ResponseHead, End]
    request = next(frame for frame in service.frames if isinstance(frame, RequestBody))
    assert (request.data, request.size_bytes) == (None, 5000)
    ends = [frame for frame in service.frames if isinstance(frame, End)]
    assert [(end.exchange, end.shed_bytes) for end in ends] == [(2, 7000), (1, 9050)]


def test_past_the_second_limit_exchanges_are_left_out_whole(
    service: StuckService,
) -> None:
    """A queue that nobody empties stops growing; open exchanges still get their end."""
    telemetry = make(service, shed_bytes=20_000, max_bytes=40_000)
    stick(telemetry, service)
    telemetry.emit(tap_frames.begin(1))
    for number in range(2, 1000):
        emit(telemetry, *exchange_frames(ANSWER, number=number))
    assert telemetry.queued_bytes < 44_000
    assert 900 < telemetry.shedding.shed_exchanges < 998
    telemetry.emit(tap_frames.end(1))
    emit(telemetry, *exchange_frames(ANSWER, number=1000)[:-1])
    release(telemetry, service)
    assert service.kinds(1) == [Begin, End]
    assert service.kinds(2)[-1] is End
    assert service.kinds(999) == []
    assert service.kinds(1000) == []
    telemetry.emit(tap_frames.end(1000))
    assert telemetry.shedding._left_out == set()
    assert telemetry.shedding._shed == {}


def test_nothing_of_an_answer_follows_a_gap(
    service: StuckService,
) -> None:
    """Also where there is room again; a request and another exchange are shed each for itself."""
    telemetry = make(service, shed_bytes=10_000)
    frames = exchange_frames(HEL, b"data: " + b"x" * 10_000, *WHOLE_STREAM[2:])
    emit(telemetry, *frames)
    emit(telemetry, *exchange_frames(*WHOLE_STREAM, number=2, asked=b" " * 10_000 + ASKED))
    telemetry.start()
    release(telemetry, service)
    assert service.kinds(1) == [Begin, RequestBody, ResponseHead, ResponseData, End]
    assert len(service.kinds(2)) == 4 + len(WHOLE_STREAM)
    observer = Observer()
    first, second = (
        record for frame in service.frames if (record := observer.feed(frame)) is not None
    )
    assert "observer_limit" in first.anomalies
    assert (first.outcome, second.outcome) == (Outcome.COMPLETED, Outcome.COMPLETED)
    assert second.anomalies == ("observer_limit",)
    assert second.request is None
    assert second.response is not None


def test_close_consumes_everything_and_gives_up_on_a_service_that_is_stuck(
    service: StuckService,
) -> None:
    """False says that time ran out; what was queued is consumed when the service moves again."""
    telemetry = make(service)
    stick(telemetry, service)
    emit(telemetry, *exchange_frames(ANSWER))
    start = time.perf_counter()
    assert telemetry.finish(0.05) is False
    assert time.perf_counter() - start < 5
    service.moves.set()
    assert telemetry.finish(10) is True
    assert service.kinds(1)[-1] is End
    assert service.commits >= 1


def test_an_exchange_is_committed_soon_after_its_end(tmp_path: Path) -> None:
    """R8 asks for 50 ms of a process of its own; the time is printed, the limit is generous."""
    with Store.open(tmp_path / "s.db", delivers=False) as store:
        recorder = SpanRecorder(Resource.get_empty(), build_span_limits())
        telemetry = make(TelemetryService(recorder, store, now_ns=time.time_ns))
        telemetry.start()
        try:
            emit(telemetry, *exchange_frames(*WHOLE_STREAM))
            start = time.perf_counter()
            while store.counts().kept < 1:
                assert time.perf_counter() - start < 5
                time.sleep(0.002)
            print(f"committed after {(time.perf_counter() - start) * 1000:.0f} ms")
        finally:
            assert telemetry.finish(10)


def test_frames_of_many_exchanges_all_become_spans(tmp_path: Path) -> None:
    """Emitted from one thread while the other consumes: each exchange is recorded once (R3)."""
    with Store.open(tmp_path / "s.db") as store:
        recorder = SpanRecorder(Resource.get_empty(), build_span_limits())
        telemetry = make(TelemetryService(recorder, store, now_ns=time.time_ns))
        telemetry.start()
        for number in range(1, 301):
            kind = EndKind.UPSTREAM_EOF if number % 3 else EndKind.CLIENT_GONE
            emit(telemetry, *exchange_frames(*WHOLE_STREAM, number=number, kind=kind))
        assert telemetry.finish(30)
        assert store.counts().pending == 300
