"""What a client's ``traceparent`` means; apart from :mod:`telemetry.identity`, which needs the SDK.

The settings name the policy, and the SDK must not be imported before its variables are known to be
good (:mod:`telemetry.export.otel_environment`).
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ("TraceParentPolicy",)


class TraceParentPolicy(StrEnum):
    """What a valid ``traceparent`` of the client's request does."""

    HONOR = "honor"
    """The caller's span is the parent."""
    LINK = "link"
    """The span is a root that links to the caller's."""
    IGNORE = "ignore"
    """The span is a root that knows nothing of the caller."""
