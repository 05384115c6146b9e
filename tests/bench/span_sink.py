"""An OTLP backend that costs next to nothing while something is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.otlp_sink import HttpSink, SinkAnswer

if TYPE_CHECKING:
    from tests.otlp_sink import SinkRequest

__all__ = ("SpanSink",)


class SpanSink(HttpSink):
    """Takes everything, and looks into it only when asked."""

    def receive(self, request: SinkRequest) -> SinkAnswer:
        """Keep `request` as it is."""
        self.requests.append(request)
        return SinkAnswer()

    def count_spans(self) -> tuple[int, int]:
        """How many spans came, and how many different ones."""
        span_ids = [span_id for request in self.requests for span_id in request.span_ids]
        return len(span_ids), len(set(span_ids))
