"""From frames to stored spans: the observing half as one object, without threads or sockets.

Rules:

1. Nothing that comes in a frame, and no failure of the store, raises out of here (R2).
2. Spans are committed in batches: whoever feeds calls :meth:`TelemetryService.commit` often
   enough to keep R8's 250 ms.
3. Spans that the store does not take wait in memory, up to :data:`MAX_WAITING_BYTES`; past it the
   oldest are dropped and counted (R5).
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opentelemetry.trace import StatusCode

from telemetry.errors import StoreError
from telemetry.observer import Observer
from telemetry.otlp import encode_span
from telemetry.store_rows import SpanRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.trace import ReadableSpan

    from telemetry.exchange import Exchange
    from telemetry.frames import Frame
    from telemetry.recorder import SpanRecorder
    from telemetry.store import Store
    from telemetry.store_rows import SpanStatus

__all__ = ("ServiceCounts", "TelemetryService")

_log = logging.getLogger("spantap.telemetry")

MAX_WAITING_BYTES = 64 * 1024 * 1024
"""Spans in memory while the store is unavailable: a few thousand long chats."""

PRUNE_SECONDS = 60.0
"""Between two looks at the store's size and age limits."""


@dataclass(slots=True)
class ServiceCounts:
    """What happened so far.

    Attributes:
        recorded: spans committed to the store.
        failed: exchanges that no span could be made of.
        dropped: spans given up because the store did not take them in time.
    """

    recorded: int = 0
    failed: int = 0
    dropped: int = 0


class TelemetryService:
    """Feed it frames, commit now and then. Not safe for concurrent calls.

    Args:
        recorder: makes the spans.
        store: takes them.
        now_ns: nanoseconds since the epoch.
        on_stored: called after a commit that added spans.
    """

    def __init__(
        self,
        recorder: SpanRecorder,
        store: Store,
        *,
        now_ns: Callable[[], int],
        on_stored: Callable[[], None] = lambda: None,
    ) -> None:
        self._observer = Observer()
        self._recorder = recorder
        self._store = store
        self._now_ns = now_ns
        self._on_stored = on_stored
        self._waiting: deque[SpanRow] = deque()
        self._waiting_bytes = 0
        self._store_fails = False
        self._prune_at_ns = 0
        self.counts = ServiceCounts()

    def feed(self, frame: Frame) -> None:
        """Take one frame; where it ends an exchange, its span waits for the next commit."""
        try:
            exchange = self._observer.feed(frame)
            if exchange is None:
                return
            span = self._recorder.record(exchange)
            if span is not None:
                self._wait(_row(exchange, span, self._now_ns()))
        except Exception as error:  # noqa: BLE001 - rule 1; content must not reach the log
            self.counts.failed += 1
            _log.error(
                "no span could be made of an exchange: %s at %s",
                type(error).__name__,
                _place(error),
            )

    def _wait(self, row: SpanRow) -> None:
        self._waiting.append(row)
        self._waiting_bytes += len(row.span)
        while self._waiting_bytes > MAX_WAITING_BYTES and len(self._waiting) > 1:
            self._waiting_bytes -= len(self._waiting.popleft().span)
            self.counts.dropped += 1

    def commit(self) -> None:
        """Put what waits into the store, and see to the store's limits now and then."""
        try:
            if self._waiting:
                self.counts.recorded += self._store.add(list(self._waiting))
                self._waiting.clear()
                self._waiting_bytes = 0
                self._on_stored()
            self._prune()
        except StoreError as error:
            if not self._store_fails:
                _log.error("spans wait in memory: %s", error)
            self._store_fails = True
        else:
            if self._store_fails:
                _log.warning("the store takes spans again; %d were dropped", self.counts.dropped)
            self._store_fails = False

    def _prune(self) -> None:
        now_ns = self._now_ns()
        if now_ns >= self._prune_at_ns:
            self._prune_at_ns = now_ns + int(PRUNE_SECONDS * 1_000_000_000)
            self._store.prune(now_ns)


def _row(exchange: Exchange, span: ReadableSpan, now_ns: int) -> SpanRow:
    request, response = exchange.request, exchange.response
    usage = response.usage if response is not None else None
    model = response.model if response is not None else None
    return SpanRow(
        span_id=exchange.identity.span_id,
        trace_id=exchange.identity.trace_id,
        name=span.name,
        start_ns=exchange.start_ns,
        end_ns=exchange.end_ns,
        model=model or (request.model if request is not None else None),
        status=_STATUS[span.status.status_code],
        outcome=exchange.outcome.value,
        prompt_tokens=usage.prompt if usage is not None else None,
        completion_tokens=usage.completion if usage is not None else None,
        total_tokens=usage.total if usage is not None else None,
        span=encode_span(span),
        recorded_ns=now_ns,
    )


_STATUS: dict[StatusCode, SpanStatus] = {
    StatusCode.UNSET: "UNSET",
    StatusCode.OK: "OK",
    StatusCode.ERROR: "ERROR",
}


def _place(error: BaseException) -> str:
    """File and line of where it was raised: all of a traceback that holds no content."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "an unknown place"
    return f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
