"""Shows the calls of a launch when it is over."""

from __future__ import annotations

import contextlib
import shlex
import time
from typing import TYPE_CHECKING

from proxy.commands.amounts import describe_costs, format_dollars
from proxy.commands.console import open_console
from proxy.commands.table import print_table
from proxy.commands.unobserved import print_unobserved
from proxy.escape import escape_line
from proxy.reading.costs import explain_newest
from telemetry.errors import StoreError
from telemetry.finding.where import ALL_CALLS, ALL_ROWS, ask_launch, ask_word
from telemetry.reading.stored_calls import open_calls
from telemetry.reading.sums import NO_SUMS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import TextIO

    from proxy.commands.no_call import NoCall
    from telemetry.reading.calls import Calls

MAX_ROWS = 20
"""How many calls are shown, the last ones: about a screen."""

QUIET_SECONDS = 0.5
"""A launch is over when no call of it has been stored for this long. Calls are committed within a
quarter of a second, and the proxy notices within a tenth of a second that a client has gone."""

NONE_SECONDS = 2.0
"""How long to wait for the first call, on a busy machine."""

MAX_WAIT_SECONDS = 5.0
"""The longest wait, because a process that the command has left behind may make more calls."""

LOOK_SECONDS = 0.1


def wait_for_calls(store: Path, launch: tuple[str, str]) -> None:
    """Wait until a proxy that continues to run stores no more calls of a launch."""
    until = time.monotonic() + MAX_WAIT_SECONDS
    with contextlib.suppress(StoreError, OSError), _reading(store, launch) as reader:
        count, since = -1, time.monotonic()
        while (now := time.monotonic()) < until:
            if (stored := reader.count()) != count:
                count, since = stored, now
            if now - since >= (QUIET_SECONDS if count else NONE_SECONDS):
                break
            time.sleep(LOOK_SECONDS)


def print_summary(
    store: Path, launch: tuple[str, str], own_ns: int | None, err: TextIO, no_call: NoCall
) -> None:
    """Print the last calls of a launch, what all come to, and how many were not observed.

    Args:
        store: where they are.
        launch: its name and its number.
        own_ns: when the launch began, if no other launch uses its proxy: all unobserved calls since
            then belong to it. ``None`` if another launch uses the proxy too.
        err: where to print.
        no_call: what is said if there are none.
    """
    console = open_console(err)
    with contextlib.suppress(OSError):  # nobody reads
        try:
            with _reading(store, launch) as reader:
                count = reader.count()
                if count:
                    print_table(console, reader.rows(reversed(reader.numbers(MAX_ROWS))))
                sums = [*_describe_sums(reader, launch)] if count else []
                others = [] if own_ns is None else reader.unobserved(own_ns)
        except StoreError as error:
            console.out(f"spantap: the calls cannot be shown: {error}")
            return
        shown = f", the last {MAX_ROWS} of them above" if count > MAX_ROWS else ""
        if count:
            for name, words in sums:
                console.out(f"  {name:<7} {words}")
            calls_word = "call" if count == 1 else "calls"
            console.out(
                f"spantap: {count:,} {calls_word}{shown}; "
                f"`spantap traces --run {shlex.quote(launch[0])}` lists them"
            )
        else:
            console.out(f"spantap: {escape_line(no_call.describe())}")
        print_unobserved(console, others, has_calls=bool(count))


def _describe_sums(calls: Calls, launch: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """Describe what the calls of a launch come to, a line each."""
    sums = calls.aggregate().total or NO_SUMS
    totals = sums.totals
    yield "calls", _count_failed(sums.calls, sums.errors)
    cached = f" ({totals['cached_tokens']:,} cached)" if totals["cached_tokens"] else ""
    yield (
        "tokens",
        f"{totals['prompt_tokens']:,} in{cached}, {totals['completion_tokens']:,} out",
    )
    gaps = explain_newest(calls, ALL_CALLS.also(ask_launch(*launch)))
    if sums.priced:
        yield "cost", describe_costs(totals["cost_usd"], sums.list_usd, sums.unpriced)
    elif gaps:
        yield "cost", "unknown"
    if totals["saved_usd"]:
        yield "saved", f"{format_dollars(totals['saved_usd'])} by the provider's cache"
    of_tools = ALL_ROWS.also(ask_launch(*launch), ask_word("kind", "TOOL"))
    if (tools := calls.that(of_tools).aggregate().total) is not None:
        yield "tools", _count_failed(tools.calls, tools.errors)
    for words in dict.fromkeys(gap.words for gap in gaps):
        yield "", escape_line(f"a cost is unknown: {words}.")


def _count_failed(count: int, failed: int) -> str:
    return f"{count:,}, {failed:,} failed" if failed else f"{count:,}"


@contextlib.contextmanager
def _reading(store: Path, launch: tuple[str, str]) -> Iterator[Calls]:
    with open_calls(store) as reader:
        yield reader.that(ALL_CALLS.also(ask_launch(*launch)))
