"""A service whose store and recorder fail as told, and content that must not be logged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.resources import Resource

from telemetry.conversation_position import KeptCalls
from telemetry.service import TelemetryService
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.store.rows import PruneResult
from tests.telemetry import tap_frames
from tests.telemetry.tap_frames import ANSWER, exchange_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import pytest
    from opentelemetry.sdk.trace import ReadableSpan

    from telemetry.frames.frame import Frame
    from telemetry.observing.exchange import Exchange
    from telemetry.store.rows import SpanRow

CANARY = "c4n4ry"
CANARY_ASKED = b'{"model":"m-1","messages":[{"role":"user","content":"c4n4ry"}]}'
CANARY_ANSWER = ANSWER.replace(b"Hello", b"c4n4ry")


class FailingStore:
    """A store that fails as a test says; what it takes, it keeps."""

    def __init__(self) -> None:
        self.rows: list[SpanRow] = []
        self.error: Exception | None = None
        self.poison: str | None = None
        self.pruned_ns: list[int] = []
        self.steps_to_prune = 0

    def last_conversation(self) -> int:
        return 0

    def last_seq(self) -> int:
        return len(self.rows)

    def pop_deleted_runs(self) -> Collection[int]:
        return ()

    def read_kept_calls(self, **_: int) -> KeptCalls:
        return KeptCalls(key=b"k" * 32)

    def add(self, rows: Sequence[SpanRow], _: Mapping[int, bytes | None]) -> int:
        if self.error is not None:
            raise self.error
        if any(row.span_id == self.poison for row in rows):
            raise OverflowError(CANARY)
        self.rows += rows
        return len(rows)

    def prune(self, now_ns: int) -> PruneResult:
        if self.error is not None:
            raise self.error
        self.pruned_ns.append(now_ns)
        self.steps_to_prune = max(0, self.steps_to_prune - 1)
        return PruneResult(more=self.steps_to_prune > 0)


class Bench:
    """A service with a turnable clock."""

    def __init__(self, store: Any) -> None:
        self.now_ns = tap_frames.START_NS
        self.store = store
        self.stored = 0
        self.recorder = SpanRecorder(Resource.get_empty(), build_span_limits())
        self.service = TelemetryService(
            self.recorder, store, now_ns=lambda: self.now_ns, on_stored=self._on_stored
        )

    def _on_stored(self) -> None:
        self.stored += 1

    def feed(self, *frames: Frame) -> None:
        for frame in frames:
            self.service.feed(frame)

    def feed_exchanges(self, *numbers: int) -> None:
        for number in numbers:
            self.feed(*exchange_frames(CANARY_ANSWER, number=number, asked=CANARY_ASKED))

    def later(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)

    @property
    def counts(self) -> tuple[int, int, int]:
        counts = self.service.counts
        return counts.recorded, counts.failed, counts.dropped


def fail_where(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    is_bad: Callable[[Exchange], bool],
    error: Exception,
) -> None:
    """Make the recorder fail with some exchanges, and record the others."""
    record = bench.recorder.record

    def fail(exchange: Exchange) -> ReadableSpan | None:
        if is_bad(exchange):
            raise error
        return record(exchange)

    monkeypatch.setattr(bench.recorder, "record", fail)
