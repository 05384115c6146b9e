"""An OTLP backend that keys on span id, and a ledger of what it holds that outlives it.

The backend may be closed and opened again on its port, with other manners; the ledger goes on::

    ledger = Ledger()
    with Backend(ledger, port=port):
        ledger.wait_for(marks)
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.otlp_sink import HttpSink, SinkAnswer

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    from tests.otlp_sink import SinkRequest

__all__ = ("TAKE_ALL", "Backend", "Judgement", "Ledger", "SentSpan")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentSpan:
    """A span as it came: ``mark`` is its ``user.id``, ``digest`` of all that it says."""

    span_id: str
    mark: str
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a backend answers, and of which marks it keeps the spans; ``None``: of all."""

    answer: SinkAnswer
    holds: frozenset[str] | None = None


TAKE_ALL = Judgement(answer=SinkAnswer())


class Ledger:
    """What a backend holds, by span id; any thread may use it.

    Attributes:
        request_seconds: when each request came, on the monotonic clock.
    """

    def __init__(self) -> None:
        self.request_seconds: list[float] = []
        self._spans: dict[str, SentSpan] = {}
        self._marks: Counter[str] = Counter()
        self._again = 0
        self._changed: set[str] = set()
        self._change = threading.Condition()

    @property
    def span_ids(self) -> list[str]:
        """The ids of the spans held, in the order in which they first came."""
        with self._change:
            return list(self._spans)

    @property
    def marks(self) -> Counter[str]:
        """How many spans are held of each exchange."""
        with self._change:
            return self._marks.copy()

    @property
    def again(self) -> int:
        """How often a span came that was held already."""
        return self._again

    @property
    def changed(self) -> set[str]:
        """The ids of spans that came again and said something else."""
        with self._change:
            return set(self._changed)

    def note_request(self) -> None:
        """A request came."""
        with self._change:
            self.request_seconds.append(time.monotonic())

    def hold(self, spans: list[SentSpan]) -> None:
        """Keep `spans`; a span id that is known is not kept twice."""
        with self._change:
            for span in spans:
                if (known := self._spans.get(span.span_id)) is None:
                    self._spans[span.span_id] = span
                    self._marks[span.mark] += 1
                    continue
                self._again += 1
                if known.digest != span.digest:
                    self._changed.add(span.span_id)
            self._change.notify_all()

    def wait_for(self, marks: set[str], seconds: float) -> None:
        """Wait until a span of each of `marks` is held; fail after `seconds` without progress."""
        with self._change:
            while missing := marks - self._marks.keys():
                assert self._change.wait(seconds), (
                    f"{len(missing)} of {len(marks)} spans did not arrive: {sorted(missing)[:9]}"
                )


class Backend(HttpSink):
    """A backend on loopback that judges each request and keeps spans in a ledger."""

    def __init__(
        self,
        ledger: Ledger,
        judge: Callable[[list[SentSpan]], Judgement] = lambda _: TAKE_ALL,
        *,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._ledger = ledger
        self._judge = judge
        super().__init__(port=port, tls=tls)

    def receive(self, request: SinkRequest) -> SinkAnswer:
        """Judge `request`, keep what is to be kept, and give the answer."""
        spans = _read_spans(request.body)
        self._ledger.note_request()
        judgement = self._judge(spans)
        holds = judgement.holds
        self._ledger.hold([span for span in spans if holds is None or span.mark in holds])
        time.sleep(judgement.answer.delay_seconds)
        return judgement.answer


def _read_spans(body: bytes) -> list[SentSpan]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        SentSpan(
            span_id=span.span_id.hex(),
            mark=_read_mark(span),
            digest=hashlib.sha256(span.SerializeToString(deterministic=True)).digest(),
        )
        for resource_spans in request.resource_spans
        for scope_spans in resource_spans.scope_spans
        for span in scope_spans.spans
    ]


def _read_mark(span: Span) -> str:
    return next((pair.value.string_value for pair in span.attributes if pair.key == "user.id"), "")
