"""The identity of a span, apart from :mod:`telemetry.identity`, which needs the SDK to decide it.

Frames and exchanges hold it, and the settings name its policy: they must not wait for the SDK, nor
import it before its variables are known to be good (:mod:`telemetry.export.otel_environment`).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec
import msgspec.structs

_SAMPLED = 0x01
"""W3C Trace Context, section 3.2.2.5.1."""


class TraceParentPolicy(StrEnum):
    """The effect of a valid ``traceparent`` in the client's request."""

    HONOR = "honor"
    """The caller's span is the parent."""
    LINK = "link"
    """The span is a root that links to the caller's."""
    IGNORE = "ignore"
    """The span is a root that knows nothing of the caller."""


class SpanIdentity(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """The identity of a span.

    Attributes:
        trace_id: 32 lower-case hexadecimal digits.
        span_id: 16 lower-case hexadecimal digits.
        parent_span_id: the caller's span, ``None`` for a root.
        trace_flags: W3C flags of this span; bit 0 is "sampled", bit 1 "random trace id".
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
        return bool(self.trace_flags & _SAMPLED)

    @property
    def is_root(self) -> bool:
        """Whether no caller has a span around it."""
        return self.parent_span_id is None and self.linked is None

    def as_sampled(self, *, sampled: bool) -> SpanIdentity:
        """Return the identity with another decision on whether it is recorded."""
        flags = self.trace_flags | _SAMPLED if sampled else self.trace_flags & ~_SAMPLED
        return msgspec.structs.replace(self, trace_flags=flags)

    @property
    def traceparent(self) -> str:
        """The W3C header value that makes the span of its reader a child of this one."""
        return f"00-{self.trace_id}-{self.span_id}-{self.trace_flags:02x}"
