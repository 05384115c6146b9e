"""A search for texts in the spans of a store, whose hits are listed as they are found.

How far back it has come is told on standard error: at its end, also an early one, and on a terminal
while it goes on, in the line below the hits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.commands.table import local_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from proxy.commands.listing import Listing
    from telemetry.store.reader import StoreReader

_ERASE = "\r\x1b[2K"
"""Takes away the line that the cursor is in."""


def search_content(
    reader: StoreReader,
    texts: Sequence[str],
    limit: int,
    listing: Listing,
    *,
    complaints: Console,
    now_ns: int,
) -> None:
    """List the calls whose spans hold every text, newest first, `limit` at most.

    Args:
        reader: of the store; conditions that it was given hold, too.
        texts: none is empty.
        limit: at least 1.
        listing: where the calls go.
        complaints: what the progress is told on.
        now_ns: the time, since the epoch: of today the date is not told.

    Raises:
        StoreError: the store cannot be read.
    """
    back_to_ns: int | None = None
    ending = "interrupted"
    shows = complaints.is_terminal and not complaints.is_dumb_terminal
    try:
        for step in reader.search(texts):
            if shows:
                _write(complaints, _ERASE)
            room = limit - listing.count
            listing.add(reader.rows(step.hits[:room]))
            if len(step.hits) > room or (listing.count >= limit and not step.is_done):
                back_to_ns, ending = listing.last_start_ns, f"found as many as --limit {limit}"
                break
            back_to_ns = step.back_to_ns
            if step.is_done:
                ending = "these are all calls"
            elif shows and back_to_ns is not None:
                _write(complaints, f"searched back to {_describe(back_to_ns, now_ns)}")
    finally:
        if back_to_ns is not None:
            if shows:
                _write(complaints, _ERASE)
            back_to = _describe(back_to_ns, now_ns)
            complaints.out(f"spantap traces: searched back to {back_to}; {ending}.")


def _describe(at_ns: int, now_ns: int) -> str:
    """Write a local time, with its date unless that is today's."""
    moment, now = local_time(at_ns, None), local_time(now_ns, None)
    return f"{moment:%H:%M}" if moment.date() == now.date() else f"{moment:%Y-%m-%d %H:%M}"


def _write(console: Console, text: str) -> None:
    console.file.write(text)
    console.file.flush()
