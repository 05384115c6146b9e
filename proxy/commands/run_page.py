"""Shows the run of an agent on a terminal: a tree with times and bars, and what is known of it.

Sums are those of the run's own calls; its sub-agents have a separate line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from proxy.commands.amounts import format_duration, local_time, write_call_cost
from proxy.commands.page_lines import fact_line, member_lines, print_lines, title_lines
from proxy.commands.runs import describe_ending
from proxy.commands.sums_lines import sums_lines, write_longest, write_times
from proxy.commands.table import Column, cell, print_rows
from proxy.escape import escape_line
from proxy.reading.run_record import find_launch, find_preview, find_times
from proxy.reading.run_tree import MAX_DEPTH, count_too_deep
from proxy.reading.spent_time import measure_time
from telemetry.facts import NO_COLUMNS
from telemetry.launch_labels import find_name
from telemetry.reading.runs import MAX_TREE_ROWS
from telemetry.store.calls import is_call

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import tzinfo

    from rich.console import Console

    from codec.text.jsontext import JsonObject
    from proxy.commands.page_lines import Line
    from proxy.reading.run_tree import Node
    from telemetry.reading.runs import RunSums
    from telemetry.store.rows import SpanSummary

_BOUND_WORDS: Final = (
    "The time of a tool is an upper bound: from the end of the answer that called it to the request"
    " that brought its result."
)


def print_run(
    console: Console,
    sums: RunSums,
    nodes: Sequence[Node],
    metadata: JsonObject,
    *,
    ended_by: str | None,
    caller: SpanSummary | None = None,
    zone: tzinfo | None = None,
) -> None:
    """Print a run.

    Args:
        console: a terminal, whose width counts, or anything else.
        sums: its sums.
        nodes: its tree.
        metadata: the metadata of its agent's span.
        ended_by: how it has ended; ``None`` if not known.
        caller: the row of the tool that started it, for a sub-agent.
        zone: the time zone of the times; by default the local one.
    """
    print_lines(console, _head_lines(sums, nodes, ended_by))
    if caller is not None:
        of_run = "" if caller.columns.run is None else f" of run {caller.columns.run}"
        print_lines(console, [fact_line("started by", f"the tool {caller.name}{of_run}")])
    print_lines(console, title_lines("steps"))
    print_steps(console, nodes[:MAX_TREE_ROWS])
    print_lines(console, _notes(sums, nodes))
    if usage := [*member_lines(metadata.get("usage"), in_words=True)]:
        print_lines(console, title_lines("usage"))
        print_lines(console, usage)
    print_lines(console, title_lines("run"))
    print_lines(console, _fact_lines(sums, metadata, zone))


def _head_lines(sums: RunSums, nodes: Sequence[Node], ended_by: str | None) -> Iterator[Line]:
    head = Text(f"run {sums.run}", style="bold")
    if (launch := find_name(find_launch(sums))) is not None:
        head.append(f"  {escape_line(launch)}", "not bold")
    head.append("  ").append_text(describe_ending(sums, ended_by))
    yield 0, head
    if (preview := find_preview(sums)) is not None:
        yield fact_line("asked", preview)
    start_ns, end_ns = find_times(sums)
    so_far = " so far" if sums.agent is None else ""
    own, others = _list_calls(sums, nodes)
    rows = [node.row for node in nodes if node.row and node.row.columns.run == sums.run]
    times = measure_time(rows)
    split = write_times(times) if len(nodes) <= MAX_TREE_ROWS else ""
    took = f"{format_duration(end_ns - start_ns)}{so_far}"
    yield fact_line("took", f"{took}: {split}" if split else took)
    if split and len(rows) > 1:
        yield fact_line("longest", write_longest(times))
    yield from sums_lines(sums, own, others)


def _list_calls(
    sums: RunSums, nodes: Sequence[Node]
) -> tuple[list[SpanSummary], list[SpanSummary]]:
    """List the run's own calls in its tree, and those of its sub-agents."""
    calls = [node.row for node in nodes if node.row and is_call(node.row.columns.kind)]
    own = [row for row in calls if row.columns.run == sums.run]
    return own, [row for row in calls if row.columns.run != sums.run]


def _notes(sums: RunSums, nodes: Sequence[Node]) -> Iterator[Line]:
    if any(node.row is not None and node.row.columns.kind == "TOOL" for node in nodes):
        yield 0, Text(_BOUND_WORDS, style="dim")
    if too_deep := count_too_deep(nodes):
        steps = "1 step is" if too_deep == 1 else f"{too_deep:,} steps are"
        words = (
            f"{steps} left out, more than {MAX_DEPTH} levels deep; `show run:N` of a sub-agent "
            "begins with that one."
        )
        yield 0, Text(words, style="yellow")
    if len(nodes) > MAX_TREE_ROWS:
        words = f"These are the first {MAX_TREE_ROWS:,} steps; `kind:* run:{sums.run}` lists all."
        yield 0, Text(words, style="yellow")


def _fact_lines(sums: RunSums, metadata: JsonObject, zone: tzinfo | None) -> Iterator[Line]:
    start_ns, _ = find_times(sums)
    started = local_time(start_ns, zone)
    yield fact_line(
        "started", f"{started:%Y-%m-%d %H:%M:%S}.{started.microsecond // 1000:03d} {started:%z}"
    )
    if sums.agent is not None:
        yield fact_line("span", sums.agent.span_id)
        if sums.agent.columns.parent_span_id:
            yield fact_line("parent", sums.agent.columns.parent_span_id)
    known = sums.agent or sums.first_call
    if known is not None:
        columns = known.columns
        yield fact_line("trace", known.trace_id)
        if columns.conversation is not None:
            turn = "" if columns.turn is None else f", turn {columns.turn}"
            yield fact_line("belongs to", f"conversation {columns.conversation}{turn}")
        for name, value in (("session", columns.session), ("user", columns.user)):
            if value:
                yield fact_line(name, value)
        if client := columns.client or (sums.first_call and sums.first_call.columns.client):
            yield fact_line("client", client)
    rest = {name: value for name, value in metadata.items() if name != "usage"}
    yield from member_lines(rest, in_words=True)


_BAR_WIDTHS: Final = ((160, 40), (120, 30), (0, 12))
"""How many columns a bar has, for terminals of at least a width."""

_SIGNS: Final = {"agent": "─", "call": "█", "tool": "░", "last": "└ ", "more": "├ ", "past": "│ "}
_PLAIN_SIGNS: Final = {
    "agent": "-",
    "call": "#",
    "tool": ":",
    "last": "`-",
    "more": "|-",
    "past": "| ",
}

_WHAT = Column("what", 20, rank=1, may_be_cut=True)
_TOOK = Column("took", 8, rank=2, is_number=True)
_AT = Column("at", 8, rank=4, is_number=True)
_IN = Column("in", 5, rank=5, is_number=True)
_OUT = Column("out", 4, rank=6, is_number=True)
_ID = Column("id", 8, rank=7, is_id=True)
_FINISH = Column("finish", 10, rank=8, may_be_cut=True)
_COST = Column("cost", 7, rank=9, is_number=True)
_CACHED = Column("cached", 6, rank=10, is_number=True)


def print_steps(console: Console, nodes: Sequence[Node]) -> None:
    """Print a line for each row of a tree, which has at least one."""
    bar_width = next(width for least, width in _BAR_WIDTHS if console.width >= least)
    bar = Column("", bar_width, rank=3)
    signs = _SIGNS if console.encoding.startswith("utf") else _PLAIN_SIGNS
    begin_ns = min(node.start_ns for node in nodes)
    whole_ns = max(max(node.end_ns for node in nodes) - begin_ns, 1)
    rows = []
    for node in nodes:
        row = node.row
        columns = NO_COLUMNS if row is None else row.columns
        rows.append(
            {
                _AT: Text(f"+{format_duration(node.start_ns - begin_ns)}", style="dim"),
                _TOOK: cell(format_duration(node.end_ns - node.start_ns)),
                _WHAT: _what(node, signs),
                bar: _bar(node, begin_ns, whole_ns, bar_width, signs),
                _IN: _amount(None if row is None else row.prompt_tokens),
                _CACHED: _amount(columns.cached_tokens),
                _OUT: _amount(None if row is None else row.completion_tokens),
                _COST: _amount(write_call_cost(columns)),
                _FINISH: _finish(row),
                _ID: Text(row.span_id if row else ""),
            }
        )
    order = (_AT, _TOOK, _WHAT, bar, _IN, _CACHED, _OUT, _COST, _FINISH, _ID)
    print_rows(console, order, rows)


def _amount(value: object) -> Text:
    return Text() if value is None else cell(value)


def _what(node: Node, signs: Mapping[str, str]) -> Text:
    """Name a row, after the lines that join it with the rows above."""
    text = Text(style="default")
    for at, is_last in enumerate(node.is_last):
        if at == len(node.is_last) - 1:
            text.append(signs["last" if is_last else "more"], style="dim")
        else:
            text.append("  " if is_last else signs["past"], style="dim")
    row = node.row
    if row is None or row.columns.kind == "AGENT":
        name = "agent" if row is None or row.name == "invoke_agent" else row.name
        text.append(escape_line(name), style="bold magenta")
        if node.depth and row is not None and row.columns.preview:
            text.append("  ").append_text(cell(row.columns.preview))
    elif row.columns.kind == "TOOL":
        words = row.columns.step or row.columns.tools or row.name
        text.append(escape_line(words), style="cyan")
    else:
        text.append(escape_line(row.model or row.name), style="bold")
    if node.tries > 1:
        text.append(f"  {node.tries} attempts", style="yellow")
    if row is not None and row.status == "ERROR":
        text.append(f"  {escape_line(row.columns.error_type or 'failed')}", style="red")
    return text


def _bar(node: Node, begin_ns: int, whole_ns: int, width: int, signs: Mapping[str, str]) -> Text:
    """Draw the time of a row within that of the run; at least one column.

    A tool has another sign, because its time is an upper bound: nobody saw it run.
    """
    first = min((node.start_ns - begin_ns) * width // whole_ns, width - 1)
    end = min(max(-(-(node.end_ns - begin_ns) * width // whole_ns), first + 1), width)
    kind = "agent" if node.row is None else node.row.columns.kind or ""
    sign = signs[kind.lower() if kind.lower() in signs else "call"]
    has_failed = node.row is not None and node.row.status == "ERROR"
    style = "red" if has_failed else {"AGENT": "dim", "TOOL": "cyan"}.get(kind, "")
    return Text(" " * first).append(sign * (end - first), style=style).append(" " * (width - end))


def _finish(row: SpanSummary | None) -> Text:
    if row is None:
        return Text("open", style="yellow")
    is_shown = is_call(row.columns.kind)
    return _amount(row.columns.finish_reason or row.outcome) if is_shown else Text()
