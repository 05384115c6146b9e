"""Calls as JSON lines."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from codec.text.jsontext import decode_json_object
from proxy.reading.record import (
    SCHEMA_VERSION,
    build_call_record,
    build_summary_record,
    encode_line,
)
from telemetry.facts import NO_COLUMNS, CallColumns
from telemetry.spans.value_texts import ValueForm
from telemetry.store.rows import SpanSummary
from tests.proxy.recorded_calls import (
    make_exchange,
    make_failed_exchange,
    make_tools_exchange,
    read_call,
    span_id_of,
)
from tests.telemetry.span_rows import FULL_COLUMNS

if TYPE_CHECKING:
    from pathlib import Path


def test_a_row_has_every_column(tmp_path: Path) -> None:
    """It is one flat object, with times in UTC to the nanosecond."""
    row = read_call(tmp_path / "t.db", make_exchange()).summary
    row = replace(row, columns=FULL_COLUMNS, launch="app~20x~~1")
    record = build_summary_record(row)
    columns = asdict(FULL_COLUMNS) | {
        "streamed": False,
        "anomalies": ["no_usage", "tool_not_offered"],
        "tools": ["grep", "read_file"],
    }
    ttft_ns = columns.pop("ttft_ns")
    assert {name: record.pop(name) for name in columns} == columns
    assert record == {
        "schema_version": SCHEMA_VERSION,
        "model": "gpt-demo",
        "span_id": span_id_of(1),
        "trace_id": "01" * 16,
        "name": "ChatCompletion",
        "start_time": "2025-11-20T14:04:06.123456789Z",
        "end_time": "2025-11-20T14:04:06.465456789Z",
        "duration_ms": 342.0,
        "ttft_ms": ttft_ns / 1e6,
        "status": "OK",
        "outcome": "completed",
        "prompt_tokens": 7,
        "completion_tokens": 2,
        "total_tokens": 9,
        "launch": "app x",
        "launch_label": "app~20x~~1",
        "seq": 1,
        "size_bytes": row.size_bytes,
        "recorded_time": "2025-11-20T14:04:06.465456789Z",
        "state": "kept",
        "attempts": 0,
        "next_try_time": None,
        "last_error": None,
        "what": FULL_COLUMNS.step,
    }
    own = {field.name.removesuffix("_ns") for field in fields(SpanSummary)} - {"columns"}
    assert {name.removesuffix("_time") for name in record} >= own


def test_what_is_not_known_is_null(tmp_path: Path) -> None:
    """And a list that is not known is empty; no number is one that JSON has no word for."""
    row = read_call(tmp_path / "t.db", make_exchange()).summary
    record = build_summary_record(replace(row, columns=NO_COLUMNS))
    assert (record["anomalies"], record["tools"]) == ([], [])
    assert all(record[name] is None for name in ("client", "streamed", "ttft_ms", "cost_usd"))
    infinite = replace(row, columns=CallColumns(cost_usd=float("inf")))
    assert '"cost_usd": null' in encode_line(build_summary_record(infinite))


def test_a_call_in_full_has_what_an_older_row_lacks(tmp_path: Path) -> None:
    """As its span has it."""
    call = read_call(tmp_path / "t.db", make_exchange())
    older = replace(call, summary=replace(call.summary, columns=NO_COLUMNS))
    names = ("request_id", "ttft_ms", "finish_reason")
    known = {name: build_call_record(call)[name] for name in names}
    assert known == {"request_id": "req_1", "ttft_ms": 131.0, "finish_reason": "stop"}
    assert {name: build_call_record(older)[name] for name in names} == known


def test_record_has_the_members_of_an_audit_record(tmp_path: Path) -> None:
    """Schema version, ids, model, the whole request and answer.

    See ``docs/contract/sources.md#s0-16`` and ``docs/contract/sources.md#n11``.
    """
    record = build_call_record(read_call(tmp_path / "t.db", make_exchange()))
    assert record["requested_streaming"] is True
    assert record["request"]["temperature"] == 0.5
    assert record["response"]["choices"][0]["message"]["content"] == "Hi, you."
    names = ["schema_version", "request_id", "requested_streaming", "model", "request", "response"]
    assert set(names) <= record.keys()


def test_a_call_in_full_has_what_was_left_of_limits(tmp_path: Path) -> None:
    """As numbers; the fields of heads are in the span's metadata."""
    heads = {"response": {"anthropic-ratelimit-unified-5h-utilization": "0.25"}}
    record = build_call_record(read_call(tmp_path / "t.db", make_exchange(heads=heads)))
    assert record["rate_limits"] == [
        {"name": "unified-5h", "left": 0.75, "remaining": None, "limit": None, "reset": None}
    ]


def test_record_has_the_whole_span(tmp_path: Path) -> None:
    """Attributes, events, status, resource and scope as stored."""
    span = build_call_record(read_call(tmp_path / "t.db", make_failed_exchange()))["span"]
    assert span["status"] == "ERROR"
    assert span["status_message"] == "RateLimitError: Rate limit reached."
    assert span["attributes"]["error.type"] == "429"
    assert [event["name"] for event in span["events"]] == ["exception"]
    assert span["events"][0]["time"] == span["end_time"]
    assert span["resource"] == {"service.name": "spantap"}
    assert span["scope"]["name"] == "spantap"
    assert (span["parent_span_id"], span["links"]) == (None, [])


def test_line_is_ascii(tmp_path: Path) -> None:
    """Nothing of a message can steer a terminal, and the line gives it back unchanged."""
    message = "\x1b[2J \x9b \u202e \n done"
    call = read_call(tmp_path / "t.db", make_failed_exchange(message=message))
    line = encode_line(build_call_record(call))
    assert line.isascii()
    assert line.isprintable()
    assert message in decode_json_object(line)["span"]["status_message"]


def test_a_call_in_full_has_the_same_bodies_with_texts_as_values(tmp_path: Path) -> None:
    """docs/spans.md, "Values": only the span itself tells the form."""
    for number, make in enumerate((make_exchange, make_tools_exchange, make_failed_exchange)):
        calls = [read_call(tmp_path / f"{form}{number}.db", make(), form) for form in ValueForm]
        text, json = map(build_call_record, calls)
        told = {name for name in text if text[name] != json[name]}
        assert told <= {"span", "size_bytes", "recorded_time"}
        assert "spantap.request.body" in text["span"]["attributes"]
        assert "spantap.request.body" not in json["span"]["attributes"]
