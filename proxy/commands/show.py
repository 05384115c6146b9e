"""``spantap traces show``: a call, named by the beginning of an id, a run, or a conversation.

It imports neither the filter nor the list, so that a call of 200 messages appears in 0.3 seconds.

The exit status is 0; 1 if the store is missing or cannot be read; 2 if an id names no call, or more
than one.
"""

from __future__ import annotations

import re
import shlex
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from proxy.commands.console import open_console, paging
from proxy.commands.render import print_call
from proxy.commands.store_command import StoreCommand
from proxy.commands.table import print_table
from proxy.reading.call import read_with_pictures
from proxy.reading.call_place import read_place
from proxy.reading.run_record import (
    build_tree_record,
    find_caller,
    find_ending,
    read_agent,
)
from proxy.reading.run_tree import build_tree

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import TextIO

    from rich.console import Console

    from telemetry.reading.calls import Calls
    from telemetry.store.rows import StoredSpan

LAST: Final = "last"
"""The word that names the newest call, instead of an id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions:
    """How to show a call; by default as a page for people.

    Attributes:
        as_json: one JSON object, for programs.
        raw: only the bodies (:mod:`proxy.commands.raw`).
        whole: the page folds nothing, and has the messages in the order in which they were sent.
    """

    as_json: bool = False
    raw: bool = False
    whole: bool = False


def run_show(store: Path, call_id: str, options: ShowOptions, *, out: TextIO, err: TextIO) -> int:
    """Show the call, the run or the conversation that is named.

    Args:
        store: the store's file.
        call_id: the beginning of a span id, a trace id or the provider's request id, or
            :data:`LAST`; or ``run:`` or ``conversation:`` and a number; or ``run:`` and the name
            of a launch, for its newest run.
        options: how to show it.
        out: for the call.
        err: for everything else.

    Returns:
        The exit status.
    """
    with StoreCommand("spantap traces", store, err) as command:
        with command.open_store() as reader:
            if (named := _NAME.fullmatch(call_id)) is not None:
                if options.raw:
                    return command.refuse("--raw shows one call: name it by its id.")
                kind, number = named[1].lower(), int(named[2])
                show = _show_run if kind == "run" else _show_conversation
                if not show(reader, number, open_console(out), as_json=options.as_json):
                    hint = "`--runs` lists them" if kind == "run" else _NO_CONVERSATION
                    return command.refuse(f"there is no {kind} {number}. {hint}.")
                return 0
            if _OF_LAUNCH.match(call_id) and not options.raw:
                return _show_launch(reader, call_id, open_console(out), options, command)
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
    reader: Calls,
) -> bool:
    """Show what a word finds, on a terminal in its pager: a run, or a call; false for several."""
    run = None if options.raw else _find_run(reader, found, word)
    if run is not None and _show_run(reader, run, console, as_json=options.as_json):
        return True
    if len(found) > 1:
        return False
    _show_call(reader, found[0], options, console, command)
    return True


def _show_call(
    reader: Calls,
    found: StoredSpan,
    options: ShowOptions,
    console: Console,
    command: StoreCommand,
) -> None:
    call = read_with_pictures(reader, found)
    if options.as_json:
        from proxy.reading.record import build_call_record, encode_line  # noqa: PLC0415 - rare

        console.out(encode_line(build_call_record(call)))
    elif options.raw:
        from proxy.commands.raw import print_raw  # noqa: PLC0415 - rare

        missing: list[str] = []
        answer = reader.raw_answer(found.summary.seq)
        with paging(console):
            missing.extend(print_raw(console, call, answer))
        for title in missing:
            command.tell(f"no body of the {title} is recorded.")
    else:
        with paging(console):
            print_call(console, call, read_place(reader, call), whole=options.whole)


def refuse_several(found: Sequence[StoredSpan], words: str, command: StoreCommand) -> int:
    """Say why no call is shown, with a table of possible calls; return the exit status."""
    status = command.refuse(words)
    if found:
        print_table(command.complaints, [stored.summary for stored in found], whole_ids=True)
    return status


_NAME: Final = re.compile(r"(run|conversation):([0-9]{1,18})", re.ASCII | re.IGNORECASE)
"""How a run or a conversation is named."""

_OF_LAUNCH: Final = re.compile(r"(run|launch):", re.IGNORECASE)
"""How the newest run of a launch is named: by a condition, in which the name may have a star."""

MAX_LAUNCH_RUNS: Final = 100
"""The most runs of a launch among which the newest is looked for that is no sub-agent's."""

_NO_CONVERSATION: Final = "`spantap stats --by conversation` lists them"


def _find_run(reader: Calls, found: Sequence[StoredSpan], word: str) -> int | None:
    """Find the run of an agent's span, or of the trace of several calls.

    Args:
        reader: reads the store.
        found: the spans that a word finds.
        word: the beginning of an id.
    """
    columns = found[0].summary.columns
    if len(found) == 1:
        return columns.run if columns.kind == "AGENT" else None
    traces = {one.summary.trace_id for one in found}
    if len(traces) == 1 and found[0].summary.trace_id.startswith(word.lower()):
        return reader.run_of_trace(*traces)
    return None


def _show_run(reader: Calls, run: int, console: Console, *, as_json: bool) -> bool:
    """Show a run, on a terminal in its pager; false if there is no run with that number.

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


def _show_launch(
    reader: Calls, word: str, console: Console, options: ShowOptions, command: StoreCommand
) -> int:
    """Show the newest run that a condition chooses, sub-agents apart; return the exit status.

    Raises:
        FilterError: the condition is wrong.
        StoreError: the store cannot be read.
    """
    from proxy.reading.chosen_calls import read_filter  # noqa: PLC0415 - no other page needs it

    _, _, name = word.partition(":")
    quoted = word if re.fullmatch(r"\S+", word) or '"' in word else f'{word[: -len(name)]}"{name}"'
    runs = reader.that(read_filter([quoted], None, time.time_ns()).where()).runs(MAX_LAUNCH_RUNS)
    if not runs:
        return command.refuse(f"no run of an agent fits {word}. `--runs` lists all runs.")
    # The tree of an agent has its sub-agents.
    agents = [one for one in runs if one.agent is None or not one.agent.columns.parent_span_id]
    newest = (agents or runs)[0].run
    _show_run(reader, newest, console, as_json=options.as_json)
    if len(agents) > 1 and not options.as_json:
        command.tell(
            f"this is run {newest}, the newest; `spantap traces --runs {shlex.quote(quoted)}`"
            " lists all."
        )
    return 0


def _show_conversation(reader: Calls, number: int, console: Console, *, as_json: bool) -> bool:
    """Show a conversation, on a terminal in its pager; false if there is none with that number.

    Raises:
        StoreError: the store cannot be read.
    """
    from proxy.commands.conversation_page import show_conversation  # noqa: PLC0415 - no other page needs it

    with paging(console, is_long=not as_json):
        return show_conversation(reader, number, console, as_json=as_json)
