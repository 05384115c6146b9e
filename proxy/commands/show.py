"""``spantap traces show``: one call in full, named by the beginning of an id, or one run as a tree.

It imports neither the filter nor the list: a call of 200 messages is to be there in 0.3 seconds.

Exit statuses: 0; 1 where the store is missing or cannot be read; 2 where an id names no call, or
more than one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from proxy.commands.console import open_console
from proxy.commands.pager import paging
from proxy.commands.render import print_call
from proxy.commands.show_run import find_run, read_run_number, show_run
from proxy.commands.store_command import StoreCommand
from proxy.commands.table import print_table
from proxy.reading.call import decode_call

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import TextIO

    from rich.console import Console

    from telemetry.store.reader import StoreReader
    from telemetry.store.rows import StoredSpan

LAST: Final = "last"
"""What names the newest call instead of an id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions:
    """What is to be shown of a call; a page for people where nothing is said.

    Attributes:
        as_json: one JSON object, for programs.
        raw: the bodies alone, as they were recorded.
        whole: the page folds nothing, and has the messages in the order in which they were sent.
    """

    as_json: bool = False
    raw: bool = False
    whole: bool = False


def run_show(store: Path, call_id: str, options: ShowOptions, *, out: TextIO, err: TextIO) -> int:
    """Show the call or the run that is named.

    Args:
        store: the store's file.
        call_id: the beginning of a span id, a trace id or the provider's request id, or
            :data:`LAST`; or ``run:`` and the number of a run.
        options: how.
        out: for the call.
        err: for everything else.

    Returns:
        The exit status.
    """
    with StoreCommand("spantap traces", store, err) as command:
        with command.open_store() as reader:
            if (run := read_run_number(call_id)) is not None:
                if options.raw:
                    return command.refuse("--raw shows one call: name it by its id.")
                if not show_run(reader, run, open_console(out), as_json=options.as_json):
                    return command.refuse(f"there is no run {run}. `--runs` lists them.")
                return 0
            found = [*reader.newest(1)] if call_id == LAST else reader.find(call_id)
            console = open_console(out)
            if found and show_found(
                found, call_id, options, console=console, command=command, reader=reader
            ):
                return 0
        words = "no call is recorded yet."
        if found:
            words = f"several calls have an id that begins with {call_id!r}. Name more of it:"
        elif call_id != LAST:
            words = (
                f"no call has a span, trace or request id that begins with {call_id!r}."
                " `spantap traces` lists them."
            )
        return refuse_several(found, words, command)
    return command.status


def show_found(
    found: Sequence[StoredSpan],
    word: str,
    options: ShowOptions,
    *,
    console: Console,
    command: StoreCommand,
    reader: StoreReader,
) -> bool:
    """Show what a word finds, on a terminal in its pager: a run, or a call; false for several."""
    run = None if options.raw else find_run(reader, found, word)
    if run is not None and show_run(reader, run, console, as_json=options.as_json):
        return True
    if len(found) > 1:
        return False
    _show_call(found[0], options, console, command)
    return True


def _show_call(
    found: StoredSpan, options: ShowOptions, console: Console, command: StoreCommand
) -> None:
    call = decode_call(found.summary, found.span)
    if options.as_json:
        from proxy.reading.record import build_call_record, encode_line  # noqa: PLC0415 - rare

        console.out(encode_line(build_call_record(call)))
    elif options.raw:
        from proxy.commands.raw_bodies import print_raw  # noqa: PLC0415 - rare

        missing: list[str] = []
        with paging(console):
            missing.extend(print_raw(console, call))
        for title in missing:
            command.tell(f"no body of the {title} is recorded.")
    else:
        with paging(console):
            print_call(console, call, whole=options.whole)


def refuse_several(found: Sequence[StoredSpan], words: str, command: StoreCommand) -> int:
    """Say why no call is shown, with a table of those that may be meant; return the exit status."""
    status = command.refuse(words)
    if found:
        print_table(command.complaints, [stored.summary for stored in found], whole_ids=True)
    return status
