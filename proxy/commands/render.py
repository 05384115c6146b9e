"""Recorded calls on a terminal, for people: one in full (a table: :mod:`proxy.commands.table`).

Rules:

1. No foreign text reaches the terminal unescaped (:mod:`proxy.escape`), and none is
   read as markup.
2. An id is never cut and never wrapped. Without a terminal nothing is: a pipe has no width.
3. Colours need a terminal; each says something that a word beside it says too.
4. The clock is never read; times are shown in the zone given, by default the local one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from openinference.semconv.trace import SpanAttributes
from rich.console import Console
from rich.text import Text

from codec.text.jsontext import decode_json
from proxy.commands.table import (
    cell,
    format_dollars,
    format_duration,
    local_time,
    outcome_cell,
)
from proxy.commands.unobserved import describe_unobserved
from proxy.escape import escape, escape_line
from telemetry.privacy.json_strings import REDACTED
from telemetry.semconv import MetadataMember

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo
    from typing import TextIO

    from codec.call import Tool
    from codec.parts import ToolCall
    from proxy.commands.call import RecordedCall, RecordedDocument, RecordedMessage
    from telemetry.store.unobserved_calls import UnobservedCalls

__all__ = ("open_console", "print_call", "print_unobserved")

MAX_URL_CHARACTERS = 120
"""A longer URL is cut: an image inside a ``data:`` URL is nothing to read."""

MAX_DOCUMENT_CHARACTERS = 200
"""A longer document is cut: there may be a hundred, and the whole stands in the request."""

MAX_VALUE_CHARACTERS = 1_000
"""A longer body is cut, where nothing is known of what it says."""

MIN_TEXT_COLUMNS = 10
"""The room that is left for text beside its indentation on a terminal that is narrower than any."""

_PIPE_WIDTH = 1_000
"""Wide enough for any table whose cells are bounded, where no terminal sets a width (rule 2)."""

Line = tuple[int, Text]
"""A line and the columns by which it, and what wraps from it, is indented."""


def open_console(out: TextIO) -> Console:
    """Open a console on `out`; rich's own guesses about colours and widths end at a pipe."""
    is_terminal = out.isatty()
    return Console(
        file=out,
        force_terminal=is_terminal,
        width=None if is_terminal else _PIPE_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )


def print_call(console: Console, call: RecordedCall, *, zone: tzinfo | None = None) -> None:
    """Print a call in full: what was asked, what came back, and how it went."""
    for indent, text in _call_lines(call, zone):
        width = max(console.width - indent, MIN_TEXT_COLUMNS)
        lines = text.wrap(console, width) if console.is_terminal else text.split(allow_blank=True)
        for line in lines:
            console.print(Text(" " * indent).append_text(line), soft_wrap=True)


def print_unobserved(console: Console, unobserved: Sequence[UnobservedCalls]) -> None:
    """Print a paragraph about calls that are in no row; nothing where there are none."""
    if unobserved:
        text = Text(f"\n{describe_unobserved(unobserved)}", style="yellow")
        console.print(text, soft_wrap=not console.is_terminal)


def _call_lines(call: RecordedCall, zone: tzinfo | None) -> Iterator[Line]:
    yield from _head_lines(call, zone)
    if call.tools:
        yield from _title("tools on offer")
        for tool in call.tools:
            yield 2, _tool(tool)
    yield from _title("request")
    yield from _request_lines(call)
    yield from _title("answer")
    answer = [*_answer_lines(call)]
    yield from answer or [(2, Text(_why_empty(call), style="dim"))]


def _request_lines(call: RecordedCall) -> Iterator[Line]:
    for message in call.input_messages:
        yield from _message_lines(message)
    if call.query is not None:
        yield 2, Text("query", style="bold cyan")
        yield 4, Text(escape(call.query))
    for document in call.documents:
        yield from _document_lines(document)
    is_told = call.input_messages or call.documents or call.query is not None
    if not (is_told or call.makes_content):
        yield from _value_lines(call.request)


def _answer_lines(call: RecordedCall) -> Iterator[Line]:
    several = len(call.output_messages) > 1
    for message in call.output_messages:
        yield from _message_lines(message, f"output {message.index}" if several else "")
    for document in call.ranking:
        yield from _document_lines(document)
    if call.sound is not None:
        yield 4, Text("(audio) ", style="italic").append(escape_line(call.sound))
    if call.verdict is not None:
        yield 2, Text(escape_line(call.verdict))
    elif not (call.output_messages or call.ranking or call.makes_content):
        yield from _value_lines(call.response)


def _head_lines(call: RecordedCall, zone: tzinfo | None) -> Iterator[Line]:
    summary, span, metadata = call.summary, call.span, call.metadata
    started = local_time(summary.start_ns, zone)
    head = Text(f"{summary.name} ", style="bold").append_text(cell(summary.model))
    yield 0, head.append("  ").append_text(outcome_cell(summary, call.error_type))
    yield _fact(
        "started", f"{started:%Y-%m-%d %H:%M:%S}.{started.microsecond // 1000:03d} {started:%z}"
    )
    yield _fact("took", ", ".join(_timings(call)))
    yield _fact("span", summary.span_id)
    yield _fact("trace", summary.trace_id)
    if span.parent_span_id:
        yield _fact("parent", span.parent_span_id)
    upstream = metadata.get(MetadataMember.UPSTREAM)
    address = span.attributes.get("server.address")
    if upstream or address:
        yield _fact("upstream", " at ".join(str(part) for part in (upstream, address) if part))
    if call.request_id:
        yield _fact("request id", call.request_id)
    yield _fact("tokens", ", ".join(_tokens(call)) or "none reported")
    if call.cost_usd is not None:
        source = metadata.get(MetadataMember.COST_SOURCE)
        yield _fact(
            "cost", f"{format_dollars(call.cost_usd)} USD" + (f" ({source})" if source else "")
        )
    if call.finish_reason or call.gives_reason:
        yield _fact("finish", call.finish_reason or "none came")
    for name, attribute in (
        ("session", SpanAttributes.SESSION_ID),
        ("user", SpanAttributes.USER_ID),
    ):
        if value := call.text(attribute):
            yield _fact(name, value)
    if call.tags:
        yield _fact("tags", ", ".join(call.tags))
    if span.status_message:
        yield _fact("error", span.status_message, style="red")
    if isinstance(anomalies := metadata.get(MetadataMember.ANOMALIES), list):
        yield _fact("anomalies", ", ".join(str(name) for name in anomalies), style="yellow")
    if call.parameters:
        yield _fact("parameters", _compact(call.parameters))
    yield _fact("delivery", _delivery(call))
    shown = {
        MetadataMember.UPSTREAM,
        MetadataMember.REQUEST_ID,
        MetadataMember.ANOMALIES,
        MetadataMember.OUTCOME,
        MetadataMember.COST_SOURCE,
    }
    if rest := {key: value for key, value in metadata.items() if key not in shown}:
        yield _fact("metadata", _compact(rest))


def _why_empty(call: RecordedCall) -> str:
    if call.metadata.get(MetadataMember.CONTENT_HIDDEN_BY):
        return "hidden, as the client asked"
    if call.span.attributes.get("output.value") == REDACTED:
        return "hidden by the settings"
    return "nothing that could be recorded"


def _message_lines(message: RecordedMessage, place: str = "") -> Iterator[Line]:
    title = Text(escape_line(message.role or "no role"), style="bold cyan")
    for note in (message.name, message.tool_call_id, place):
        if note:
            title.append(f"  {escape_line(note)}", style="not bold dim")
    yield 2, title
    for part in message.parts:
        if part.kind == "text":
            yield 4, Text(escape(part.text))
        elif part.call is not None:
            yield from _tool_call_lines(part.call)
        elif part.kind in {"reasoning", "refusal"}:
            yield 4, Text(f"({part.kind}) ", style="italic").append(escape(part.text))
        else:
            yield 4, Text(f"({escape_line(part.kind)}) {_short_url(part.text)}", style="italic")
    in_place = [part.call for part in message.parts]
    for call in message.tool_calls:
        if call not in in_place:
            yield from _tool_call_lines(call)


def _document_lines(document: RecordedDocument) -> Iterator[Line]:
    """Tell of a document in a line, or in what a narrow terminal makes of it."""
    number = "document" if document.index is None else f"document {document.index}"
    line = Text(number, style="bold cyan")
    if document.score is not None:
        line.append(f"  {document.score:.4g}", style="not bold")
    if document.text:
        text = _beginning(document.text, MAX_DOCUMENT_CHARACTERS)
        line.append(f"  {text}", style="not bold default")
    yield 2, line


def _value_lines(value: object) -> Iterator[Line]:
    """Tell of a body as it came; nothing of one that was hidden or not kept."""
    if value is None or value == REDACTED:
        return
    text = value if isinstance(value, str) else _compact(value)
    yield 2, Text(_beginning(text, MAX_VALUE_CHARACTERS))


def _beginning(text: str, limit: int) -> str:
    """A text as one line, or where it is long its beginning and how long it is."""
    if len(text) <= limit:
        return escape_line(text)
    return f"{escape_line(text[:limit])}... ({len(text)} characters)"


def _tool_call_lines(call: ToolCall) -> Iterator[Line]:
    title = Text("-> ", style="magenta").append(escape_line(call.name or "no name"), style="bold")
    if call.id:
        title.append(f"  {escape_line(call.id)}", style="not bold dim")
    yield 4, title
    yield 7, Text(escape(_pretty(call.arguments)))


def _tool(tool: Tool) -> Text:
    schema = tool.parameters
    properties = schema.get("properties") if isinstance(schema, dict) else None
    names = ", ".join(properties) if isinstance(properties, dict) else ""
    line = Text(escape_line(f"{tool.name or tool.type}({names})"), style="bold")
    if tool.description:
        line.append(f"  {escape_line(tool.description)}", style="not bold dim")
    return line


def _timings(call: RecordedCall) -> Iterator[str]:
    yield format_duration(call.duration_ns)
    if call.ttft_ms is not None:
        yield f"first token after {format_duration(call.ttft_ms * 1e6)}"


def _tokens(call: RecordedCall) -> Iterator[str]:
    """Tell counts as reported; details are parts of them (``span-contract.md`` 1.4)."""
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


def _title(words: str) -> Iterator[Line]:
    yield 0, Text()
    yield 0, Text(words, style="bold underline")


def _fact(name: str, value: str, *, style: str = "") -> Line:
    # What is longer than a line, such as an id, is not folded (rule 2).
    text = Text(f"{name:<11} ", style="dim", overflow="ignore")
    return 2, text.append(escape_line(value), style=f"not dim {style}")


def _pretty(arguments: str) -> str:
    """Spread JSON arguments over several lines; leave anything else as it is."""
    try:
        return json.dumps(decode_json(arguments), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return arguments


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _short_url(url: str) -> str:
    return _beginning(url, MAX_URL_CHARACTERS)
