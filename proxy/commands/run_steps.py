"""The steps of a run on a terminal: its tree, a line each, with times and bars.

Rules, beside those of :mod:`proxy.commands.table`:

1. A bar stands for the time of a row within that of the run. That of a tool is of another shape,
   for its time is an upper bound: nobody saw it run. Where the output knows no such signs, others
   stand for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from proxy.commands.table import Column, cell, format_dollars, format_duration, print_rows
from proxy.escape import escape_line
from telemetry.call_columns import NO_COLUMNS
from telemetry.store.calls import is_call

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from proxy.reading.run_tree import Node
    from telemetry.store.rows import SpanSummary

_BAR_WIDTHS: Final = ((160, 40), (120, 30), (0, 12))
"""From which width of a terminal on a bar has how many columns."""

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
_COST = Column("cost", 6, rank=9, is_number=True)
_CACHED = Column("cached", 6, rank=10, is_number=True)


def print_steps(console: Console, nodes: Sequence[Node]) -> None:
    """Print a line for each row of a tree, of which there is one at least."""
    bar_width = next(width for least, width in _BAR_WIDTHS if console.width >= least)
    bar = Column("", bar_width, rank=3)
    signs = _SIGNS if console.encoding.startswith("utf") else _PLAIN_SIGNS
    begin_ns = min(node.start_ns for node in nodes)
    whole_ns = max(max(node.end_ns for node in nodes) - begin_ns, 1)
    rows = []
    for node in nodes:
        row = node.row
        columns = NO_COLUMNS if row is None else row.columns
        cost = columns.cost_usd
        rows.append(
            {
                _AT: Text(f"+{format_duration(node.start_ns - begin_ns)}", style="dim"),
                _TOOK: cell(format_duration(node.end_ns - node.start_ns)),
                _WHAT: _what(node, signs),
                bar: _bar(node, begin_ns, whole_ns, bar_width, signs),
                _IN: _amount(None if row is None else row.prompt_tokens),
                _CACHED: _amount(columns.cached_tokens),
                _OUT: _amount(None if row is None else row.completion_tokens),
                _COST: _amount(None if cost is None else format_dollars(cost)),
                _FINISH: _finish(row),
                _ID: Text(row.span_id if row else ""),
            }
        )
    order = (_AT, _TOOK, _WHAT, bar, _IN, _CACHED, _OUT, _COST, _FINISH, _ID)
    print_rows(console, order, rows)


def _amount(value: object) -> Text:
    return Text() if value is None else cell(value)


def _what(node: Node, signs: Mapping[str, str]) -> Text:
    """Name a row, below what stands above it."""
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
        text.append(escape_line(row.columns.tools or row.name), style="cyan")
    else:
        text.append(escape_line(row.model or row.name), style="bold")
    if row is not None and row.status == "ERROR":
        text.append(f"  {escape_line(row.columns.error_type or 'failed')}", style="red")
    return text


def _bar(node: Node, begin_ns: int, whole_ns: int, width: int, signs: Mapping[str, str]) -> Text:
    """Draw the time of a row; one column at least."""
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
    is_told = is_call(row.columns.kind)
    return _amount(row.columns.finish_reason or row.outcome) if is_told else Text()
