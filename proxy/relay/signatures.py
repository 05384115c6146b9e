"""What of a request is signed, so that it must stay as the client wrote it.

A signature of Amazon's (Signature Version 4) covers the body's hash and some fields of the head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from telemetry.privacy.aws_signature import (
    AwsSignature,
    read_header_signature,
    read_query_signature,
)

if TYPE_CHECKING:
    from proxy.downstream.downstream import Downstream


def covers_body(downstream: Downstream) -> bool:
    """Tell whether a signature covers a request's body."""
    if downstream.headers.has(b"x-amz-content-sha256"):
        return True
    return read_signature(downstream) is not None


def covers_trace(downstream: Downstream) -> bool:
    """Tell whether a signature covers the client's own trace context."""
    if not downstream.headers.has(b"traceparent"):
        return False
    signature = read_signature(downstream)
    return signature is not None and not {"traceparent", "tracestate"}.isdisjoint(signature.headers)


def read_signature(downstream: Downstream) -> AwsSignature | None:
    """Read the signature in a request's head or query; ``None`` if it has none."""
    authorization = (downstream.headers.find(b"authorization") or b"").decode("latin-1")
    signature = read_header_signature(authorization)
    if signature is None:
        signature = read_query_signature(downstream.target.partition("?")[2])
    return signature
