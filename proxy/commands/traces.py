"""``spantap traces``: what the store holds, also while a proxy writes it.

Exit statuses: 0; 1 where the store is missing or cannot be read; 2 where an id names no call, or
more than one.
"""

from __future__ import annotations

import os
import time
from itertools import chain, islice
from typing import TYPE_CHECKING

from proxy.commands.call import decode_call
from proxy.commands.record import build_call_record, build_summary_record, encode_line
from proxy.commands.render import open_console, print_call, print_unobserved
from proxy.commands.table import print_table
from telemetry.errors import StoreError, StoreUnavailable
from telemetry.store.reader import StoreReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import TextIO

    from rich.console import Console

    from proxy.commands.call import RecordedCall
    from telemetry.store.rows import StoredSpan

__all__ = ("DEFAULT_LIMIT", "latest_calls", "run_traces")

DEFAULT_LIMIT = 20
"""How many calls a list shows: about a screen."""

TABLE_ROWS = 100
"""So many calls are laid out together; the cells of so many are in memory."""

POLL_SECONDS = 0.5
"""How often ``--follow`` looks: soon enough for a person, and a read of a millisecond."""


def run_traces(
    store: Path,
    *,
    call_id: str | None = None,
    follow: bool = False,
    as_json: bool = False,
    limit: int = DEFAULT_LIMIT,
    out: TextIO,
    err: TextIO,
    wait: Callable[[float], object] = time.sleep,
) -> int:
    """Show what is recorded: one call in full, or the newest ones, oldest of them first.

    Args:
        store: the store's file.
        call_id: the beginning of a span or trace id: show that call in full.
        follow: go on with calls as they are recorded, until interrupted.
        as_json: one JSON object per line, for programs, instead of a rendering for people.
        limit: how many calls to list at most.
        out: where the calls go.
        err: where complaints go.
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
            last_seq, above = _list(console, reader.newest(limit), as_json=as_json)
            if follow:
                _follow(reader, last_seq, console, wait, as_json=as_json, above=above)
                return 0
            if not last_seq:
                complaints.out(f"spantap traces: no call is recorded in {store} yet.")
            if not as_json:
                print_unobserved(console, reader.unobserved())
    except (StoreError, OSError) as error:
        complaints.out(f"spantap traces: {_explain(error, store)}")
        return 1
    return 0


def _explain(error: Exception, store: Path) -> str:
    """What is wrong; of a file that is not ours SQLite does not say that it is permission."""
    # Readers write too: beside the store lies what they share with its owner.
    may_read = os.access(store, os.R_OK) and os.access(store.parent, os.W_OK | os.X_OK)
    if may_read or not isinstance(error, (StoreUnavailable, OSError)):
        return str(error)
    return (
        f"no permission to read {store} and to write in its folder: run this as the user of"
        f" `spantap serve` ({error})"
    )


def latest_calls(reader: StoreReader, limit: int = DEFAULT_LIMIT) -> Iterator[RecordedCall]:
    """The newest calls, oldest of them first, read and decoded one at a time.

    Raises:
        StoreError: the store cannot be read.
    """
    return map(_decode, reader.newest(limit))


def _decode(stored: StoredSpan) -> RecordedCall:
    return decode_call(stored.summary, stored.span)


def _list(
    console: Console, spans: Iterator[StoredSpan], *, as_json: bool, above: Sequence[str] = ()
) -> tuple[int, Sequence[str]]:
    """List calls as they are read, below rows with the titles `above`.

    Returns:
        The number of the last one, 0 where there is none, and the titles of the last row.
    """
    last_seq = 0

    def decode(page: Iterable[StoredSpan]) -> Iterator[RecordedCall]:
        nonlocal last_seq
        for stored in page:
            last_seq = stored.summary.seq
            yield _decode(stored)

    if as_json:
        for call in decode(spans):
            console.out(encode_line(build_summary_record(call)))
        return last_seq, above
    for first in spans:
        page = chain((first,), islice(spans, TABLE_ROWS - 1))
        above = print_table(console, decode(page), above=above)
    if not (last_seq or above):
        above = print_table(console, ())
    return last_seq, above


def _follow(
    reader: StoreReader,
    last_seq: int,
    console: Console,
    wait: Callable[[float], object],
    *,
    as_json: bool,
    above: Sequence[str],
) -> None:
    """List calls as they are recorded; an interrupt is how it is meant to end."""
    try:
        while True:
            wait(POLL_SECONDS)
            listed_seq, above = _list(console, reader.since(last_seq), as_json=as_json, above=above)
            last_seq = listed_seq or last_seq
    except KeyboardInterrupt:
        return


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
            print_table(complaints, calls)
        return 2
    if as_json:
        console.out(encode_line(build_call_record(calls[0])))
    else:
        print_call(console, calls[0])
    return 0
