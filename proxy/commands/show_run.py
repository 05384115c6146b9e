"""``spantap traces show run:N``: the run of an agent as a tree, also while it goes on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from proxy.commands.pager import paging
from proxy.reading.run_record import build_tree_record, find_caller, find_ending, read_agent
from proxy.reading.run_tree import build_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from telemetry.store.reader import StoreReader
    from telemetry.store.rows import StoredSpan

_RUN = re.compile(r"run:([0-9]{1,18})", re.ASCII | re.IGNORECASE)


def read_run_number(word: str) -> int | None:
    """Read the number of a run, where a word names one.

    >>> read_run_number("run:812"), read_run_number("2dd5cb58")
    (812, None)
    """
    found = _RUN.fullmatch(word)
    return None if found is None else int(found[1])


def find_run(reader: StoreReader, found: Sequence[StoredSpan], word: str) -> int | None:
    """Find the run that is meant by the id of an agent's span, or of the trace of several calls.

    Args:
        reader: of the store.
        found: what a word finds.
        word: the beginning of an id.
    """
    columns = found[0].summary.columns
    if len(found) == 1:
        return columns.run if columns.kind == "AGENT" else None
    traces = {one.summary.trace_id for one in found}
    if len(traces) == 1 and found[0].summary.trace_id.startswith(word.lower()):
        return reader.run_of_trace(*traces)
    return None


def show_run(reader: StoreReader, run: int, console: Console, *, as_json: bool) -> bool:
    """Show a run, on a terminal in its pager; false where there is none of that number.

    Raises:
        StoreError: the store cannot be read.
    """
    found = reader.run_tree(run)
    nodes = [] if found is None else build_tree(*found)
    if found is None or not nodes:
        return False
    sums, _ = found
    metadata, ended_by = read_agent(sums, reader), find_ending(sums, reader)
    caller = find_caller(sums, reader)
    if as_json:
        from proxy.reading.record import encode_line  # noqa: PLC0415 - rare

        console.out(encode_line(build_tree_record(sums, metadata, ended_by, nodes, caller)))
        return True
    from proxy.commands.run_page import print_run  # noqa: PLC0415 - no other page needs it

    with paging(console):
        print_run(console, sums, nodes, metadata, ended_by=ended_by, caller=caller)
    return True
