"""``spantap traces``: what the store holds, also while a proxy writes it.

Exit statuses: 0; 1 where the store is missing or cannot be read; 2 where an id names no call, or
more than one.
"""

from __future__ import annotations

import contextlib
import os
import time
from itertools import islice
from typing import TYPE_CHECKING

from proxy.commands.call import decode_call
from proxy.commands.record import build_call_record, build_summary_record, encode_line
from proxy.commands.render import open_console, print_call, print_unobserved
from proxy.commands.table import print_table
from telemetry.errors import StoreError, StoreUnavailable
from telemetry.store.reader import StoreReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from typing import TextIO

    from rich.console import Console

    from codec.text.jsontext import JsonObject
    from proxy.commands.call import RecordedCall
    from telemetry.store.rows import SpanSummary, StoredSpan

__all__ = ("latest_calls", "run_traces")

DEFAULT_LIMIT = 20
"""How many calls a list shows: about a screen."""

TABLE_ROWS = 100
"""Calls that are laid out together, with all their cells in memory."""

POLL_SECONDS = 0.5
"""How often ``--follow`` looks: soon enough for a person, and a read of a millisecond."""


def run_traces(
    store: Path,
    *,
    call_id: str | None = None,
    launch: str | None = None,
    follow: bool = False,
    as_json: bool = False,
    full: bool = False,
    limit: int = DEFAULT_LIMIT,
    out: TextIO,
    err: TextIO,
    wait: Callable[[float], object] = time.sleep,
) -> int:
    """Show what is recorded: one call in full, or the newest ones, oldest of them first.

    Args:
        store: the store's file.
        call_id: the beginning of a span or trace id: show that call in full.
        launch: list the calls of the launches of that name alone.
        follow: go on with calls as they are recorded, until interrupted.
        as_json: one JSON object per line, for programs, instead of a rendering for people.
        full: each of those has the request, the answer and the whole span.
        limit: how many calls to list at most.
        out: for the calls.
        err: for complaints.
        wait: waits so many seconds between two looks.

    Returns:
        The exit status.
    """
    console, complaints = open_console(out), open_console(err)
    try:
        if not store.exists():
            complaints.out(
                f"spantap traces: there is no store at {store}. `spantap serve` makes it when it"
                " starts; if yours is elsewhere, name it with --store or SPANTAP_STORE."
            )
            return 1
        with StoreReader(store) as reader:
            if call_id is not None:
                return _show(reader, call_id, console, complaints, as_json=as_json)
            if launch is not None:
                reader.choose_launch(launch)
            listing = _Listing(console, reader, as_json=as_json, full=full)
            listing.add(reader.rows(reversed(reader.numbers(limit))))
            if follow:
                with contextlib.suppress(KeyboardInterrupt):  # how it is meant to end
                    while True:
                        wait(POLL_SECONDS)
                        listing.add(reader.since(listing.last_seq))
                return 0
            if not listing.last_seq:
                of_run = "" if launch is None else f" of a run named {launch!r}"
                complaints.out(f"spantap traces: no call{of_run} is recorded in {store} yet.")
            if not as_json and launch is None:
                print_unobserved(console, reader.unobserved())
    except (StoreError, OSError) as error:
        complaints.out(f"spantap traces: {_explain(error, store)}")
        return 1
    return 0


def _explain(error: Exception, store: Path) -> str:
    """Say what is wrong; of missing permissions SQLite does not speak."""
    # Readers write too: beside the store lies what they share with its owner.
    may_read = os.access(store, os.R_OK) and os.access(store.parent, os.W_OK | os.X_OK)
    if may_read or not isinstance(error, (StoreUnavailable, OSError)):
        return str(error)
    return (
        f"no permission to read {store} and to write in its folder: run this as the user of"
        f" `spantap serve` ({error})"
    )


def latest_calls(reader: StoreReader, limit: int = DEFAULT_LIMIT) -> Iterator[RecordedCall]:
    """Read and decode the newest calls one at a time, oldest of them first.

    Raises:
        StoreError: the store cannot be read.
    """
    return map(_decode, reader.newest(limit))


def _decode(stored: StoredSpan) -> RecordedCall:
    return decode_call(stored.summary, stored.span)


class _Listing:
    """Calls that are listed as they are read.

    Attributes:
        last_seq: the number of the last call; 0 where there is none.
    """

    def __init__(self, console: Console, reader: StoreReader, *, as_json: bool, full: bool) -> None:
        self.last_seq = 0
        self._console = console
        self._reader = reader
        self._as_json = as_json
        self._full = full
        self._above: Mapping[str, int] | None = None

    def add(self, rows: Iterator[SpanSummary]) -> None:
        """List further calls, below those that stand there already."""
        rows = self._mark(rows)
        if self._as_json:
            for record in self._records(rows):
                self._console.out(encode_line(record))
            return
        while page := [*islice(rows, TABLE_ROWS)]:
            self._above = print_table(self._console, page, above=self._above)
        if self._above is None:
            self._above = print_table(self._console, ())

    def _records(self, rows: Iterator[SpanSummary]) -> Iterator[JsonObject]:
        if not self._full:
            return map(build_summary_record, rows)
        return map(build_call_record, map(_decode, self._reader.with_bytes(rows)))

    def _mark(self, rows: Iterator[SpanSummary]) -> Iterator[SpanSummary]:
        for row in rows:
            self.last_seq = row.seq
            yield row


def _show(
    reader: StoreReader, call_id: str, console: Console, complaints: Console, *, as_json: bool
) -> int:
    calls = [_decode(stored) for stored in reader.find(call_id)]
    if len(calls) != 1:
        count = "several calls have" if calls else "no call has"
        complaints.out(
            f"spantap traces: {count} a span or trace id that begins with {call_id!r}."
            + (" Name more of it:" if calls else " `spantap traces` lists them.")
        )
        if calls:
            print_table(complaints, [call.summary for call in calls], whole_ids=True)
        return 2
    if as_json:
        console.out(encode_line(build_call_record(calls[0])))
    else:
        print_call(console, calls[0])
    return 0
