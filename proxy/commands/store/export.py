"""``spantap store export``: the calls of a store as lines, for programs.

``jsonl`` is what ``spantap traces --json --full`` prints (:mod:`proxy.reading.record`), ``otlp`` is
an OTLP/JSON request for each line (:mod:`telemetry.spans.otlp.decoding`). Both are ASCII. The first
has calls, the second all spans, including those of agents and tools. One call is in memory at a
time (:mod:`proxy.reading.chosen_calls`).

The exit status is 0; 1 if the store is missing or cannot be read, the file cannot be written, or a
damaged call was left out; 2 if the filter is wrong, or the file exists already.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from proxy.commands.store_command import StoreCommand, count_calls, count_spans
from proxy.reading.call import decode_call
from proxy.reading.chosen_calls import ChosenCalls, read_filter
from proxy.reading.record import build_call_record, encode_line
from telemetry.spans.otlp.decoding import encode_json_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import TextIO

    from telemetry.store.rows import StoredSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """The options of ``spantap store export``.

    Attributes:
        words: a filter (:mod:`telemetry.finding.filter`), word by word.
        since: the value of one more ``since:`` of the filter.
        form: one of :data:`FORMATS`.
        file: the file to write; ``None`` for standard output.
    """

    words: Sequence[str] = ()
    since: str | None = None
    form: str
    file: Path | None = None


def _write_record(stored: StoredSpan) -> str:
    return encode_line(build_call_record(decode_call(stored.summary, stored.span)))


def _write_request(stored: StoredSpan) -> str:
    return encode_json_line(stored.span)


FORMATS: Final[dict[str, Callable[[StoredSpan], str]]] = {
    "jsonl": _write_record,
    "otlp": _write_request,
}
"""How a call becomes a line."""


def run_export(
    store: Path,
    options: ExportOptions,
    *,
    out: TextIO,
    err: TextIO,
    now_ns: Callable[[], int] = time.time_ns,
) -> int:
    """Write calls as lines.

    Args:
        store: the store's file.
        options: which calls, in which form, and where to.
        out: for the lines, if no file is named.
        err: for everything else.
        now_ns: the clock, since the epoch; ``since:2h`` counts back from there.

    Returns:
        The exit status.
    """
    with StoreCommand("spantap store export", store, err) as command:
        wanted = read_filter(options.words, options.since, now_ns())
        try:
            with command.open_store() as reader, _open_lines(options.file, out) as lines:
                chosen = ChosenCalls(reader, wanted, all_spans=options.form == "otlp")
                count = 0
                for stored in chosen:
                    lines.write(f"{FORMATS[options.form](stored)}\n")
                    count += 1
        except FileExistsError:
            return command.refuse(f"{options.file} is there already; name another file.")
        except OSError as error:
            if options.file is None:
                raise
            reason = error.strerror or type(error).__name__
            return command.fail(f"{options.file} cannot be written: {reason}")
        if options.file is not None:
            wrote = count_spans(count - chosen.derived, chosen.derived)
            command.tell(f"wrote {wrote} to {options.file}.")
        if chosen.damaged:
            return command.fail(f"{count_calls(chosen.damaged)} left out, for damage.")
    return command.status


@contextlib.contextmanager
def _open_lines(file: Path | None, out: TextIO) -> Iterator[TextIO]:
    """Open the file, if one is named.

    Only its owner can read it. An existing file is never overwritten, and a partial one is removed.

    Raises:
        OSError: it cannot be made.
    """
    if file is None:
        yield out
        return
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w", encoding="ascii") as lines:  # noqa: PTH123 - a descriptor is not a path
            yield lines
    except BaseException:
        file.unlink(missing_ok=True)
        raise
