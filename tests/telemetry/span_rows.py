"""Rows for the store, made by hand from OpenTelemetry's own messages."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from telemetry.facts import CallColumns
from telemetry.store.rows import SpanRow

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ("FULL_COLUMNS", "SECOND_NS", "make_row", "make_rows", "span_id")

SECOND_NS = 1_000_000_000

FULL_COLUMNS = CallColumns(
    kind="LLM",
    parent_span_id="00f067aa0ba902b7",
    conversation=1,
    run=2,
    turn=3,
    link_rule="state",
    ttft_ns=5,
    cost_usd=0.25,
    cached_tokens=2,
    finish_reason="stop",
    error_type="429",
    http_status=200,
    api="chat.completions",
    upstream="default",
    client="openai",
    session="s-1",
    user="u-1",
    request_id="req_1",
    retry=1,
    streamed=0,
    anomalies="no_usage tool_not_offered",
    tools="grep\nread_file",
    tool_calls=3,
    new_messages=4,
    preview="What is the capital of France?",
    step="grep ✓ → read_file notes.txt",
    purpose="title",
)
"""A value in every column, no two of a kind alike."""


def span_id(number: int) -> str:
    """The span id of the row with `number`."""
    return f"{number:016x}"


def make_row(number: int, *, padding_bytes: int = 0, recorded_ns: int | None = None) -> SpanRow:
    """A row whose ids and times follow from `number`; `padding_bytes` do not compress."""
    padding = random.Random(number).randbytes(padding_bytes)
    span = Span(
        trace_id=bytes.fromhex(f"{number:032x}"),
        span_id=bytes.fromhex(span_id(number)),
        name="ChatCompletion",
        attributes=[KeyValue(key="padding", value=AnyValue(bytes_value=padding))],
    )
    request = ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=[span])])]
    )
    return SpanRow(
        span_id=span_id(number),
        trace_id=f"{number:032x}",
        name="ChatCompletion",
        start_ns=number * SECOND_NS,
        end_ns=number * SECOND_NS + 1,
        model="gpt-4o-mini",
        status="OK",
        outcome="completed",
        prompt_tokens=3,
        completion_tokens=4,
        total_tokens=7,
        span=request.SerializeToString(),
        recorded_ns=number * SECOND_NS if recorded_ns is None else recorded_ns,
    )


def make_rows(numbers: Iterable[int]) -> list[SpanRow]:
    """A row for each number."""
    return [make_row(number) for number in numbers]
