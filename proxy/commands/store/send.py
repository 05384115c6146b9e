"""``spantap store send``: sends the spans of a store to a backend once more.

The store is only read: the states of its calls do not change, and a proxy may run meanwhile. Spans
go oldest first, in batches (:mod:`telemetry.export.resending`), including those of agents and
tools. Header values are never printed, and of the URL only scheme, host and port (R7).

The exit status is 0; 1 if the store is missing or cannot be read, or not all calls were accepted; 2
if the filter, the URL or a header is wrong, or no backend is named.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.commands.store_command import StoreCommand, count_calls, count_spans, describe_size
from proxy.reading.chosen_calls import ChosenCalls, read_filter
from telemetry.errors import ConfigurationError
from telemetry.export.exporter import open_sender
from telemetry.export.resending import BackendFailed, Resender
from telemetry.export.settings import build_backend, is_sdk_disabled, read_otlp_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import TextIO

    from telemetry.export.settings import OtlpSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOptions:
    """The options of ``spantap store send``.

    Attributes:
        to: the URL of the backend; ``None`` means that of the ``OTEL_*`` variables.
        headers: each is ``NAME=VALUE``; they go with `to`.
        words: a filter (:mod:`telemetry.finding.filter`), word by word.
        since: the value of one more ``since:`` of the filter.
        dry_run: only count what would be sent.
    """

    to: str | None = field(default=None, repr=False)
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
        options: which calls, and where to.
        environ: has the backend, or the timeout and the certificates for the one that is named.
        out: for the result.
        err: for everything else.
        wait: waits so many seconds before another try.
        now_ns: the clock, since the epoch; ``since:2h`` counts back from there.

    Returns:
        The exit status.
    """
    with StoreCommand("spantap store send", store, err) as command:
        backend = _find_backend(options, environ)
        wanted = read_filter(options.words, options.since, now_ns())
        with command.open_store() as reader:
            chosen = ChosenCalls(reader, wanted, all_spans=True)
            if options.dry_run:
                found = chosen.measure()
                out.write(
                    f"{count_spans(found.count - found.derived, found.derived)},"
                    f" {describe_size(found.size_bytes)}, would be sent to {backend.backend}\n"
                )
                return 0
            return _send(chosen, backend, command.tell, out, wait)
    return command.status


def _find_backend(options: SendOptions, environ: Mapping[str, str]) -> OtlpSettings:
    """Find where to send to.

    Raises:
        ConfigurationError: no backend is named, or a value cannot be followed.
    """
    if options.to is not None:
        return build_backend(options.to, options.headers, environ)
    if options.headers:
        raise ConfigurationError("--header goes with --to; OTEL_EXPORTER_OTLP_HEADERS has others")
    if (backend := read_otlp_settings(environ)) is not None:
        return backend
    if is_sdk_disabled(environ):
        reason = "OTEL_SDK_DISABLED is true"
    elif environ.get("OTEL_TRACES_EXPORTER", "").strip() == "none":
        reason = "OTEL_TRACES_EXPORTER is none"
    else:
        reason = "OTEL_EXPORTER_OTLP_ENDPOINT is not set"
    raise ConfigurationError(f"name a backend with --to: {reason}")


def _send(
    chosen: ChosenCalls,
    backend: OtlpSettings,
    tell: Callable[[str], None],
    out: TextIO,
    wait: Callable[[float], object],
) -> int:
    """Send calls, print how many, and return the exit status.

    Raises:
        StoreError: the store cannot be read.
    """
    failure = ""
    with contextlib.closing(open_sender(backend)) as sender:
        resender = Resender(sender, tell=tell, wait=wait)
        try:
            resender.send(stored.span for stored in chosen)
        except BackendFailed as error:
            failure = str(error)
        finally:
            count = count_spans(resender.sent - chosen.derived, chosen.derived)
            if chosen.derived and (failure or resender.refused):
                count = f"{resender.sent:,} spans"  # their kinds are not known
            out.write(f"sent {count} to {backend.backend}\n")
    if resender.refused:
        tell(f"{count_calls(resender.refused)} refused, the last with: {resender.refusal}")
    if chosen.damaged:
        tell(f"{count_calls(chosen.damaged)} left out, for damage.")
    if failure:
        tell(f"the rest was not sent: {failure}")
    return 1 if failure or resender.refused or chosen.damaged else 0
