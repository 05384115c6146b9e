"""Shows a recorded call in full on a terminal, for people; a table is :mod:`proxy.commands.table`.

No foreign text reaches the terminal unescaped (:mod:`proxy.escape`) or is read as markup. Each
colour has a word beside it that says the same. An id is never cut or wrapped; without a terminal
nothing is, because a pipe has no width. The clock is never read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from openinference.semconv.trace import SpanAttributes
from rich.text import Text

from proxy.commands.message_lines import (
    document_lines,
    fact_line,
    fold_message,
    member_lines,
    message_lines,
    tool_line,
    value_lines,
)
from proxy.commands.table import cell, format_dollars, format_duration, local_time, outcome_cell
from proxy.escape import escape, escape_line
from proxy.reading.call_order import order_messages
from proxy.reading.costs import describe_list, explain_gap
from proxy.reading.link_words import describe_link
from telemetry.facts import LIST_BASIS
from telemetry.privacy.json_strings import REDACTED
from telemetry.semconv import MetadataMember
from telemetry.store.calls import is_call

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import tzinfo

    from rich.console import Console

    from codec.rate_limits import RateLimit
    from proxy.commands.message_lines import Line
    from proxy.reading.call import RecordedCall
    from proxy.reading.flat_messages import RecordedMessage

_APART: Final = frozenset(
    {
        MetadataMember.UPSTREAM,
        MetadataMember.REQUEST_ID,
        MetadataMember.ANOMALIES,
        MetadataMember.OUTCOME,
        MetadataMember.COST_SOURCE,
        MetadataMember.HEADERS,
        MetadataMember.COST_BASIS,
        MetadataMember.COST_LIST_DATE,
    }
)
"""Members of the metadata that are shown elsewhere, as lines or as a part."""

_PARAMETER_NESTING: Final = 2
"""How deeply parameters are spread over lines: an effort is, and the schema of an answer is not."""

MIN_TEXT_COLUMNS = 10
"""The least room for text after its indentation, on however narrow a terminal."""


def print_call(
    console: Console, call: RecordedCall, *, whole: bool = False, zone: tzinfo | None = None
) -> None:
    """Print a call in full: the request, the answer, and how the call went.

    The new messages of a conversation come first, then the answer, then earlier messages
    (:mod:`proxy.reading.call_order`). System messages and old ones are folded; the tools come last.

    Args:
        console: a terminal, on which lines are wrapped, or anything else.
        call: the call.
        whole: fold nothing, and print the messages in the order in which they were sent.
        zone: the time zone of the times; by default the local one.
    """
    print_lines(console, _call_lines(call, zone, whole=whole))


def print_lines(console: Console, lines: Iterable[Line]) -> None:
    """Print lines; on a terminal they are wrapped within their indentation."""
    for indent, text in lines:
        width = max(console.width - indent, MIN_TEXT_COLUMNS)
        wrapped = text.wrap(console, width) if console.is_terminal else text.split(allow_blank=True)
        for line in wrapped:
            console.print(Text(" " * indent).append_text(line), soft_wrap=True)


def _call_lines(call: RecordedCall, zone: tzinfo | None, *, whole: bool) -> Iterator[Line]:
    yield from _headline(call)
    yield from _title("request")
    said = order_messages(call.input_messages)
    if whole:
        yield from _whole(call.input_messages)
    else:
        yield from map(fold_message, said.system)
        yield from _whole(said.question)
        if said.between:
            words = f"({len(said.between)} messages in between: below)"
            yield 2, Text(words, style="dim")
        yield from _whole(said.latest)
    yield from _asked_lines(call)
    yield from _title("answer")
    answer = [*_answer_lines(call)]
    yield from answer or [(2, Text(_why_empty(call), style="dim"))]
    if not whole:
        for words, messages, is_folded in (
            ("in between", said.between, True),
            ("earlier", said.earlier, False),
            ("older", said.older, True),
        ):
            if messages:
                yield from _title(words)
                yield from map(fold_message, messages) if is_folded else _whole(messages)
    yield from _title("call")
    yield from _fact_lines(call, zone)
    if call.parameters:
        yield from _title("parameters")
        yield from member_lines(call.parameters, nesting=_PARAMETER_NESTING, whole=whole)
    if rest := {name: value for name, value in call.metadata.items() if name not in _APART}:
        yield from _title("metadata")
        yield from member_lines(rest, whole=whole)
    if heads := [*_head_lines(call)]:
        yield from _title("heads")
        yield from heads
    if call.tools:
        yield from _title("tools on offer")
        yield from (tool_line(tool, whole=whole) for tool in call.tools)


def _whole(messages: Iterable[RecordedMessage]) -> Iterator[Line]:
    for message in messages:
        yield from message_lines(message)


def _asked_lines(call: RecordedCall) -> Iterator[Line]:
    """Show the request of a call that is not a conversation."""
    if call.query is not None:
        yield 2, Text("query", style="bold cyan")
        yield 4, Text(escape(call.query))
    for document in call.documents:
        yield from document_lines(document)
    is_shown = call.input_messages or call.documents or call.query is not None
    if not (is_shown or call.makes_content):
        yield from value_lines(call.request)


def _answer_lines(call: RecordedCall) -> Iterator[Line]:
    several = len(call.output_messages) > 1
    for message in call.output_messages:
        yield from message_lines(message, f"output {message.index}" if several else "")
    for document in call.ranking:
        yield from document_lines(document)
    if call.sound is not None:
        yield 4, Text("(audio) ", style="italic").append(escape_line(call.sound))
    if call.verdict is not None:
        yield 2, Text(escape_line(call.verdict))
    elif not (call.output_messages or call.ranking or call.makes_content):
        yield from value_lines(call.response)


def _why_empty(call: RecordedCall) -> str:
    if call.metadata.get(MetadataMember.CONTENT_HIDDEN_BY):
        return "hidden, as the client asked"
    if call.span.attributes.get("output.value") == REDACTED:
        return "hidden by the settings"
    return "nothing that could be recorded"


def _title(words: str) -> Iterator[Line]:
    yield 0, Text()
    yield 0, Text(words, style="bold underline")


def _headline(call: RecordedCall) -> Iterator[Line]:
    """Say what was called, how it ended, and what went wrong if anything did."""
    summary = call.summary
    head = Text(escape_line(summary.name), style="bold")
    if is_call(summary.columns.kind):
        head.append(" ").append_text(cell(summary.model))
    yield 0, head.append("  ").append_text(outcome_cell(summary, call.error_type))
    if call.span.status_message:
        yield fact_line("error", call.span.status_message, style="red")


def _fact_lines(call: RecordedCall, zone: tzinfo | None) -> Iterator[Line]:
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
        yield fact_line("upstream", " at ".join(str(part) for part in (upstream, address) if part))
    if call.request_id:
        yield fact_line("request id", call.request_id)
    if tokens := ", ".join(_tokens(call)) or ("none reported" if is_a_call else ""):
        yield fact_line("tokens", tokens)
    yield from _cost_lines(call)
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
    for limit in call.limits:
        yield fact_line("limit", _write_limit(limit), style="red" if limit.is_near else "")
    yield fact_line("delivery", _delivery(call))


def _write_limit(limit: RateLimit) -> str:
    """Write what was left of a rate limit: ``tokens: 5% left, 10 of 200, reset 6m0s``."""
    words = f"{limit.name}: {limit.left:.0%} left"
    if limit.remaining is not None and limit.limit is not None:
        words += f", {limit.remaining:.15g} of {limit.limit:.15g}"
    return f"{words}, reset {limit.reset}" if limit.reset else words


def _head_lines(call: RecordedCall) -> Iterator[Line]:
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
