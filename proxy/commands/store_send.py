"""``spantap store send``: the spans of a store, sent to a backend once more.

Rules:

1. The store is only read: what became of its calls before stays written as it is, and a proxy may
   run beside.
2. Calls go oldest first, in batches (:mod:`telemetry.export.resending`), the spans of agents and
   tools among them.
3. Neither a header's value nor a URL is ever printed, but for scheme, host and port (R7).

Exit statuses: 0; 1 where the store is missing or cannot be read, or not all calls were accepted; 2
where the filter, the URL or a header cannot be followed.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.commands.store_command import StoreCommand, count_calls, count_spans, describe_size
from proxy.reading.chosen_calls import ChosenCalls, read_filter
from telemetry.export.http_sender import HttpSender
from telemetry.export.resending import BackendFailed, Resender
from telemetry.export.settings import build_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import TextIO

    from telemetry.export.settings import OtlpSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOptions:
    """What is asked.

    Attributes:
        to: the URL of the backend.
        headers: each ``NAME=VALUE``.
        words: a filter (:mod:`telemetry.finding.filter`), a word each.
        since: the value of a further ``since:`` of the filter.
        dry_run: count what would be sent, and send nothing.
    """

    to: str = field(repr=False)
    headers: Sequence[str] = field(default=(), repr=False)
    words: Sequence[str] = ()
    since: str | None = None
    dry_run: bool = False


def run_send(
    store: Path,
    options: SendOptions,
    *,
    environ: Mapping[str, str],
    out: TextIO,
    err: TextIO,
    wait: Callable[[float], object] = time.sleep,
    now_ns: Callable[[], int] = time.time_ns,
) -> int:
    """Send calls.

    Args:
        store: the store's file.
        options: what of it, and where to.
        environ: has timeout and certificates for it (:func:`build_backend`).
        out: for what was done.
        err: for everything else.
        wait: waits so many seconds before a further try.
        now_ns: the clock, since the epoch; what ``since:2h`` counts back from.

    Returns:
        The exit status.
    """
    with StoreCommand("spantap store send", store, err) as command:
        backend = build_backend(options.to, options.headers, environ)
        wanted = read_filter(options.words, options.since, now_ns())
        with command.open_store() as reader:
            chosen = ChosenCalls(reader, wanted, all_spans=True)
            if options.dry_run:
                told = chosen.measure()
                out.write(
                    f"{count_spans(told.count - told.derived, told.derived)},"
                    f" {describe_size(told.size_bytes)}, would be sent to {backend.backend}\n"
                )
                return 0
            return _send(chosen, backend, command.tell, out, wait)
    return command.status


def _send(
    chosen: ChosenCalls,
    backend: OtlpSettings,
    tell: Callable[[str], None],
    out: TextIO,
    wait: Callable[[float], object],
) -> int:
    """Send calls, tell how many, and return the exit status.

    Raises:
        StoreError: the store cannot be read.
    """
    failure = ""
    with contextlib.closing(HttpSender(backend)) as sender:
        resender = Resender(sender, tell=tell, wait=wait)
        try:
            resender.send(stored.span for stored in chosen)
        except BackendFailed as error:
            failure = str(error)
        finally:
            told = count_spans(resender.sent - chosen.derived, chosen.derived)
            if chosen.derived and (failure or resender.refused):
                told = f"{resender.sent:,} spans"  # of which kind they are is not known
            out.write(f"sent {told} to {backend.backend}\n")
    if resender.refused:
        tell(f"{count_calls(resender.refused)} refused, the last with: {resender.refusal}")
    if chosen.damaged:
        tell(f"{count_calls(chosen.damaged)} left out, for damage.")
    if failure:
        tell(f"the rest was not sent: {failure}")
    return 1 if failure or resender.refused or chosen.damaged else 0
