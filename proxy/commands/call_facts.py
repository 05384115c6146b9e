"""The facts about a call as lines for a terminal: times, ids, tokens, cost, limits, delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinference.semconv.trace import SpanAttributes
from rich.text import Text

from proxy.commands.amounts import format_dollars, format_duration, local_time
from proxy.commands.page_lines import fact_line
from proxy.escape import escape_line
from proxy.reading.costs import describe_list, explain_gap
from proxy.reading.link_words import describe_link
from telemetry.facts import LIST_BASIS
from telemetry.semconv import MetadataMember
from telemetry.store.calls import is_call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from codec.rate_limits import RateLimit
    from proxy.commands.page_lines import Line
    from proxy.reading.call import RecordedCall


def call_fact_lines(call: RecordedCall, zone: tzinfo | None) -> Iterator[Line]:
    """Show the facts about a call, a line each; times are in that zone."""
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
        words = " at ".join(str(part) for part in (upstream, address) if part)
        over = ", over a WebSocket" if call.is_over_websocket else ""
        yield fact_line("upstream", f"{words}{over}")
    if call.request_id:
        yield fact_line("request id", call.request_id)
    if tokens := ", ".join(_tokens(call)) or ("none reported" if is_a_call else ""):
        yield fact_line("tokens", tokens)
    yield from _cost_lines(call)
    if call.finish_reason or (is_a_call and call.gives_reason):
        yield fact_line("finish", call.finish_reason or "none came")
    if place := _place(call):
        yield fact_line("belongs to", place)
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
    for limit in call.limits:
        yield fact_line("limit", _write_limit(limit), style="red" if limit.is_near else "")
    yield fact_line("delivery", _delivery(call))


def _write_limit(limit: RateLimit) -> str:
    """Write what was left of a rate limit: ``tokens: 5% left, 10 of 200, reset 6m0s``."""
    words = f"{limit.name}: {limit.left:.0%} left"
    if limit.remaining is not None and limit.limit is not None:
        words += f", {limit.remaining:.15g} of {limit.limit:.15g}"
    return f"{words}, reset {limit.reset}" if limit.reset else words


def head_lines(call: RecordedCall) -> Iterator[Line]:
    """Show the recorded fields of both heads, with an arrow that says who sent them."""
    for side, name, value in call.heads:
        arrow = "> " if side == "request" else "< "
        text = Text(arrow, style="dim").append(f"{escape_line(name)}: ", style="dim")
        yield 2, text.append(escape_line(value), style="not dim")


def _cost_lines(call: RecordedCall) -> Iterator[Line]:
    """Show the cost, where it comes from and what it means; or why it is unknown."""
    columns, metadata = call.summary.columns, call.metadata
    if (cost := call.cost_usd) is not None:
        words = format_dollars(cost)
        sources = [metadata.get(MetadataMember.COST_SOURCE)]
        if isinstance(day := metadata.get(MetadataMember.COST_LIST_DATE), str):
            sources.append(describe_list(day, call.summary.start_ns))
        if known := ", ".join(str(source) for source in sources if source):
            words += f" ({known})"
        if metadata.get(MetadataMember.COST_BASIS) == LIST_BASIS:
            words += ": the list price; a subscription pays"
        yield fact_line("cost", words)
    if columns.saved_usd:
        yield fact_line("saved", f"{format_dollars(columns.saved_usd)} by the provider's cache")
    if columns.cost_gap is not None:
        gap = explain_gap(columns.cost_gap, call.summary.model, columns.upstream)
        yield fact_line("cost" if cost is None else "", f"unknown: {gap.why}", style="yellow")
        if gap.mend:
            yield fact_line("", gap.mend)


def _timings(call: RecordedCall) -> Iterator[str]:
    yield format_duration(call.duration_ns)
    if call.summary.columns.kind == "TOOL":
        yield "an upper bound: from the answer that called it to the request with its result"
    if call.ttft_ms is not None:
        yield f"first token after {format_duration(call.ttft_ms * 1e6)}"


def _place(call: RecordedCall) -> str | None:
    """Name the place of a call in its conversation; ``None`` if it belongs to none."""
    columns = call.summary.columns
    if columns.conversation is None:
        return None
    words = f"conversation {columns.conversation}"
    if columns.turn is not None:
        words += f", turn {columns.turn}"
    link = describe_link(columns.link_rule)
    return f"{words} ({link})" if link else words


def _tokens(call: RecordedCall) -> Iterator[str]:
    """Yield counts as reported; details are parts of them (``docs/contract/spans.md#details``)."""
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
