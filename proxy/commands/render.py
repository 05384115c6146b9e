"""Recorded calls on a terminal, for people: one in full (a table: :mod:`proxy.commands.table`).

Rules:

1. No foreign text reaches the terminal unescaped (:mod:`proxy.escape`), and none is
   read as markup.
2. An id is never cut and never wrapped. Without a terminal nothing is: a pipe has no width.
3. Colours need a terminal; each says something that a word beside it says too.
4. The clock is never read; times are shown in the zone given, by default the local one.
5. What is new in a conversation comes first, then the answer, then what was said before
   (:mod:`proxy.reading.call_order`). System messages and old ones are folded; the tools come last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from proxy.commands.call_facts import fact_lines, headline
from proxy.commands.message_lines import (
    document_lines,
    fold_message,
    message_lines,
    tool_line,
    value_lines,
)
from proxy.escape import escape, escape_line
from proxy.reading.call_order import order_messages
from telemetry.privacy.json_strings import REDACTED
from telemetry.semconv import MetadataMember

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import tzinfo

    from rich.console import Console

    from proxy.commands.message_lines import Line
    from proxy.reading.call import RecordedCall
    from proxy.reading.flat_messages import RecordedMessage

MIN_TEXT_COLUMNS = 10
"""The room that is left for text beside its indentation on a terminal that is narrower than any."""


def print_call(
    console: Console, call: RecordedCall, *, whole: bool = False, zone: tzinfo | None = None
) -> None:
    """Print a call in full: what was asked, what came back, and how it went (rule 5).

    Args:
        console: a terminal, on which lines are wrapped, or anything else.
        call: the call.
        whole: fold nothing, and print the messages in the order in which they were sent.
        zone: of the times that are shown; by default the local one.
    """
    print_lines(console, _call_lines(call, zone, whole=whole))


def print_lines(console: Console, lines: Iterable[Line]) -> None:
    """Print lines, on a terminal wrapped within their indentation."""
    for indent, text in lines:
        width = max(console.width - indent, MIN_TEXT_COLUMNS)
        wrapped = text.wrap(console, width) if console.is_terminal else text.split(allow_blank=True)
        for line in wrapped:
            console.print(Text(" " * indent).append_text(line), soft_wrap=True)


def _call_lines(call: RecordedCall, zone: tzinfo | None, *, whole: bool) -> Iterator[Line]:
    yield from headline(call)
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
    yield from fact_lines(call, zone)
    if call.tools:
        yield from _title("tools on offer")
        yield from (tool_line(tool, whole=whole) for tool in call.tools)


def _whole(messages: Iterable[RecordedMessage]) -> Iterator[Line]:
    for message in messages:
        yield from message_lines(message)


def _asked_lines(call: RecordedCall) -> Iterator[Line]:
    """Tell what is asked of calls that are no conversation."""
    if call.query is not None:
        yield 2, Text("query", style="bold cyan")
        yield 4, Text(escape(call.query))
    for document in call.documents:
        yield from document_lines(document)
    is_told = call.input_messages or call.documents or call.query is not None
    if not (is_told or call.makes_content):
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
