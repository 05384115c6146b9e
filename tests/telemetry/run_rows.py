"""Rows of an agent's run, made by hand: its calls, its tools, and the agent's own.

They are as the service writes them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from telemetry.facts import CallColumns
from telemetry.store.rows import SpanRow
from tests.telemetry.span_rows import span_id

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from telemetry.store.rows import SpanStatus

__all__ = ("BEGIN_NS", "MS", "Run", "lone_call", "make_agent_run", "marker")

BEGIN_NS = 1_763_647_445_000_000_000
"""2025-11-20 14:04:05 UTC."""

MS = 1_000_000


class Run:
    """A run that grows, row by row.

    Args:
        number: of the run; ids follow from it.
        trace_id: by default its own; a sub-agent is in that of its parent.
        begin_ms: when it begins, behind :data:`BEGIN_NS`.
        members: of all its columns.
    """

    def __init__(
        self, number: int, *, trace_id: str = "", begin_ms: int = 0, **members: Any
    ) -> None:
        self.number = number
        self.trace_id = trace_id or f"{0xA0000 + number:032x}"
        self.agent_id = span_id(0xA_0000_0000_0000 + number)
        self.rows: list[SpanRow] = []
        self.begin_ms = begin_ms
        self._members = {"conversation": 7, "session": "s-1", "client": "codex", **members}

    def call(self, start: int, took: int, *tools: str, **members: Any) -> SpanRow:
        """A call whose answer calls these tools."""
        columns = {
            "kind": "LLM",
            "tools": "\n".join(dict.fromkeys(tools)) or None,
            "tool_calls": len(tools) or None,
            "finish_reason": "tool_calls" if tools else "stop",
            "cost_usd": 0.25,
            "cached_tokens": 80,
            "turn": 1,
        }
        fields: dict[str, Any] = {"model": "gpt-5.1", "name": "ChatCompletion"}
        fields |= {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        return self._add(start, took, fields, columns, members)

    def tool(
        self, name: str, start: int, took: int, *, failed: bool = False, **members: Any
    ) -> SpanRow:
        """A tool that ran between two calls."""
        fields = {"name": name, "status": "ERROR" if failed else "OK"}
        attributes = {
            "openinference.span.kind": "TOOL",
            "tool.name": name,
            "tool_call.id": f"call_{len(self.rows)}",
            "tool.parameters": '{"path": "a.py"}',
            "input.value": '{"path": "a.py"}',
            "output.value": "def test_a(): ...",
            "metadata": json.dumps({"inferred": True, "times": "between_calls"}),
        }
        columns = {"kind": "TOOL", "tools": name}
        return self._add(start, took, fields, columns, members, attributes)

    def agent(self, took: int, ended_by: str = "answer", **members: Any) -> SpanRow:
        """The agent's row, which is written at the run's end."""
        usage = members.pop("usage", {"tokens": {"system": 40, "tools": 20}, "cache_breaks": 1})
        calls = sum(row.columns.kind == "LLM" for row in self.rows)
        tools = sum(row.columns.kind == "TOOL" for row in self.rows)
        metadata: JsonObject = {"inferred": True, "calls": calls, "tools": tools}
        metadata |= {"ended_by": ended_by, "usage": usage}
        attributes = {
            "openinference.span.kind": "AGENT",
            "input.value": "Fix the failing test",
            "output.value": "Done.",
            "metadata": json.dumps(metadata),
        }
        columns = {"kind": "AGENT", "tool_calls": tools, "preview": "Fix the failing test"}
        columns |= {"turn": 1, "parent_span_id": None}
        members = {"span_id": self.agent_id, **members}
        return self._add(0, took, {"name": "invoke_agent"}, columns, members, attributes)

    def _add(
        self,
        start: int,
        took: int,
        fields: dict[str, Any],
        columns: dict[str, Any],
        members: dict[str, Any],
        attributes: dict[str, str] | None = None,
    ) -> SpanRow:
        columns = {
            "run": self.number,
            "parent_span_id": self.agent_id,
            **self._members,
            **columns,
        }
        names = CallColumns.__struct_fields__
        columns |= {name: value for name, value in members.items() if name in names}
        fields |= {name: value for name, value in members.items() if name not in names}
        own_id = span_id((self.number << 16) + len(self.rows) + 1)
        row = make_span_row(
            span_id=fields.pop("span_id", own_id),
            trace_id=self.trace_id,
            start_ns=BEGIN_NS + (self.begin_ms + start) * MS,
            took_ns=took * MS,
            columns=CallColumns(**columns),
            attributes=attributes or {"openinference.span.kind": "LLM"},
            **fields,
        )
        self.rows.append(row)
        return row


def make_span_row(
    *,
    span_id: str,
    trace_id: str,
    name: str,
    start_ns: int,
    took_ns: int,
    columns: CallColumns,
    attributes: dict[str, str],
    status: SpanStatus = "OK",
    **members: Any,
) -> SpanRow:
    """A row whose span has these attributes."""
    parent = columns.parent_span_id
    span = Span(
        trace_id=bytes.fromhex(trace_id),
        span_id=bytes.fromhex(span_id),
        parent_span_id=bytes.fromhex(parent) if parent else b"",
        name=name,
        start_time_unix_nano=start_ns,
        end_time_unix_nano=start_ns + took_ns,
        attributes=[
            KeyValue(key=key, value=AnyValue(string_value=value))
            for key, value in attributes.items()
        ],
    )
    request = ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=[span])])]
    )
    row = SpanRow(
        span_id=span_id,
        trace_id=trace_id,
        name=name,
        start_ns=start_ns,
        end_ns=start_ns + took_ns,
        status=status,
        outcome="completed",
        recorded_ns=start_ns + took_ns,
        columns=columns,
        span=request.SerializeToString(),
    )
    return replace(row, **members)


def lone_call(number: int, *, begin_ms: int = -1, model: str | None = "gpt-4o-mini") -> SpanRow:
    """A call that an earlier version recorded: nobody knows its kind, nor its run."""
    return make_span_row(
        span_id=span_id(number),
        trace_id=f"{number:032x}",
        name="ChatCompletion",
        start_ns=BEGIN_NS + begin_ms * MS,
        took_ns=MS,
        columns=CallColumns(),
        attributes={"openinference.span.kind": "LLM"},
        model=model,
    )


def marker(number: int, trace_id: str, of: str | None = None, **members: Any) -> SpanRow:
    """The span of a nanosecond that takes a first call into its session."""
    return make_span_row(
        span_id=span_id(0xB_0000_0000_0000 + number),
        trace_id=trace_id,
        name="conversation continued",
        start_ns=BEGIN_NS,
        took_ns=1,
        columns=CallColumns(kind="MARKER", parent_span_id=of, conversation=7, session="s-1"),
        attributes={"openinference.span.kind": "CHAIN", "session.id": "s-1"},
        **members,
    )


def make_agent_run(number: int = 812, *, ended_by: str | None = "answer", begin_ms: int = 0) -> Run:
    """A run of three calls and three tools, one of which failed; open without an ending."""
    run = Run(number, begin_ms=begin_ms)
    run.call(0, 2_000, "read_file", "grep", preview="Fix the failing test")
    run.tool("read_file", 2_000, 310)
    run.tool("grep", 2_000, 310, failed=True)
    run.call(2_310, 1_500, "grep", cost_usd=None)
    run.tool("grep", 3_810, 40)
    run.call(3_850, 1_150)
    if ended_by is not None:
        run.agent(5_000, ended_by)
    return run
