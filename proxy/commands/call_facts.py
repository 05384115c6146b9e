"""What is known of a call beside what was said: when, whose, where, how much, at what cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinference.semconv.trace import SpanAttributes
from rich.text import Text

from proxy.commands.message_lines import write_compact
from proxy.commands.table import (
    cell,
    format_dollars,
    format_duration,
    local_time,
    outcome_cell,
)
from proxy.escape import escape_line
from telemetry.semconv import MetadataMember
from telemetry.store.calls import is_call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from proxy.commands.message_lines import Line
    from proxy.reading.call import RecordedCall


def headline(call: RecordedCall) -> Iterator[Line]:
    """Say what was called, how it ended, and what is wrong where anything is."""
    summary = call.summary
    head = Text(escape_line(summary.name), style="bold")
    if is_call(summary.columns.kind):
        head.append(" ").append_text(cell(summary.model))
    yield 0, head.append("  ").append_text(outcome_cell(summary, call.error_type))
    if call.span.status_message:
        yield fact_line("error", call.span.status_message, style="red")


def fact_lines(call: RecordedCall, zone: tzinfo | None) -> Iterator[Line]:
    """Tell the facts about a call, a line each; its times in that zone."""
    summary, span, metadata = call.summary, call.span, call.metadata
    is_a_call = is_call(summary.columns.kind)
    started = local_time(summary.start_ns, zone)
    yield fact_line(
        "started", f"{started:%Y-%m-%d %H:%M:%S}.{started.microsecond // 1000:03d} {started:%z}"
    )
    yield fact_line("took", ", ".join(_timings(call)))
    yield fact_line("span", summary.span_id)
    yield fact_line("trace", summary.trace_id)
    if span.parent_span_id:
        yield fact_line("parent", span.parent_span_id)
    upstream = metadata.get(MetadataMember.UPSTREAM)
    address = span.attributes.get("server.address")
    if upstream or address:
        yield fact_line("upstream", " at ".join(str(part) for part in (upstream, address) if part))
    if call.request_id:
        yield fact_line("request id", call.request_id)
    if tokens := ", ".join(_tokens(call)) or ("none reported" if is_a_call else ""):
        yield fact_line("tokens", tokens)
    if call.cost_usd is not None:
        source = metadata.get(MetadataMember.COST_SOURCE)
        yield fact_line(
            "cost", f"{format_dollars(call.cost_usd)} USD" + (f" ({source})" if source else "")
        )
    if call.finish_reason or (is_a_call and call.gives_reason):
        yield fact_line("finish", call.finish_reason or "none came")
    if place := _place(call):
        yield fact_line("belongs to", place)
    if summary.columns.run is not None:
        yield fact_line("run", f"{summary.columns.run} (`show run:{summary.columns.run}`)")
    for name, attribute in (
        ("session", SpanAttributes.SESSION_ID),
        ("user", SpanAttributes.USER_ID),
    ):
        if value := call.text(attribute):
            yield fact_line(name, value)
    if call.tags:
        yield fact_line("tags", ", ".join(call.tags))
    if isinstance(anomalies := metadata.get(MetadataMember.ANOMALIES), list):
        yield fact_line("anomalies", ", ".join(str(name) for name in anomalies), style="yellow")
    if call.parameters:
        yield fact_line("parameters", write_compact(call.parameters))
    yield fact_line("delivery", _delivery(call))
    shown = {
        MetadataMember.UPSTREAM,
        MetadataMember.REQUEST_ID,
        MetadataMember.ANOMALIES,
        MetadataMember.OUTCOME,
        MetadataMember.COST_SOURCE,
    }
    if rest := {key: value for key, value in metadata.items() if key not in shown}:
        yield fact_line("metadata", write_compact(rest))


def _timings(call: RecordedCall) -> Iterator[str]:
    yield format_duration(call.duration_ns)
    if call.summary.columns.kind == "TOOL":
        yield "an upper bound: from the answer that called it to the request with its result"
    if call.ttft_ms is not None:
        yield f"first token after {format_duration(call.ttft_ms * 1e6)}"


def _place(call: RecordedCall) -> str | None:
    """Tell the place of a call in its conversation; nothing of one that nothing goes on from."""
    columns = call.summary.columns
    if columns.conversation is None:
        return None
    words = f"conversation {columns.conversation}"
    if columns.turn is not None:
        words += f", turn {columns.turn}"
    return f"{words} (by {columns.link_rule})" if columns.link_rule else words


def _tokens(call: RecordedCall) -> Iterator[str]:
    """Tell counts as reported; details are parts of them (``docs/contract/spans.md#details``)."""
    for name, count, details in (
        ("in", call.summary.prompt_tokens, "prompt_details"),
        ("out", call.summary.completion_tokens, "completion_details"),
    ):
        if count is not None:
            prefix = f"llm.token_count.{details}."
            parts = [
                f"{value} {key.removeprefix(prefix).replace('_', ' ')}"
                for key, value in call.span.attributes.items()
                if key.startswith(prefix)
            ]
            yield f"{count} {name}" + (f" ({', '.join(parts)})" if parts else "")
    if call.summary.total_tokens is not None:
        yield f"{call.summary.total_tokens} total"


def _delivery(call: RecordedCall) -> str:
    summary = call.summary
    tries = f" after {summary.attempts} failed tries" if summary.attempts else ""
    return f"{summary.state}{tries}" + (f": {summary.last_error}" if summary.last_error else "")


def fact_line(name: str, value: str, *, style: str = "") -> Line:
    """Write a fact as a line; its name is no foreign text."""
    # What is longer than a line, such as an id, is not folded (rule 2).
    text = Text(f"{name:<11} ", style="dim", overflow="ignore")
    return 2, text.append(escape_line(value), style=f"not dim {style}")
