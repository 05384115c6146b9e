"""``spantap stats``: sums of the calls in the store, also while a proxy writes it.

An unknown number is a dash, or ``null``; one that is known only for some calls says for how many.
Tokens are those that providers reported, zero if none did. Groups are sorted by their number of
calls, hours by time; the last row has all calls.

With ``--by limit`` the rows are rate limits (:mod:`proxy.commands.stats_limits`), with ``--by
conversation`` and ``--by run`` the dearest of these (:mod:`proxy.commands.stats_dearest`).

With ``--by tool`` the rows are tools of agents. The time of a tool is an upper bound: from the end
of the answer that called it to the request that brought its result. Calls without a result are
counted from the columns of answers, for all calls of agents, or for those that a condition on runs
chooses. With any other condition the count is not known, because it would hold for a tool's row or
for its call, but not for both.

The exit status is 0; 1 if the store is missing or cannot be read; 2 if a filter is wrong, or a
model has no price.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.text import Text

from proxy.commands.amounts import format_duration
from proxy.commands.console import open_console
from proxy.commands.stats_table import build_sums_record, print_sums, reprice
from proxy.commands.store_command import StoreCommand
from proxy.commands.table import Column, cell, print_rows
from proxy.reading.chosen_calls import read_filter
from proxy.reading.costs import describe_input_share, explain_newest
from proxy.reading.record import encode_line
from telemetry.facts import NUMBERED
from telemetry.finding.where import Rows, ask_word
from telemetry.reading.sums import GROUPS, NO_RANKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import TextIO

    from rich.console import Console

    from codec.text.jsontext import JsonObject
    from telemetry.finding.filter import Filter
    from telemetry.pricing.price_table import PriceTable
    from telemetry.pricing.repricing import Repricing
    from telemetry.reading.calls import Calls
    from telemetry.reading.sums import CallSums, Ranks

DEFAULT_GROUPS: Final = 20
"""How many groups are shown: about a screen."""

LIMIT: Final = "limit"
"""The group of those who ask about rate limits."""

_NOTHING: Final = {"tool": "no call of a tool", LIMIT: "no call that says what is left of a limit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsOptions:
    """The options of ``spantap stats``.

    Attributes:
        words: a filter (:mod:`telemetry.finding.filter`), word by word.
        since: the value of one more ``since:`` of the filter.
        by: what a group has in common (:data:`telemetry.reading.sums.GROUPS`,
            :data:`telemetry.facts.NUMBERED`), or :data:`LIMIT`.
        price_as: a model; the sums also say what the calls would have cost at its price.
        limit: how many groups to show at most; by default :data:`DEFAULT_GROUPS`, and all hours.
        as_json: one JSON object per line, for programs, instead of a table for people.
    """

    words: Sequence[str] = ()
    since: str | None = None
    by: str = ""
    price_as: str | None = None
    limit: int | None = None
    as_json: bool = False


def run_stats(
    store: Path,
    options: StatsOptions,
    *,
    prices: Callable[[], PriceTable],
    out: TextIO,
    err: TextIO,
    now_ns: Callable[[], int] = time.time_ns,
) -> int:
    """Show what the calls come to.

    Args:
        store: the store's file.
        options: which calls to sum up, and how to show the sums.
        prices: gives the user's own prices.
        out: for the sums.
        err: for everything else.
        now_ns: the clock, since the epoch; what ``since:2h`` counts back from.

    Returns:
        The exit status.
    """
    with StoreCommand("spantap stats", store, err) as command:
        wanted = read_filter(options.words, options.since, now_ns())
        if words := _contradict(wanted, options):
            return command.refuse(words)
        repricing = None
        if options.price_as is not None:
            from telemetry.pricing.repricing import find_repricing  # noqa: PLC0415 - rare

            repricing = find_repricing(options.price_as, prices(), now_ns=now_ns())
        with command.open_store() as reader:
            chosen = reader.that(wanted.where())
            if options.by == "tool":
                left_out = _show_tools(chosen, wanted, options, out)
            elif options.by == LIMIT:
                from proxy.commands.stats_limits import show_limits  # noqa: PLC0415 - reads spans

                limit = options.limit or DEFAULT_GROUPS
                left_out = show_limits(
                    chosen, limit, command, open_console(out), as_json=options.as_json
                )
            else:
                left_out = _show_calls(chosen, options, repricing, command, open_console(out))
                if left_out is not None and not options.as_json:
                    command.tell_gaps(explain_newest(reader, wanted.where()))
        if left_out is None:
            fits = f" that fits {wanted}" if wanted else ""
            what = _NOTHING.get(options.by, "no call")
            command.tell(f"{what}{fits} is recorded in {store} yet.")
        elif left_out:
            command.tell(f"{left_out} more by {options.by}; --limit N shows more.")
    return command.status


def _contradict(wanted: Filter, options: StatsOptions) -> str | None:
    """Say why options do not go together; ``None`` if they do."""
    if wanted.texts:
        return "texts are for `spantap traces`: sums are of conditions."
    if options.price_as is not None and options.by in {"tool", LIMIT}:
        return f"--price-as is for calls: a {options.by} has no price."
    if options.price_as is not None and options.by in NUMBERED:
        return f"--price-as goes with {options.by}:N, not with --by."
    return None


def _show_tools(reader: Calls, wanted: Filter, options: StatsOptions, out: TextIO) -> int | None:
    """Show each tool and the sum of all tools, as :func:`_show_calls` does for groups of calls."""
    tools, total = _sum_tools(reader, wanted)
    if total is None:
        return None
    limit = options.limit or DEFAULT_GROUPS
    _print_tools(open_console(out), tools[:limit], total, as_json=options.as_json)
    return max(0, len(tools) - limit)


def _show_calls(
    reader: Calls,
    options: StatsOptions,
    repricing: Repricing | None,
    command: StoreCommand,
    console: Console,
) -> int | None:
    """Show groups and all calls, and explain them; return how many groups are left out.

    ``None`` if there is no call; then nothing is shown.
    """
    marks = set[str]()
    if options.by in NUMBERED:
        from proxy.commands.stats_dearest import show_dearest  # noqa: PLC0415 - rare

        limit = options.limit or DEFAULT_GROUPS
        left_out = show_dearest(
            reader, options.by, limit, console, as_json=options.as_json, marks=marks
        )
    else:
        left_out = _show_groups(reader, options, repricing, command, console, marks=marks)
    command.tell_marks(console, marks)
    return left_out


def _show_groups(
    reader: Calls,
    options: StatsOptions,
    repricing: Repricing | None,
    command: StoreCommand,
    console: Console,
    *,
    marks: set[str],
) -> int | None:
    """Show what the calls of each group come to, as :func:`_show_calls` does."""
    by = options.by
    sums = reader.aggregate(*GROUPS[by])
    groups, total = sums.groups, sums.total
    if total is None:
        return None
    if not by:
        groups = []
    limit = options.limit or (len(groups) if by == "hour" else DEFAULT_GROUPS)
    repriced = None if repricing is None else reprice(repricing, reader.usages(by))
    if options.as_json:
        for one in groups[:limit]:
            console.out(encode_line(build_sums_record(one, by, repriced)))
        console.out(encode_line(build_sums_record(total, "", repriced)))
    else:
        print_sums(console, groups[:limit], [total], by=by, repriced=repriced, marks=marks)
        if share := describe_input_share(total.input_usd, total.totals["cost_usd"]):
            command.tell(f"of the cost, {share}.")
    return max(0, len(groups) - limit)


_OF_RUNS: Final = frozenset({"session", "client", "conversation", "run", "launch"})
"""Keys whose columns are equal in all rows of a run."""

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
class _ToolSums:
    """The sums of a tool's calls.

    Attributes:
        key: its name; ``None`` for all tools.
        answered: calls whose result came.
        errors: results that say that the tool failed.
        calls: all its calls, ``None`` if not known.
    """

    key: str | None
    answered: int
    errors: int
    took: Ranks
    calls: int | None

    @property
    def unanswered(self) -> int | None:
        """Calls without a result; in an open run it may still come."""
        return None if self.calls is None else self.calls - self.answered


def _sum_tools(reader: Calls, wanted: Filter) -> tuple[list[_ToolSums], _ToolSums | None]:
    """Sum up each tool, and all tools together; the reader has chosen the calls that fit."""
    asked = None
    if all(one.key in _OF_RUNS for one in wanted.conditions):
        asked = reader.tool_calls()
    # A call of a tool without a status has no result.
    of_tools = (ask_word("kind", "TOOL"), ask_word("status", "UNSET", is_not=True))
    sums = reader.that(wanted.where().also(*of_tools, rows=Rows.ALL)).aggregate(*GROUPS["tool"])
    groups, all_tools = sums.groups, sums.total
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


def _make_sums(name: str | None, sums: CallSums | None, calls: int | None) -> _ToolSums:
    answered = 0 if sums is None else sums.calls
    return _ToolSums(
        key=name,
        answered=answered,
        errors=0 if sums is None else sums.errors,
        took=NO_RANKS if sums is None else sums.ranks["duration_ns"],
        # If a part of a run was removed, its calls may be gone.
        calls=None if calls is None or calls < answered else calls,
    )


def _print_tools(
    console: Console, tools: Iterable[_ToolSums], total: _ToolSums, *, as_json: bool
) -> None:
    """Show a row per tool, and one for all tools."""
    if as_json:
        for one in (*tools, total):
            console.out(encode_line(_build_record(one)))
        return
    columns = (_KEY, *_NUMBERS)
    rows = [dict(zip(columns, _cells(one), strict=True)) for one in (*tools, total)]
    print_rows(console, columns, rows)


def _cells(sums: _ToolSums) -> Iterator[Text]:
    yield Text("all", style="bold") if sums.key is None else cell(sums.key or None)
    yield cell(sums.calls)
    yield cell(sums.answered)
    yield Text(str(sums.errors), style="red" if sums.errors else "")
    yield cell(sums.unanswered)
    for rank_ns in sums.took.shown:
        yield cell(None if rank_ns is None else format_duration(rank_ns))


def _build_record(sums: _ToolSums) -> JsonObject:
    names = ("p50", "p90", "p99")
    ranks = {
        name: None if rank_ns is None else rank_ns / 1e6
        for name, rank_ns in zip(names, sums.took.shown, strict=True)
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
