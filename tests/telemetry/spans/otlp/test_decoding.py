"""``telemetry.spans.otlp.decoding``: spans as OTLP/JSON."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from codec.text.jsontext import decode_json
from telemetry.spans.otlp.decoding import encode_json_line
from tests.proxy.recorded_calls import make_exchange, make_failed_exchange, make_row
from tests.telemetry.span_rows import make_row as make_plain_row

TRACE, SPAN, PARENT, LINKED = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "1" * 16, "2"

WHOLE = {
    "resourceSpans": [
        {
            "resource": {
                "attributes": [{"key": "service.name", "value": {"stringValue": "é\x1b"}}]
            },
            "scopeSpans": [
                {
                    "scope": {"name": "spantap", "version": "1"},
                    "spans": [
                        {
                            "traceId": TRACE,
                            "spanId": SPAN,
                            "parentSpanId": PARENT,
                            "name": "Chat",
                            "kind": 3,
                            "startTimeUnixNano": "1763647445123456789",
                            "endTimeUnixNano": "1763647445123456790",
                            "attributes": [
                                {"key": "int", "value": {"intValue": "9007199254740993"}},
                                {"key": "bool", "value": {"boolValue": False}},
                                {"key": "double", "value": {"doubleValue": 0.5}},
                                {"key": "bytes", "value": {"bytesValue": "AAE="}},
                                {
                                    "key": "list",
                                    "value": {"arrayValue": {"values": [{"stringValue": "a"}]}},
                                },
                            ],
                            "events": [{"timeUnixNano": "5", "name": "first"}],
                            "links": [{"traceId": TRACE, "spanId": LINKED * 16}],
                            "status": {"code": 2, "message": "no"},
                        }
                    ],
                }
            ],
        }
    ]
}
"""By the examples of opentelemetry-proto, ``examples/trace.json``."""


def _in_base64(value: Any) -> Any:
    """The same with ids in Base64, as protobuf's own JSON has them."""
    if isinstance(value, list):
        return [_in_base64(item) for item in value]
    if not isinstance(value, dict):
        return value
    ids = {"traceId", "spanId", "parentSpanId"}
    return {
        key: b64encode(bytes.fromhex(item)).decode() if key in ids else _in_base64(item)
        for key, item in value.items()
    }


def test_ids_are_hexadecimal_and_enumerations_numbers() -> None:
    """All else is protobuf's JSON: integers of 64 bits are texts, bytes are Base64."""
    request = ParseDict(_in_base64(WHOLE), ExportTraceServiceRequest())
    assert decode_json(encode_json_line(request.SerializeToString())) == WHOLE


def test_a_line_is_ascii() -> None:
    """And one line."""
    request = ParseDict(_in_base64(WHOLE), ExportTraceServiceRequest())
    line = encode_json_line(request.SerializeToString())
    assert line.isascii()
    assert line.isprintable()


@pytest.mark.parametrize("exchange", [make_exchange(1), make_failed_exchange(2)])
def test_nothing_of_a_recorded_span_is_lost(exchange: Any) -> None:
    """Read back it is the same message."""
    blob = make_row(exchange).span
    again = ParseDict(_in_base64(decode_json(encode_json_line(blob))), ExportTraceServiceRequest())
    assert again == ExportTraceServiceRequest.FromString(blob)
    assert exchange.identity.span_id in encode_json_line(blob)


def test_what_is_no_request_is_refused() -> None:
    """With a ``ValueError``; spans without ids are none."""
    with pytest.raises(ValueError, match="no OTLP"):
        encode_json_line(b"\xff\xff")
    assert encode_json_line(b"") == "{}"
    assert decode_json(encode_json_line(make_plain_row(1).span))
