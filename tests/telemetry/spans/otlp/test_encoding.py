"""Spans to OTLP bytes and back."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue, KeyValueList
from opentelemetry.sdk.resources import Resource

from codec._version import __version__
from codec.chat.answer import ChatMessage
from telemetry.span_identity import SpanIdentity
from telemetry.spans.otlp.decoding import DecodedEvent, DecodedSpan, decode_spans
from telemetry.spans.otlp.encoding import encode_span
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from tests.telemetry.exchanges import (
    END_NS,
    FIRST_CHUNK_NS,
    SPAN_ID,
    START_NS,
    TRACE_ID,
    build_exchange_attributes,
    make_exchange,
    make_response,
)

PARENT_ID = "00f067aa0ba902b7"
RECORDER = SpanRecorder(Resource({"service.name": "spantap", "n": 7}), build_span_limits())


def blob_of(**members: Any) -> bytes:
    """The stored bytes of an exchange with the given members."""
    span = RECORDER.record(make_exchange(**members))
    assert span is not None
    return encode_span(span)


def test_span_reads_back() -> None:
    """All of a span that we show or test comes back from its bytes."""
    identity = SpanIdentity(
        trace_id=TRACE_ID, span_id=SPAN_ID, parent_span_id=PARENT_ID, trace_state="a=1"
    )
    members: dict[str, Any] = {
        "identity": identity,
        "response": make_response(ChatMessage(content="a\ud800\x00é")),
        "response_status": 200,
        "streamed": True,
        "first_chunk_ns": FIRST_CHUNK_NS,
        "error_type": "stream_error",
        "error_message": "why",
    }
    assert decode_spans(blob_of(**members)) == [
        DecodedSpan(
            name="ChatCompletion",
            trace_id=TRACE_ID,
            span_id=SPAN_ID,
            parent_span_id=PARENT_ID,
            trace_state="a=1",
            start_ns=START_NS,
            end_ns=END_NS,
            status="ERROR",
            status_message="stream_error: why",
            attributes={
                key: list(value) if isinstance(value, tuple) else value
                for key, value in build_exchange_attributes(make_exchange(**members)).items()
            },
            events=(
                DecodedEvent(name="First Token Stream Event", at_ns=FIRST_CHUNK_NS, attributes={}),
                DecodedEvent(
                    name="exception",
                    at_ns=END_NS,
                    attributes={
                        "exception.type": "stream_error",
                        "exception.message": "why",
                        "exception.stacktrace": "",
                        "exception.escaped": "False",
                    },
                ),
            ),
            links=(),
            resource={"service.name": "spantap", "n": 7},
            scope=("spantap", __version__),
        )
    ]


def test_root_with_link_reads_back() -> None:
    """A root has no parent, a completed call is OK, a link is its two ids."""
    linked = ("4bf92f3577b34da6a3ce929d0e0e4736", PARENT_ID)
    identity = SpanIdentity(trace_id=TRACE_ID, span_id=SPAN_ID, linked=linked)
    (span,) = decode_spans(blob_of(identity=identity))
    assert span.parent_span_id is None
    assert (span.status, span.status_message) == ("OK", "")
    assert span.links == (linked,)


def test_concatenated_blobs_are_a_batch() -> None:
    """Blobs put together without decoding are a request with all their spans."""
    ids = [f"{number:016x}" for number in range(1, 6)]
    blobs = [blob_of(identity=SpanIdentity(trace_id=TRACE_ID, span_id=id_)) for id_ in ids]
    batch = b"".join(blobs)
    assert len(ExportTraceServiceRequest.FromString(batch).resource_spans) == len(ids)
    spans = decode_spans(batch)
    assert [span.span_id for span in spans] == ids
    assert spans == [span for blob in blobs for span in decode_spans(blob)]


def test_no_bytes_are_no_spans() -> None:
    """An empty request is a valid one."""
    assert decode_spans(b"") == []


@pytest.mark.parametrize("blob", [b"\xff\xff\xff", b"no protobuf", blob_of()[:-1]])
def test_broken_bytes(blob: bytes) -> None:
    """What is no request is a ``ValueError``."""
    with pytest.raises(ValueError, match="no OTLP trace request"):
        decode_spans(blob)


def test_values_of_every_kind() -> None:
    """Values that other writers may store come back as plain Python values."""
    request = ExportTraceServiceRequest.FromString(blob_of())
    span = request.resource_spans[0].scope_spans[0].spans[0]
    del span.attributes[:]
    inner = KeyValueList(values=[KeyValue(key="k", value=AnyValue(bytes_value=b"b"))])
    array = AnyValue()
    array.array_value.values.extend([AnyValue(int_value=1), AnyValue(double_value=0.5)])
    for key, value in {
        "none": AnyValue(),
        "bool": AnyValue(bool_value=False),
        "array": array,
        "map": AnyValue(kvlist_value=inner),
    }.items():
        span.attributes.append(KeyValue(key=key, value=value))
    (stored,) = decode_spans(request.SerializeToString())
    assert stored.attributes == {
        "none": None,
        "bool": False,
        "array": [1, 0.5],
        "map": {"k": b"b"},
    }


def test_grpc_is_not_imported() -> None:
    """Encoding spans does not load gRPC, which only the gRPC sender needs."""
    program = (
        "import sys, telemetry.spans.otlp.encoding, telemetry.spans.recorder; "
        "sys.exit('grpc' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
