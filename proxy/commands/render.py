"""Shows a recorded call in full on a terminal, for people; a table is :mod:`proxy.commands.table`.

No foreign text reaches the terminal unescaped (:mod:`proxy.escape`) or is read as markup. Each
colour has a word beside it that says the same. An id is never cut or wrapped; without a terminal
nothing is, because a pipe has no width. The clock is never read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from proxy.commands.amounts import format_duration, write_call_cost
from proxy.commands.call_facts import call_fact_lines, head_lines
from proxy.commands.message_lines import tool_line
from proxy.commands.page_lines import fact_lines, member_lines, print_lines, title_lines
from proxy.commands.place_lines import place_lines
from proxy.commands.said_lines import said_lines
from proxy.commands.table import cell, outcome_cell
from proxy.escape import escape_line
from proxy.reading.call_place import NOWHERE
from telemetry.semconv import MetadataMember
from telemetry.store.calls import is_call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from rich.console import Console

    from proxy.commands.page_lines import Line
    from proxy.reading.call import RecordedCall
    from proxy.reading.call_place import CallPlace

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


def print_call(
    console: Console,
    call: RecordedCall,
    place: CallPlace = NOWHERE,
    *,
    whole: bool = False,
    zone: tzinfo | None = None,
) -> None:
    """Print a call in full: the request, the answer, and how the call went.

    Of a call that continues another one, what is new comes first, then the answer, then a line on
    the messages that the other one had. Of any other, the user's newest text comes first
    (:mod:`proxy.reading.call_order`). The tools come last.

    Args:
        console: a terminal, on which lines are wrapped, or anything else.
        call: the call.
        place: where it stands.
        whole: fold nothing, and print the messages in the order in which they were sent.
        zone: the time zone of the times; by default the local one.
    """
    print_lines(console, _call_lines(call, place, zone, whole=whole))


def _call_lines(
    call: RecordedCall, place: CallPlace, zone: tzinfo | None, *, whole: bool
) -> Iterator[Line]:
    yield from _headline(call)
    yield from place_lines(call.summary, place)
    yield from said_lines(call, place, whole=whole)
    yield from title_lines("call")
    yield from call_fact_lines(call, zone)
    if call.parameters:
        yield from title_lines("parameters")
        yield from member_lines(call.parameters, nesting=_PARAMETER_NESTING, whole=whole)
    if rest := {name: value for name, value in call.metadata.items() if name not in _APART}:
        yield from title_lines("metadata")
        yield from member_lines(rest, whole=whole)
    if heads := [*head_lines(call)]:
        yield from title_lines("heads")
        yield from heads
    if call.tools:
        yield from title_lines("tools on offer")
        yield from _offer_lines(call, place, whole=whole)


def _offer_lines(call: RecordedCall, place: CallPlace, *, whole: bool) -> Iterator[Line]:
    """Show the tools on offer; only their names, if the call before had the same."""
    if whole or place.continued is None or place.continued.tools != call.tools:
        yield from (tool_line(tool, whole=whole) for tool in call.tools)
        return
    names = ", ".join(escape_line(tool.name or tool.type) for tool in call.tools)
    yield 2, Text(f"{len(call.tools)}, as before: ", style="dim").append(names, style="not dim")


def _headline(call: RecordedCall) -> Iterator[Line]:
    """Say what was called, how it ended, what it took, and what went wrong if anything did."""
    row = call.summary
    is_tool = row.columns.kind == "TOOL"
    head = Text(escape_line((row.columns.step if is_tool else None) or row.name), style="bold")
    if is_call(row.columns.kind):
        head.append(" ").append_text(cell(row.model))
    yield 0, head.append("  ").append_text(outcome_cell(row, call.error_type))
    yield 2, Text(", ".join(_sum_up(call)), style="dim")
    if call.span.status_message:
        yield from fact_lines("error", call.span.status_message, style="red")


def _sum_up(call: RecordedCall) -> Iterator[str]:
    row = call.summary
    yield format_duration(call.duration_ns)
    if row.prompt_tokens is not None:
        cached = row.columns.cached_tokens
        yield f"{row.prompt_tokens:,} in" + (f" ({cached:,} cached)" if cached is not None else "")
    if row.completion_tokens is not None:
        yield f"{row.completion_tokens:,} out"
    if (cost := write_call_cost(row.columns)) is not None:
        yield cost
