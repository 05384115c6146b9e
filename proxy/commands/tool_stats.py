"""``spantap stats --by tool``: what agents' tools did, by the rows of tools.

Rules, beside those of :mod:`proxy.commands.stats`:

1. A tool that was called and never answered is told of answers' own columns, and so of all calls of
   agents, or of those that a condition on runs chooses: any other holds for a tool's row or for its
   call, and not for both. Where it is not known there is a dash.
2. The time of a tool is an upper bound: from the end of the answer that called it to the request
   that brought its result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.text import Text

from proxy.commands.table import Column, cell, format_duration, print_rows
from proxy.reading.record import encode_line
from telemetry.store.summing import NO_RANKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console

    from codec.text.jsontext import JsonObject
    from telemetry.finding.filter import Filter
    from telemetry.store.reader import StoreReader
    from telemetry.store.summing import CallSums, Ranks

_OF_RUNS: Final = frozenset({"session", "client", "conversation", "run", "launch"})
"""Keys whose columns are alike in all rows of a run."""

_KEY = Column("tool", 16, rank=1, may_be_cut=True)

_NUMBERS = (
    Column("calls", 6, rank=4, is_number=True),
    Column("answered", 8, rank=2, is_number=True),
    Column("errors", 6, rank=3, is_number=True),
    Column("unanswered", 10, rank=5, is_number=True),
    Column("took p50", 8, rank=6, is_number=True),
    Column("p90", 8, rank=7, is_number=True),
    Column("p99", 8, rank=8, is_number=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSums:
    """What the calls of a tool come to.

    Attributes:
        key: its name; ``None`` for all tools.
        answered: calls whose result came.
        errors: results that say that they are none.
        calls: all calls of it, ``None`` where that is not known (rule 1).
    """

    key: str | None
    answered: int
    errors: int
    took: Ranks
    calls: int | None

    @property
    def unanswered(self) -> int | None:
        """Calls whose result never came; of an open run it may be to come."""
        return None if self.calls is None else self.calls - self.answered


def sum_tools(reader: StoreReader, wanted: Filter) -> tuple[list[ToolSums], ToolSums | None]:
    """Sum tools up, each and all of them; the filter is chosen already."""
    asked = None
    if all(one.key in _OF_RUNS for one in wanted.conditions):
        asked = reader.tool_calls()
    reader.choose("kind = 'TOOL' AND status <> 'UNSET'")  # those without have no result
    reader.choose_all_spans()
    groups, all_tools = reader.sums("tool")
    by_name = {str(one.key): one for one in groups}
    names = {*by_name, *(asked.counts if asked is not None else ())}
    tools = []
    for name in names:
        calls = None
        if asked is not None and name not in asked.unsure:
            calls = asked.counts[name]
        tools.append(_make_sums(name, by_name.get(name), calls))
    if not tools:
        return [], None
    known = [one.calls for one in tools]
    total = None if None in known else sum(calls for calls in known if calls is not None)
    tools.sort(key=lambda one: (-one.answered, -(one.calls or 0), one.key or ""))
    return tools, _make_sums(None, all_tools, total)


def _make_sums(name: str | None, sums: CallSums | None, calls: int | None) -> ToolSums:
    answered = 0 if sums is None else sums.calls
    return ToolSums(
        key=name,
        answered=answered,
        errors=0 if sums is None else sums.errors,
        took=NO_RANKS if sums is None else sums.took,
        # Of a run that was removed in part the calls may be gone.
        calls=None if calls is None or calls < answered else calls,
    )


def show_tools(
    console: Console, tools: Iterable[ToolSums], total: ToolSums, *, as_json: bool
) -> None:
    """Show a row per tool, and one of all of them."""
    if as_json:
        for one in (*tools, total):
            console.out(encode_line(_build_record(one)))
        return
    columns = (_KEY, *_NUMBERS)
    rows = [dict(zip(columns, _cells(one), strict=True)) for one in (*tools, total)]
    print_rows(console, columns, rows)


def _cells(sums: ToolSums) -> Iterator[Text]:
    yield Text("all", style="bold") if sums.key is None else cell(sums.key or None)
    yield cell(sums.calls)
    yield cell(sums.answered)
    yield Text(str(sums.errors), style="red" if sums.errors else "")
    yield cell(sums.unanswered)
    for rank_ns in sums.took[1:]:
        yield cell(None if rank_ns is None else format_duration(rank_ns))


def _build_record(sums: ToolSums) -> JsonObject:
    names = ("p50", "p90", "p99")
    ranks = {
        name: None if rank_ns is None else rank_ns / 1e6
        for name, rank_ns in zip(names, sums.took[1:], strict=True)
    }
    return {
        "by": None if sums.key is None else "tool",
        "key": sums.key or None,
        "calls": sums.calls,
        "answered": sums.answered,
        "errors": sums.errors,
        "unanswered": sums.unanswered,
        "duration_ms": {"calls": sums.took.calls, **ranks},
    }
