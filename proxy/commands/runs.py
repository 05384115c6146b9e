"""``spantap traces --runs``: the runs of agents, a row each, the newest or largest first.

A run is listed if one of its calls fits the filter, or a row of another kind if the filter names
that kind. Sums are those of the whole run, without its sub-agents, which are separate runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from proxy.commands.amounts import format_cost, format_duration, local_time
from proxy.commands.table import Column, cell, find_title, print_rows
from proxy.escape import escape_line
from proxy.reading.record import encode_line
from proxy.reading.run_record import build_run_record, find_ending, find_times
from proxy.reading.run_record import find_title as find_run_title
from telemetry.facts import MAX_PREVIEW_CHARS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from rich.console import Console

    from telemetry.reading.calls import Calls
    from telemetry.reading.runs import RunSums

COLUMNS = (
    Column("run", 5, rank=1, is_number=True),
    Column("time", 14, rank=8),
    Column("client", 8, rank=11, may_be_cut=True),
    Column("what", 16, rank=3, may_be_cut=True),
    Column("calls", 5, rank=4, is_number=True),
    Column("tools", 5, rank=5, is_number=True),
    Column("in", 6, rank=7, is_number=True),
    Column("cached", 6, rank=10, is_number=True),
    Column("out", 5, rank=9, is_number=True),
    Column("cost", 7, rank=9, is_number=True),
    Column("took", 7, rank=6, is_number=True),
    Column("ended", 11, rank=2, may_be_cut=True),
)
"""The columns in their order on a line."""


def list_runs(
    reader: Calls,
    limit: int,
    console: Console,
    marks: set[str],
    *,
    largest: str = "",
    as_json: bool,
) -> int:
    """List runs with a chosen row; return their number, at most one above the limit.

    Args:
        reader: has chosen the rows.
        limit: how many to list at most.
        console: where they go.
        marks: gets the marks that the table shows.
        largest: the fact of which the runs with the most come first; empty for the newest.
        as_json: one JSON object per line, instead of a table.

    Raises:
        StoreError: the store cannot be read.
    """
    found = reader.runs(limit + 1, largest)
    if as_json:
        for sums in found[:limit]:
            console.out(encode_line(build_run_record(sums, find_ending(sums, reader))))
    elif found:
        runs = [(sums, find_ending(sums, reader)) for sums in found[:limit]]
        print_runs(console, runs, kept=find_title(largest), marks=marks)
    return len(found)


def print_runs(
    console: Console,
    runs: Sequence[tuple[RunSums, str | None]],
    zone: tzinfo | None = None,
    *,
    kept: str = "",
    marks: set[str] | None = None,
) -> None:
    """Print a row for each run, with how it ended if that is known."""
    rows = [dict(zip(COLUMNS, _row(sums, ended_by, zone), strict=True)) for sums, ended_by in runs]
    print_rows(console, COLUMNS, rows, kept=kept, marks=marks)


def describe_ending(sums: RunSums, ended_by: str | None) -> Text:
    """Say how a run has ended, or that it is open."""
    if sums.agent is None:
        return Text("open", style="yellow")
    has_failed = sums.agent.status == "ERROR"
    words = escape_line(ended_by or "ended") + (", failed" if has_failed else "")
    return Text(words, style="red" if has_failed else "green")


def _row(sums: RunSums, ended_by: str | None, zone: tzinfo | None) -> Iterator[Text]:
    start_ns, end_ns = find_times(sums)
    rows = [row for row in (sums.agent, sums.first_call) if row is not None]
    yield Text(str(sums.run), style="bold")
    yield Text(f"{local_time(start_ns, zone):%m-%d %H:%M:%S}")
    yield cell(next((row.columns.client for row in rows if row.columns.client), None))
    yield _describe_question(sums)
    yield _with_failed(sums.calls, sums.errors)
    yield _with_failed(sums.tools, sums.tool_errors)
    yield cell(sums.prompt_tokens)
    yield cell(sums.cached_tokens)
    yield cell(sums.completion_tokens)
    star = "*" if sums.unpriced else ""
    cost = None if sums.cost_usd is None else format_cost(sums.cost_usd, sums.list_usd)
    yield cell(cost and f"{cost}{star}")
    yield cell(format_duration(end_ns - start_ns))
    yield describe_ending(sums, ended_by)


def _describe_question(sums: RunSums) -> Text:
    """Write launch and question, after an arrow if another agent asked it."""
    is_sub_agent = sums.agent is not None and sums.agent.columns.parent_span_id is not None
    asked = cell(find_run_title(sums), MAX_PREVIEW_CHARS)
    return Text("↳ ").append_text(asked) if is_sub_agent else asked


def _with_failed(count: int, failed: int) -> Text:
    """Write a number, in red if some of them failed."""
    return Text(f"{count}{'!' if failed else ''}", style="red" if failed else "")
