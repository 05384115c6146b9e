"""An OTLP backend that costs next to nothing while something is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.otlp_sink import HttpSink, SinkAnswer

if TYPE_CHECKING:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    from tests.otlp_sink import SinkRequest

__all__ = ("SpanCounts", "SpanSink")

_TOKENS = "llm.token_count.completion"
"""What a span has only where its answer was read to the end."""


_KIND = "openinference.span.kind"

_DERIVED = frozenset({"AGENT", "TOOL", "CHAIN"})
"""Kinds of spans that are no exchange's: spantap finds them out from several."""


class SpanCounts(NamedTuple):
    """How many spans of exchanges came, how many different ones, and how many with their tokens."""

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
        all_spans = (span for request in self.requests for span in request.spans)
        spans = [span for span in all_spans if not _is_derived(span)]
        return SpanCounts(
            received=len(spans),
            different=len({span.span_id for span in spans}),
            whole=sum(any(a.key == _TOKENS for a in span.attributes) for span in spans),
        )


def _is_derived(span: Span) -> bool:
    return any(a.key == _KIND and a.value.string_value in _DERIVED for a in span.attributes)
