"""One load on one contestant, and what it came to."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tests.bench.speed import counting_cpu
from tests.faults.beside import beside
from tests.load.tool import ClientLoad

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from tests.bench.scene import Scene
    from tests.load.tool import LoadApi

__all__ = ("Figures", "Work", "measure")

_WARMING = 100
"""Requests before a measurement: connections are opened, code is loaded."""

_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A load.

    Attributes:
        seconds: after which no more is sent, though requests are left; 0: never.
        rate: chunks/s of a stream; 0: as fast as they are taken.
        starts_per_second: requests begun, evenly over time; 0: a connection begins its next one as
            soon as it has its answer, so that all begin at once.
        api: that is called.
    """

    name: str
    mode: Literal["json", "stream"]
    connections: int
    requests: int
    seconds: float = 0
    chunks: int = 200
    rate: float = 0
    messages: int = 2
    starts_per_second: float = 0
    api: LoadApi = "chat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one load on one contestant came to.

    Attributes:
        start_seconds: from its command to the first answer.
        answers: whole ones, of this load.
        chunk_delay_p50_ms: from the write of a chunk at the upstream to its arrival; None where
            chunks come as fast as they are taken: then it tells how far the reader is behind.
        cpu_seconds_per_1000: by process, the backlog after the load included; of a nominal core.
        memory_bytes: resident, all its processes, at the end of the load.
        backlog_seconds: from the end of the load until the backend had every span.
        queue_bytes: the most that waited between worker and telemetry.
        exchanges: all that it answered, the warming included.
        spans: different ones that the backend received, of spantap's those with their tokens.
    """

    start_seconds: float
    answers: int
    answers_per_second: float
    chunk_delay_p50_ms: float | None
    chunk_delay_p99_ms: float | None
    ttfb_p50_ms: float
    ttfb_p99_ms: float
    cpu_seconds_per_1000: dict[str, float]
    memory_bytes: int
    backlog_seconds: float
    queue_bytes: int
    exchanges: int
    spans: int
    dropped: int

    @property
    def cpu_seconds(self) -> float:
        """For 1,000 answers, of all processes."""
        return sum(self.cpu_seconds_per_1000.values())


def measure(scene: Scene, work: Work) -> Figures:
    """Warm the contestant up, put the load on it, wait until it has done all, spans included.

    Raises:
        AssertionError: an answer was not whole, or a span is missing: then there are no figures.
    """
    contestant = scene.contestant
    port, warming = contestant.port, min(_WARMING, work.requests)
    mode: Literal["json", "stream"] = "json" if work.api == "chat" else "stream"
    scene.run(ClientLoad(port=port, mode=mode, connections=8, requests=warming, api=work.api))
    scene.settle()
    with counting_cpu(contestant) as used:
        with _watching_queue(scene) as queued:
            result = scene.run(
                ClientLoad(
                    port=port,
                    mode=work.mode,
                    connections=work.connections,
                    requests=work.requests,
                    seconds=work.seconds,
                    messages=work.messages,
                    rate=work.starts_per_second,
                    api=work.api,
                )
            )
        memory_bytes = sum(contestant.rss_bytes().values())
        backlog_seconds = scene.settle()
    delay = result.chunk_delay if work.rate else None
    return Figures(
        start_seconds=contestant.start_seconds,
        answers=result.answered,
        answers_per_second=result.answers_per_second,
        chunk_delay_p50_ms=delay.p50_ns / 1e6 if delay else None,
        chunk_delay_p99_ms=delay.p99_ns / 1e6 if delay else None,
        ttfb_p50_ms=result.ttfb.p50_ns / 1e6,
        ttfb_p99_ms=result.ttfb.p99_ns / 1e6,
        cpu_seconds_per_1000={
            role: seconds * 1000 / result.answered for role, seconds in used.items()
        },
        memory_bytes=memory_bytes,
        backlog_seconds=backlog_seconds,
        queue_bytes=max(queued, default=0),
        exchanges=scene.exchanges,
        spans=_count_spans(scene),
        dropped=scene.read_metric("spantap_spans_dropped_total"),
    )


def _count_spans(scene: Scene) -> int:
    """Spans that the backend has; of ours those that are whole."""
    counts = scene.sink.count_spans()
    return counts.different if scene.contestant.spantap is None else counts.whole


@contextmanager
def _watching_queue(scene: Scene) -> Iterator[list[int]]:
    """What waits between worker and telemetry, looked at now and then."""
    seen: list[int] = []

    def watch(over: threading.Event) -> None:
        while scene.contestant.spantap is not None and not over.wait(_LOOK_SECONDS):
            seen.append(scene.read_metric("spantap_tap_queue_bytes"))

    with beside(watch):
        yield seen
