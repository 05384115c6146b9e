"""The identity of a span, decided once, in the worker, when an exchange begins.

Trace id, span id, parent, trace state and the sampling decision (``design.md`` section 3). The
upstream is told of this very span, and the recorder builds it from here and never samples again.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ("SpanIdentity",)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanIdentity:
    """Who a span is.

    Attributes:
        trace_id: 32 lower-case hexadecimal digits.
        span_id: 16 lower-case hexadecimal digits.
        parent_span_id: the caller's span, ``None`` for a root.
        trace_flags: W3C flags of this span; bit 0 is "sampled".
        trace_state: W3C ``tracestate`` text, handed on.
        linked: ``(trace id, span id)`` of a caller that is linked instead of being the parent.
    """

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    trace_flags: int = 1
    trace_state: str = ""
    linked: tuple[str, str] | None = None

    @property
    def sampled(self) -> bool:
        """Whether the span is recorded."""
        return bool(self.trace_flags & 1)

    @property
    def traceparent(self) -> str:
        """The W3C header value that makes whoever reads it a child of this span."""
        return f"00-{self.trace_id}-{self.span_id}-{self.trace_flags:02x}"
