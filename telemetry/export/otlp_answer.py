"""A backend's answer in protobuf: how many spans it rejected and why, or why it refused all.

Import it only when a backend's answer has a body: importing protobuf takes time, and most backends
answer with an empty body when they accept a batch.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError  # type: ignore[import-untyped] # it has no stubs
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped] # likewise
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse


def read_partial_success(body: bytes) -> tuple[int, str] | None:
    """Read rejected spans and message of a partial success; ``None`` if `body` is not an answer."""
    response = ExportTraceServiceResponse()
    try:
        response.ParseFromString(body)
    except DecodeError:
        return None
    partial = response.partial_success
    return partial.rejected_spans, partial.error_message


def read_status(body: bytes) -> tuple[int, str]:
    """Read code and message of a ``google.rpc.Status``; 0 and "" for other bytes."""
    try:
        status = Status.FromString(body)
    except DecodeError:
        return 0, ""
    return status.code, status.message
