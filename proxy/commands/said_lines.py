"""What was said in a call, as lines for a terminal: what is new, the answer, what was said before.

A call that continues another one has that call's messages again. They are one line, with how much
of the request the provider's cache had. What agents added to a message is folded as well, and a
long result of a tool is cut, unless all is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from proxy.commands.message_lines import (
    document_lines,
    fold_message,
    long_text_lines,
    message_lines,
    value_lines,
)
from proxy.commands.page_lines import title_lines
from proxy.escape import escape, escape_line
from proxy.reading.call_order import Conversation, is_system, order_messages
from proxy.reading.growth import read_growth
from proxy.reading.message_digests import measure_message
from proxy.reading.tool_results import find_error, name_calls, read_error
from telemetry.facts import ID_DIGITS
from telemetry.privacy.json_strings import REDACTED
from telemetry.semconv import MetadataMember

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from proxy.commands.page_lines import Line
    from proxy.reading.call import RecordedCall
    from proxy.reading.call_place import CallPlace
    from proxy.reading.flat_messages import RecordedMessage

MAX_NEW: Final = 20
"""How many new messages are shown in their order: the results of some parallel tools."""

_HIDDEN: Final = "hidden by the settings"


def said_lines(call: RecordedCall, place: CallPlace, *, whole: bool) -> Iterator[Line]:
    """Show what was said in a call, or what a tool was asked and what it answered.

    Args:
        call: the call.
        place: where it stands.
        whole: fold nothing, and show the messages in the order in which they were sent.
    """
    messages = call.input_messages
    names = _name_results(call, place)
    said = _order_new(call, place)
    continues = said is not None
    yield from title_lines("new" if continues and not whole else "request")
    if whole:
        yield from _show(messages, names, whole=True)
    else:
        said = order_messages(messages) if said is None else said
        yield from _request_lines(said, names, continues=continues)
    yield from _asked_lines(call, whole=whole)
    if not messages and call.span.attributes.get("input.value") == REDACTED:
        yield 2, Text(_HIDDEN, style="dim")
    has_failed = call.summary.columns.kind == "TOOL" and call.summary.status == "ERROR"
    yield from title_lines("error" if has_failed else "answer")
    if has_failed and not whole and call.response_text not in {None, REDACTED}:
        answer = [(2, text) for _, text in long_text_lines(read_error(call.response_text))]
    else:
        answer = [*_answer_lines(call, whole=whole)]
    yield from answer or [(2, Text(_why_empty(call), style="dim"))]
    if said is None or whole:
        return
    for words, others, is_folded in (
        ("in between", said.between, True),
        ("earlier", said.earlier, False),
        ("older", said.older, True),
    ):
        if others:
            yield from title_lines(words)
            yield from _fold(others, names) if is_folded else _show(others, names)
    if continues:
        yield from title_lines("before")
        yield from _before_lines(call, place)


def _name_results(call: RecordedCall, place: CallPlace) -> dict[int, str]:
    """Name the results of tools: ``Read store.py ✓``, by the indices of their messages.

    A result without a known call has no name. Without a run nobody knows which tools failed.
    """
    earlier = () if place.continued is None else place.continued.output_messages
    found: dict[int, str] = {}
    called = name_calls(call.input_messages, earlier)
    for message, words in zip(call.input_messages, called, strict=True):
        sign = ""
        if place.failed is not None:
            sign = " ✓" if find_error(message, place.failed) is None else " ✗"
        if words is not None:
            found[message.index] = f"{words}{sign}"
    return found


def _order_new(call: RecordedCall, place: CallPlace) -> Conversation | None:
    """Order the messages that are new in a call; ``None`` if it continues no other, or has none."""
    if place.continued is None or not call.input_messages:
        return None
    new = call.input_messages[read_growth(call, place.continued).added_from :]
    if len(new) > MAX_NEW:
        return order_messages(new)
    return Conversation(system=(), question=(), between=(), latest=new, earlier=(), older=())


def _request_lines(
    said: Conversation, names: Mapping[int, str], *, continues: bool
) -> Iterator[Line]:
    yield from _fold(said.system, names)
    yield from _show(said.question, names)
    if said.between:
        words = f"({len(said.between)} messages in between: below)"
        yield 2, Text(words, style="dim")
    yield from _show(said.latest, names)
    if continues and not (said.question or said.latest):
        yield 2, Text("nothing: it repeats the request before", style="dim")


def _before_lines(call: RecordedCall, place: CallPlace) -> Iterator[Line]:
    """Show what the call before had already: system messages, and how much there is of others."""
    if place.continued is None:
        return
    growth = read_growth(call, place.continued)
    old = call.input_messages[: growth.added_from]
    for message in filter(is_system, old):
        indent, line = fold_message(message)
        yield indent, line.append("  (changed)" if growth.system_changed else "", style="yellow")
    others = [message for message in old if not is_system(message)]
    size = sum(map(measure_message, others))
    words = f"{len(others):,} message{'' if len(others) == 1 else 's'}, {size:,} characters"
    words += f", as in {place.continued.summary.span_id[:ID_DIGITS]} and its answer"
    yield 2, Text(words)
    cached, tokens = call.summary.columns.cached_tokens, call.summary.prompt_tokens
    if cached is not None and tokens is not None:
        words = f"{cached:,} of the request's {tokens:,} tokens came from the provider's cache"
        yield 2, Text(words)
    row = call.summary
    yield 2, Text(f"(all of it: spantap traces show {row.span_id[:ID_DIGITS]} --full)", style="dim")


def _show(
    messages: Iterable[RecordedMessage], names: Mapping[int, str], *, whole: bool = False
) -> Iterator[Line]:
    for message in messages:
        yield from message_lines(message, name=names.get(message.index, ""), whole=whole)


def _fold(messages: Sequence[RecordedMessage], names: Mapping[int, str]) -> Iterator[Line]:
    return (fold_message(one, names.get(one.index, "")) for one in messages)


def _asked_lines(call: RecordedCall, *, whole: bool) -> Iterator[Line]:
    """Show the request of a call that is not a conversation."""
    if call.query is not None:
        yield 2, Text("query", style="bold cyan")
        yield 4, Text(escape(call.query))
    for document in call.documents:
        yield from document_lines(document)
    is_shown = call.input_messages or call.documents or call.query is not None
    if not (is_shown or call.makes_content):
        yield from value_lines(call.request, whole=whole)


def _answer_lines(call: RecordedCall, *, whole: bool) -> Iterator[Line]:
    several = len(call.output_messages) > 1
    for message in call.output_messages:
        place = f"output {message.index}" if several else ""
        yield from message_lines(message, place, whole=whole)
    for document in call.ranking:
        yield from document_lines(document)
    if call.sound is not None:
        yield 4, Text("(audio) ", style="italic").append(escape_line(call.sound))
    if call.verdict is not None:
        yield 2, Text(escape_line(call.verdict))
    elif not (call.output_messages or call.ranking or call.makes_content):
        yield from value_lines(call.response, whole=whole)


def _why_empty(call: RecordedCall) -> str:
    if call.metadata.get(MetadataMember.CONTENT_HIDDEN_BY):
        return "hidden, as the client asked"
    if call.span.attributes.get("output.value") == REDACTED:
        return _HIDDEN
    return "nothing that could be recorded"
