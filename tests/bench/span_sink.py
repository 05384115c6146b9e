"""An OTLP backend that costs next to nothing while something is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.otlp_sink import HttpSink, SinkAnswer

if TYPE_CHECKING:
    from tests.otlp_sink import SinkRequest

__all__ = ("SpanCounts", "SpanSink")

_TOKENS = "llm.token_count.completion"
"""What a span has only where its answer was read to the end."""


class SpanCounts(NamedTuple):
    """How many spans came, how many different ones, and how many with their tokens."""

    received: int
    different: int
    whole: int


class SpanSink(HttpSink):
    """Takes everything, and looks into it only when asked."""

    def receive(self, request: SinkRequest) -> SinkAnswer:
        """Keep `request` as it is."""
        self.requests.append(request)
        return SinkAnswer()

    def count_spans(self) -> SpanCounts:
        """What came so far."""
        spans = [span for request in self.requests for span in request.spans]
        return SpanCounts(
            received=len(spans),
            different=len({span.span_id for span in spans}),
            whole=sum(any(a.key == _TOKENS for a in span.attributes) for span in spans),
        )
