"""Calls as JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.text.jsontext import decode_json_object
from proxy.commands.record import (
    SCHEMA_VERSION,
    build_call_record,
    build_summary_record,
    encode_line,
)
from tests.proxy.recorded_calls import make_exchange, make_failed_exchange, read_call, span_id_of

if TYPE_CHECKING:
    from pathlib import Path


def test_summary_has_the_columns_of_a_list(tmp_path: Path) -> None:
    """Rules 1 and 2: one flat object, times in UTC to the nanosecond."""
    call = read_call(tmp_path / "t.db", make_exchange())
    assert build_summary_record(call) == {
        "schema_version": SCHEMA_VERSION,
        "request_id": "req_1",
        "requested_streaming": True,
        "model": "gpt-demo",
        "span_id": span_id_of(1),
        "trace_id": "01" * 16,
        "name": "ChatCompletion",
        "start_time": "2025-11-20T14:04:06.123456789Z",
        "end_time": "2025-11-20T14:04:06.465456789Z",
        "duration_ms": 342.0,
        "ttft_ms": 131.0,
        "status": "OK",
        "outcome": "completed",
        "error_type": None,
        "finish_reason": "stop",
        "prompt_tokens": 7,
        "completion_tokens": 2,
        "total_tokens": 9,
        "launch": None,
        "state": "kept",
        "attempts": 0,
        "last_error": None,
    }


def test_record_has_the_members_of_an_audit_record(tmp_path: Path) -> None:
    """N11: rule 1: schema version, ids, model, the whole request and answer (S0.16)."""
    record = build_call_record(read_call(tmp_path / "t.db", make_exchange()))
    assert record["requested_streaming"] is True
    assert record["request"]["temperature"] == 0.5
    assert record["response"]["choices"][0]["message"]["content"] == "Hi, you."
    names = ["schema_version", "request_id", "requested_streaming", "model", "request", "response"]
    assert set(names) <= record.keys()


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
    """Rule 3: nothing of a message can steer a terminal, and the line gives it back unchanged."""
    message = "\x1b[2J \x9b \u202e \n done"
    call = read_call(tmp_path / "t.db", make_failed_exchange(message=message))
    line = encode_line(build_call_record(call))
    assert line.isascii()
    assert line.isprintable()
    assert message in decode_json_object(line)["span"]["status_message"]
