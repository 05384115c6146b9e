"""The calls that are under way, from the proxy that has the store: they are in no store yet.

Rules:

1. A proxy that does not answer in :data:`ASK_SECONDS` is passed over, as is one of another version:
   the list of recorded calls is right without it.
2. What is shown is what the proxy says, which has hidden and masked it; here it is escaped.
"""

from __future__ import annotations

import contextlib
import socket
import time
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from proxy.commands.table import COLUMNS, cell, format_duration, local_time, print_rows
from proxy.processes.launch_link import MAX_LINE_BYTES, decode_line, encode_line, find_door
from proxy.processes.open_calls import NO_CALLS, AskOpen, OpenCalls

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import tzinfo
    from pathlib import Path

    from rich.console import Console

    from telemetry.observing.open_call import OpenCall

ASK_SECONDS: Final = 0.2
"""How long a list waits for the proxy, which answers in a few milliseconds."""


def find_open_calls(store: Path) -> OpenCalls:
    """Ask the proxy that has the store for its open calls; none where there is no such proxy."""
    if (door := find_door(store)) is None:
        return NO_CALLS
    until = time.monotonic() + ASK_SECONDS
    with (
        contextlib.suppress(OSError),  # it is gone, or takes too long
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock,
    ):
        sock.settimeout(ASK_SECONDS)
        sock.connect(door)
        sock.sendall(encode_line(AskOpen()))
        answer = b""
        while b"\n" not in answer and len(answer) <= MAX_LINE_BYTES:
            sock.settimeout(max(until - time.monotonic(), 0.001))
            data = sock.recv(MAX_LINE_BYTES)
            if not data:
                return NO_CALLS
            answer += data
        message = decode_line(answer.partition(b"\n")[0])
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
    """Print a row per open call, below those of recorded ones.

    Args:
        console: as that of :func:`proxy.commands.table.print_table`.
        calls: the calls.
        above: the columns of the rows that stand there already.
        now_ns: the time, since the epoch, to which they have taken so long.
        zone: of the times that are shown; by default the local one.
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
        "took": cell(format_duration(max(0, now_ns - call.start_ns))),
        "outcome": Text(words, style="yellow"),
        "state": Text("open"),
    }
