"""Spans as OTLP/JSON, which the Collector's ``otlpjsonfile`` receiver reads, a request a line.

Rules (OTLP specification 1.10, "JSON Protobuf Encoding"):

1. The JSON is that of protobuf, with names in lower camel case, but for two things: ids of traces
   and spans are hexadecimal, and enumerations are numbers.
2. A line is ASCII, so that no byte of a hostile message can steer a terminal.
"""

from __future__ import annotations

import json
from base64 import b64decode
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_IDS = ("traceId", "spanId", "parentSpanId")


def encode_json_line(blob: bytes) -> str:
    """Encode a serialised ``ExportTraceServiceRequest`` as a line of JSON, without its end.

    Raises:
        ValueError: the bytes are not such a request.
    """
    from google.protobuf.json_format import (  # type: ignore[import-untyped] # noqa: PLC0415 - slow
        MessageToDict,
    )
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped] # noqa: PLC0415
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415 - slow
        ExportTraceServiceRequest,
    )

    try:
        request = ExportTraceServiceRequest.FromString(blob)
    except DecodeError as error:
        raise ValueError(f"no OTLP trace request: {error}") from error
    form: dict[str, Any] = MessageToDict(request, use_integers_for_enums=True)
    for holder in _find_holders(form):
        for name in _IDS:
            if name in holder:
                holder[name] = b64decode(holder[name]).hex()
    return json.dumps(form, separators=(",", ":"))


def _find_holders(form: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Find what has ids: spans and their links."""
    for resource_spans in form.get("resourceSpans", ()):
        for scope_spans in resource_spans.get("scopeSpans", ()):
            for span in scope_spans.get("spans", ()):
                yield span
                yield from span.get("links", ())
