"""Lists recorded calls, calls found by their texts, and open calls.

The proxy hides and masks what it says about open calls; here it is only escaped.
"""

from __future__ import annotations

import contextlib
import socket
import time
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from proxy.commands.amounts import format_duration, local_time
from proxy.commands.table import COLUMNS, cell, print_rows, print_table
from proxy.processes import launch_channel
from proxy.processes.open_calls import NO_CALLS, AskOpen, OpenCalls
from proxy.reading.costs import Gaps
from proxy.reading.record import (
    build_call_record,
    build_open_record,
    build_summary_record,
    encode_line,
)
from telemetry.facts import MAX_PREVIEW_CHARS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import tzinfo
    from pathlib import Path

    from rich.console import Console

    from codec.text.jsontext import JsonObject
    from telemetry.observing.open_call import OpenCall
    from telemetry.reading.calls import Calls
    from telemetry.store.rows import SpanSummary

TABLE_ROWS = 100
"""How many calls are laid out together, with all their cells in memory."""


class Listing:
    """A list that grows.

    Attributes:
        console: where it is printed.
        count: how many calls it has.
        gaps: why costs of them are unknown.
        last_seq: the largest number of a listed call; 0 if none is listed.
        last_start_ns: when the last listed call began; ``None`` if none is listed.
        marks: those that the table shows.

    Args:
        console: where it is printed.
        reader: reads the store that has the calls.
        as_json: one JSON object per line, instead of a table.
        full: each object has the request, the answer and the whole span.
        kept: the title of the column by which the list is sorted, which is never left out.
    """

    def __init__(
        self, console: Console, reader: Calls, *, as_json: bool, full: bool, kept: str = ""
    ) -> None:
        self.count = 0
        self.gaps = Gaps()
        self.marks: set[str] = set()
        self.last_seq = 0
        self.last_start_ns: int | None = None
        self.console = console
        self._reader = reader
        self._as_json = as_json
        self._full = full
        self._kept = kept
        self._above: Mapping[str, int] | None = None

    def add(self, rows: Iterator[SpanSummary]) -> None:
        """List more calls below the earlier ones, page by page as they are read."""
        rows = self._mark(rows)
        if self._as_json:
            for record in self._records(rows):
                self.console.out(encode_line(record))
            return
        while page := [*islice(rows, TABLE_ROWS)]:
            self._above = print_table(
                self.console, page, above=self._above, kept=self._kept, marks=self.marks
            )

    def add_open(self, calls: Sequence[OpenCall], now_ns: int) -> None:
        """List open calls, below recorded ones."""
        if self._as_json:
            for call in calls:
                self.console.out(encode_line(build_open_record(call, now_ns)))
        elif calls:
            self._above = print_open(self.console, calls, above=self._above, now_ns=now_ns)

    def _records(self, rows: Iterator[SpanSummary]) -> Iterator[JsonObject]:
        if not self._full:
            return map(build_summary_record, rows)
        from proxy.reading.call import decode_call  # noqa: PLC0415 - no list of rows needs it

        spans = self._reader.with_bytes(rows)
        return (build_call_record(decode_call(one.summary, one.span)) for one in spans)

    def _mark(self, rows: Iterator[SpanSummary]) -> Iterator[SpanSummary]:
        for row in rows:
            self.count += 1
            self.gaps.add(row)
            self.last_seq = max(self.last_seq, row.seq)
            self.last_start_ns = row.start_ns
            yield row


ASK_SECONDS: Final = 0.2
"""How long a list waits for the proxy, which answers in a few milliseconds. Without an answer, or
with a proxy of another version, the list of recorded calls is still right."""


def find_open_calls(store: Path) -> OpenCalls:
    """Ask the proxy that has the store for its open calls; none if there is no such proxy."""
    if (control_socket := launch_channel.find_control_socket(store)) is None:
        return NO_CALLS
    until = time.monotonic() + ASK_SECONDS
    with (
        contextlib.suppress(OSError),  # it is gone, or takes too long
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock,
    ):
        sock.settimeout(ASK_SECONDS)
        sock.connect(control_socket)
        sock.sendall(launch_channel.encode_line(AskOpen()))
        answer = b""
        while b"\n" not in answer and len(answer) <= launch_channel.MAX_LINE_BYTES:
            sock.settimeout(max(until - time.monotonic(), 0.001))
            data = sock.recv(launch_channel.MAX_LINE_BYTES)
            if not data:
                return NO_CALLS
            answer += data
        message = launch_channel.decode_line(answer.partition(b"\n")[0])
        if isinstance(message, OpenCalls):
            return message
    return NO_CALLS


def print_open(
    console: Console,
    calls: Iterable[OpenCall],
    *,
    above: Mapping[str, int] | None,
    now_ns: int,
    zone: tzinfo | None = None,
) -> Mapping[str, int]:
    """Print a row for each open call, below recorded ones.

    Args:
        console: as that of :func:`proxy.commands.table.print_table`.
        calls: the calls.
        above: the columns of the rows above.
        now_ns: the time, since the epoch, up to which their durations count.
        zone: the time zone of the times; by default the local one.
    """
    rows = [_row(call, now_ns, zone) for call in calls]
    by_column = [{column: row.get(column.title, cell(None)) for column in COLUMNS} for row in rows]
    return print_rows(console, COLUMNS, by_column, above=above)


def _row(call: OpenCall, now_ns: int, zone: tzinfo | None) -> dict[str, Any]:
    if call.http_status is None:
        words = "open"
    elif call.http_status >= 400:
        words = f"open {call.http_status}"
    else:
        words = f"open, {call.chunks} chunk{'' if call.chunks == 1 else 's'}"
    return {
        "time": Text(f"{local_time(call.start_ns, zone):%m-%d %H:%M:%S}"),
        "id": Text(call.span_id, style="bold"),
        "model": cell(call.model),
        "client": cell(call.client),
        "api": cell(call.api),
        "what": cell(call.what, MAX_PREVIEW_CHARS),
        "took": cell(format_duration(max(0, now_ns - call.start_ns))),
        "outcome": Text(words, style="yellow"),
        "state": Text("open"),
    }


_ERASE = "\r\x1b[2K"
"""Erases the line of the cursor."""


def search_content(
    reader: Calls,
    limit: int,
    listing: Listing,
    *,
    complaints: Console,
    now_ns: int,
) -> None:
    """List the calls whose spans hold every text, newest first, `limit` at most.

    Args:
        reader: reads the calls to search.
        limit: at least 1.
        listing: where the calls go.
        complaints: shows the progress.
        now_ns: the time, since the epoch; a time of today is shown without its date.

    Raises:
        StoreError: the store cannot be read.
    """
    back_to_ns: int | None = None
    ending = "interrupted"
    shows = complaints.is_terminal and not complaints.is_dumb_terminal
    try:
        for step in reader.search():
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
