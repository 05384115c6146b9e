"""``spantap stats``: what the calls of the store come to, also while a proxy writes it.

Rules:

1. A number that is not known is a dash, or ``null``; what is known of some of the calls alone says
   of how many. Tokens are those that providers reported, zero where none did.
2. Groups have most calls first, hours their order; where more are there than are shown, that is
   told. The last row is all calls.

Exit statuses: 0; 1 where the store is missing or cannot be read; 2 where a filter cannot be
followed, or a model has no price.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from proxy.commands.console import open_console
from proxy.commands.stats_table import build_sums_record, print_sums, reprice
from proxy.commands.store_command import StoreCommand
from proxy.reading.chosen_calls import choose, read_filter
from proxy.reading.record import encode_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import TextIO

    from telemetry.finding.filter import Filter
    from telemetry.pricing.price_table import PriceTable
    from telemetry.pricing.repricing import Repricing
    from telemetry.store.reader import StoreReader

DEFAULT_GROUPS: Final = 20
"""How many groups are shown: about a screen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsOptions:
    """What is asked.

    Attributes:
        words: a filter (:mod:`telemetry.finding.filter`), a word each.
        since: the value of a further ``since:`` of the filter.
        by: what a group has in common (:data:`telemetry.store.summing.GROUPS`).
        price_as: the model at whose price the calls are reckoned as well.
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
        options: what of it.
        prices: gives the user's own prices.
        out: for the sums.
        err: for everything else.
        now_ns: the clock, since the epoch; what ``since:2h`` counts back from.

    Returns:
        The exit status.
    """
    with StoreCommand("spantap stats", store, err) as command:
        wanted = read_filter(options.words, options.since, now_ns())
        if wanted.texts:
            return command.refuse("texts are for `spantap traces`: sums are of conditions.")
        if options.by == "tool" and options.price_as is not None:
            return command.refuse("--price-as is for calls: a tool has no price.")
        repricing = None
        if options.price_as is not None:
            from telemetry.pricing.repricing import find_repricing  # noqa: PLC0415 - rare

            repricing = find_repricing(options.price_as, prices(), now_ns=now_ns())
        with command.open_store() as reader:
            choose(reader, wanted)
            if options.by == "tool":
                told = _show_tools(reader, wanted, options, out)
            else:
                told = _show(reader, options, repricing, out)
        if told is None:
            fits = f" that fits {wanted}" if wanted else ""
            of_tool = " of a tool" if options.by == "tool" else ""
            command.tell(f"no call{of_tool}{fits} is recorded in {store} yet.")
        elif told:
            command.tell(f"{told} more by {options.by}; --limit N shows more.")
    return command.status


def _show_tools(
    reader: StoreReader, wanted: Filter, options: StatsOptions, out: TextIO
) -> int | None:
    """Show tools and all of them, as :func:`_show` does groups of calls."""
    from proxy.commands.tool_stats import show_tools, sum_tools  # noqa: PLC0415 - for this alone

    tools, total = sum_tools(reader, wanted)
    if total is None:
        return None
    limit = options.limit or DEFAULT_GROUPS
    show_tools(open_console(out), tools[:limit], total, as_json=options.as_json)
    return max(0, len(tools) - limit)


def _show(
    reader: StoreReader, options: StatsOptions, repricing: Repricing | None, out: TextIO
) -> int | None:
    """Show the groups and all calls; return how many groups are left out (rule 2).

    ``None`` where there is no call, and nothing is shown.
    """
    by = options.by
    groups, total = reader.sums(by)
    if total is None:
        return None
    if not by:
        groups = []
    limit = options.limit or (len(groups) if by == "hour" else DEFAULT_GROUPS)
    repriced = None if repricing is None else reprice(repricing, reader.usages(by))
    console = open_console(out)
    if options.as_json:
        for one in groups[:limit]:
            console.out(encode_line(build_sums_record(one, by, repriced)))
        console.out(encode_line(build_sums_record(total, "", repriced)))
    else:
        print_sums(console, groups[:limit], [total], by=by, repriced=repriced)
    return max(0, len(groups) - limit)
