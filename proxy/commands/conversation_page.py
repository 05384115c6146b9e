"""Shows a conversation on a terminal: what it comes to, and its turns with a line for each call.

Sums are those of the conversation's own calls; its sub-agents have a separate line. No span is
read, only rows, so that a conversation of two thousand calls appears at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from proxy.commands.amounts import describe_costs, format_duration, local_time, write_call_cost
from proxy.commands.page_lines import fact_line, print_lines
from proxy.commands.sums_lines import sums_lines, write_longest, write_times
from proxy.commands.table import Column, cell, print_rows
from proxy.escape import escape_line
from proxy.reading.record import encode_line
from proxy.reading.spent_time import measure_time
from proxy.reading.turns import MAX_TURN_ROWS, build_conversation_record, read_turns
from telemetry.facts import ID_DIGITS, MAX_PREVIEW_CHARS, tell_what
from telemetry.launch_labels import find_name
from telemetry.reading.calls import make_clock
from telemetry.store.calls import is_call

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import tzinfo

    from rich.console import Console

    from proxy.commands.page_lines import Line
    from proxy.reading.turns import Turn
    from telemetry.reading.calls import Calls
    from telemetry.reading.conversations import ConversationSums
    from telemetry.store.rows import SpanSummary

FAMILY_SECONDS: Final = 1.0
"""How long sub-agents are looked for."""

_ID = Column("id", ID_DIGITS, rank=1, is_id=True)
_TOOK = Column("took", 7, rank=2, is_number=True)
_IN = Column("in", 5, rank=5, is_number=True)
_CACHED = Column("cached", 6, rank=6, is_number=True)
_OUT = Column("out", 4, rank=7, is_number=True)
_COST = Column("cost", 7, rank=4, is_number=True)
_WHAT = Column("what", 24, rank=3, may_be_cut=True)
_COLUMNS = (_ID, _TOOK, _IN, _CACHED, _OUT, _COST, _WHAT)


def show_conversation(
    reader: Calls, number: int, console: Console, *, as_json: bool, zone: tzinfo | None = None
) -> bool:
    """Show a conversation; return false if none has that number.

    Args:
        reader: reads the store.
        number: of the conversation.
        console: a terminal, whose width counts, or anything else.
        as_json: one JSON object, for programs.
        zone: the time zone of the times; by default the local one.

    Raises:
        StoreError: the store cannot be read.
    """
    conversation = reader.of_conversation(number)
    sums = conversation.sum()
    if sums is None:
        return False
    turns, is_whole = read_turns(reader, number)
    family = conversation.family(make_clock(FAMILY_SECONDS))
    if as_json:
        record = build_conversation_record(sums, turns, family.sub_runs, is_whole=is_whole)
        console.out(encode_line(record))
        return True
    rows = reader.rows_of([one.seq for one in family.rows])
    others = [
        row for row in rows if row.columns.conversation != number and is_call(row.columns.kind)
    ]
    print_lines(console, _head_lines(sums, turns, others, zone))
    if family.sub_runs:
        names = ", ".join(f"run:{run}" for run in family.sub_runs)
        print_lines(console, [fact_line("", names)])
    titles: Mapping[str, int] = {}
    widths = _measure(turns)
    for turn in turns:
        print_lines(console, _turn_lines(turn))
        cells = [dict(zip(widths, _row(row, turn), strict=True)) for row in turn.calls]
        titles = print_rows(console, widths, cells, above=titles) if cells else titles
    print_lines(console, _notes(sums, is_whole=is_whole))
    return True


def _head_lines(
    sums: ConversationSums,
    turns: Sequence[Turn],
    others: Sequence[SpanSummary],
    zone: tzinfo | None,
) -> Iterator[Line]:
    head = Text(f"conversation {sums.number}", style="bold")
    for name in filter(None, (find_name(sums.launch), sums.client)):
        head.append(f"  {escape_line(name)}", "not bold")
    yield 0, head
    if sums.preview is not None:
        yield fact_line("asked", sums.preview)
    began, ended = local_time(sums.start_ns, zone), local_time(sums.end_ns, zone)
    yield fact_line("from", f"{began:%Y-%m-%d %H:%M:%S} to {ended:%Y-%m-%d %H:%M:%S}")
    rows = [row for turn in turns for row in turn.rows]
    times = measure_time(rows)
    yield fact_line("took", write_times(times))
    if len(rows) > 1:
        yield fact_line("longest", write_longest(times))
    yield fact_line("turns", f"{len(turns):,}")
    yield from sums_lines(sums, [row for turn in turns for row in turn.calls], others)
    if sums.session:
        yield fact_line("session", sums.session)


def _turn_lines(turn: Turn) -> Iterator[Line]:
    """Show what the user said, what followed, and where the time went."""
    sums, times = turn.sum(), turn.measure()
    yield 0, Text()
    title = "other calls" if turn.number is None else f"turn {turn.number}"
    head = Text(title, style="bold underline")
    yield 0, head.append("  ", "not underline").append_text(cell(turn.asked, MAX_PREVIEW_CHARS))
    parts = [f"run:{run}" for run in turn.runs]
    parts.append(f"{format_duration(sums.end_ns - sums.start_ns)}: {write_times(times)}")
    parts.append(_count(sums.calls, "call", sums.errors))
    if sums.tools:
        parts.append(_count(sums.tools, "tool", sums.tool_errors))
    if sums.cost_usd is not None:
        parts.append(describe_costs(sums.cost_usd, sums.list_usd, sums.unpriced))
    yield 2, Text("; ".join(parts), style="dim")
    if len(turn.rows) > 1:
        yield 2, Text(f"longest: {escape_line(write_longest(times))}", style="dim")


def _count(count: int, noun: str, failed: int) -> str:
    words = f"{count:,} {noun}{'' if count == 1 else 's'}"
    return f"{words}, {failed:,} failed" if failed else words


def _measure(turns: Sequence[Turn]) -> Sequence[Column]:
    """Return the columns, so wide that the tables of all turns have the same."""
    cells = [[*_row(row, turn)] for turn in turns for row in turn.calls]
    return [
        column._replace(width=max([column.width, *(row[at].cell_len for row in cells)]))
        if not (column.may_be_cut or column.is_id)
        else column
        for at, column in enumerate(_COLUMNS)
    ]


def _row(row: SpanSummary, turn: Turn) -> Iterator[Text]:
    columns = row.columns
    yield Text(row.span_id, style="bold")
    yield cell(format_duration(row.end_ns - row.start_ns))
    yield cell(row.prompt_tokens)
    yield cell(columns.cached_tokens)
    yield cell(row.completion_tokens)
    yield cell(write_call_cost(columns))
    what = tell_what(row)
    if columns.step is None and what == turn.asked:  # it stands above
        what = f"→ {', '.join((columns.tools or 'answer').splitlines())}"
    text = cell(what, MAX_PREVIEW_CHARS)
    if row.status == "ERROR":
        text = Text(f"failed {escape_line(columns.error_type or row.outcome)}", style="red")
        text.append(f"  {escape_line(columns.step)}" if columns.step else "", style="default")
    yield text


def _notes(sums: ConversationSums, *, is_whole: bool) -> Iterator[Line]:
    if not is_whole:
        words = (
            f"These are the first {MAX_TURN_ROWS:,} steps; `spantap traces"
            f" conversation:{sums.number}` lists all calls."
        )
        yield 0, Text(words, style="yellow")
    yield 0, Text()
    words = "spantap traces show ID shows a call, and show run:N a turn with its tools."
    yield 0, Text(words, style="dim")
