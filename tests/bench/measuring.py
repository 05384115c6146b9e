"""One load on one contestant, and what it came to."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tests.bench.contestants import pin_to_others
from tests.load.tool import ClientLoad, LoadClient, run_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.contestants import Contestant
    from tests.bench.span_sink import SpanSink
    from tests.load.tool import ClientResult

__all__ = ("Figures", "Work", "measure")

DRAIN_SECONDS = 120.0
"""How long a backlog is waited for; the goal is ten seconds."""

_WARMING = 100
"""Requests before a measurement: connections are opened, code is loaded."""

_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A load.

    Attributes:
        name: for the table.
        mode: whole answers or streams.
        connections: at a time.
        requests: in all.
        chunks: of a stream.
        rate: chunks/s of a stream; 0: as fast as they are taken.
    """

    name: str
    mode: Literal["json", "stream"]
    connections: int
    requests: int
    chunks: int = 200
    rate: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one load on one contestant came to.

    Attributes:
        answers_per_second: whole answers.
        chunk_delay_p50_ms: from the write of a chunk at the upstream to its arrival.
        chunk_delay_p99_ms: likewise.
        ttfb_p50_ms: to the first byte of an answer's body.
        cpu_seconds_per_1000: by process, the backlog after the load included.
        memory_bytes: all its processes, at the end of the load.
        backlog_seconds: from the end of the load until the backend had every span.
        queue_bytes: the most that waited between worker and telemetry.
        dropped: spans.
    """

    answers_per_second: float
    chunk_delay_p50_ms: float
    chunk_delay_p99_ms: float
    ttfb_p50_ms: float
    cpu_seconds_per_1000: dict[str, float] = field(default_factory=dict)
    memory_bytes: int
    backlog_seconds: float
    queue_bytes: int
    dropped: int

    @property
    def cpu_seconds(self) -> float:
        """For 1,000 answers, of all processes."""
        return sum(self.cpu_seconds_per_1000.values())


def measure(contestant: Contestant, work: Work, sink: SpanSink) -> Figures:
    """Warm it up, put the load on it, wait until it has done all, its spans included.

    Raises:
        AssertionError: an answer was not whole, or a span is missing: then there are no figures.
    """
    contestant.pin()
    warming = ClientLoad(port=contestant.port, mode="json", connections=8, requests=_WARMING)
    assert run_client(warming).answered == _WARMING
    _wait_for_spans(contestant, _WARMING)
    contestant.pin()  # threads that came since
    before = contestant.cpu_seconds()
    with _watching_queue(contestant) as queued:
        result = _put_on(contestant, work)
    memory_bytes = contestant.rss_bytes()
    backlog_seconds = _wait_for_spans(contestant, _WARMING + work.requests)
    after = contestant.cpu_seconds()
    dropped = 0
    if contestant.spantap is not None:
        spans, different = sink.count_spans()
        assert spans == different == _WARMING + work.requests, f"{spans} spans, {different} of them"
        dropped = int(contestant.spantap.metrics().get("spantap_spans_dropped_total", 0))
    return Figures(
        answers_per_second=result.answers_per_second,
        chunk_delay_p50_ms=result.chunk_delay.p50_ns / 1e6,
        chunk_delay_p99_ms=result.chunk_delay.p99_ns / 1e6,
        ttfb_p50_ms=result.ttfb.p50_ns / 1e6,
        cpu_seconds_per_1000={
            role: (after[role] - seconds) * 1000 / work.requests for role, seconds in before.items()
        },
        memory_bytes=memory_bytes,
        backlog_seconds=backlog_seconds,
        queue_bytes=max(queued, default=0),
        dropped=dropped,
    )


def _put_on(contestant: Contestant, work: Work) -> ClientResult:
    load = ClientLoad(
        port=contestant.port,
        mode=work.mode,
        connections=work.connections,
        requests=work.requests,
    )
    with LoadClient(load) as client:
        pin_to_others(client.pid)
        result = client.wait()
    assert result.answered == work.requests, f"{result.answered} of {work.requests} answers"
    return result


@contextmanager
def _watching_queue(contestant: Contestant) -> Iterator[list[int]]:
    """What waits between worker and telemetry, looked at now and then."""
    seen: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while contestant.spantap is not None and not over.wait(_LOOK_SECONDS):
            seen.append(int(contestant.spantap.metrics()["spantap_tap_queue_bytes"]))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def _wait_for_spans(contestant: Contestant, count: int) -> float:
    """Wait until so many were exported; how long that took."""
    begun = time.monotonic()
    while contestant.spantap is not None:
        if contestant.spantap.metrics().get("spantap_spans_exported_total", 0) >= count:
            break
        waited = time.monotonic() - begun
        assert waited < DRAIN_SECONDS, f"the backlog is not gone after {waited:.0f} s"
        time.sleep(0.1)
    return time.monotonic() - begun
