"""``spantap store delete`` and ``compact``: delete calls for good, and give back their room.

Promises to the user:

1. Matching calls are counted first, and none that was recorded later is deleted. The condition
   ``state:pending`` changes with time; it is checked again when a call's turn comes.
2. Nothing is deleted unless somebody agrees, on a terminal or by ``--yes``. An empty filter, which
   would be all calls, is refused. So is a text, because a person's data cannot be found by what
   they may have said, and others may have said the same.
3. The owner of the store deletes, in short steps (:mod:`proxy.commands.store.owner`), so that a
   proxy continues to record.
4. At the end the file is written again, so that the files of the store have no byte of what was
   deleted (:mod:`telemetry.store.deletion`). A proxy cannot do that while it records: the bytes are
   overwritten in place, and the command says what else is needed, or what is in the way.
5. What was derived from a call is deleted with it: the spans of agents and tools of its run repeat
   what calls said, and its marker has its session. They are deleted first, because they are found
   by means of the calls.
6. If no proxy runs, ``compact`` writes the file again: then it has no unused part, and no byte of
   what was deleted. A proxy gives its free pages back in short steps and continues to record, until
   none is left, or until it has given back as many as there were at the start.

The exit status is 0; 1 if the store is missing or cannot be read or written, a reader is in the way
of ``compact``, or promise 4 does not hold yet; 2 if the filter is wrong, or nobody agreed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from proxy.commands.amounts import local_time
from proxy.commands.store.owner import open_owner
from proxy.commands.store_command import StoreCommand, count_spans, describe_size
from proxy.escape import escape_line
from proxy.reading.chosen_calls import read_filter
from telemetry.errors import StoreError
from telemetry.finding.where import Rows
from telemetry.store.deletion import MAX_COMPACT_BYTES, MAX_DELETE_ROWS
from telemetry.store.retention import measure_disk_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import TextIO

    from proxy.commands.store.owner import StoreOwner
    from telemetry.finding.filter import Filter
    from telemetry.store.rows import ChosenSpans, CompactStep

FOLD_TRIES: Final = 20
"""How many attempts to cut the log; a reader that comes in between takes milliseconds."""

FOLD_WAIT_SECONDS: Final = 0.1

_IN_THE_LOG: Final = (
    "their bytes are still in the files, because somebody who reads the store is in the way: run"
    " `spantap store compact` when that has ended."
)

_IN_OLD_COPIES: Final = (
    "their bytes are overwritten. Where SQLite had moved them before, copies may be left in unused"
    " parts of the file: `spantap store compact` removes those once no proxy runs."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """The options of ``spantap store delete``.

    Attributes:
        words: a filter (:mod:`telemetry.finding.filter`), word by word.
        since: the value of one more ``since:`` of the filter.
        dry_run: only count what would be deleted.
        yes: do not ask.
    """

    words: Sequence[str] = ()
    since: str | None = None
    dry_run: bool = False
    yes: bool = False


def run_delete(
    store: Path,
    options: DeleteOptions,
    *,
    answers: TextIO | None,
    out: TextIO,
    err: TextIO,
    wait: Callable[[float], object] = time.sleep,
    now_ns: Callable[[], int] = time.time_ns,
) -> int:
    """Delete calls.

    Args:
        store: the store's file.
        options: which calls.
        answers: where somebody agrees, if it is a terminal; ``None`` if it is closed.
        out: for the result.
        err: for everything else, including questions.
        wait: waits so many seconds.
        now_ns: the clock, since the epoch; ``until:30d`` counts back from there.

    Returns:
        The exit status.
    """
    with StoreCommand("spantap store delete", store, err) as command:
        wanted = read_filter(options.words, options.since, now_ns())
        if (objection := _object_to(wanted)) is not None:
            return command.refuse(objection)
        with command.open_store() as reader:
            until = reader.last_seq()
            chosen = reader.that(wanted.where().also(rows=Rows.WITH_FOUND_OUT)).measure(until)
        if options.dry_run:
            out.write(f"{_describe(chosen)} would be deleted\n")
            return 0
        if not chosen.count:
            command.tell(f"no call fits {wanted}.")
            return 0
        if (refusal := None if options.yes else _ask(_describe(chosen), answers, err)) is not None:
            return command.refuse(refusal)
        return _delete(command, wanted, until, out, wait=wait)
    return command.status


def _object_to(wanted: Filter) -> str | None:
    """Say why a filter is refused."""
    if wanted.texts:
        return (
            "texts are for `spantap traces`: delete by conditions, such as user:ID, session:ID or"
            " the id:… of the calls that it finds."
        )
    if not wanted:
        return (
            "say which calls, as in user:ID or until:30d. To delete all of them, remove the store's"
            " files while no proxy runs."
        )
    return None


def _describe(chosen: ChosenSpans) -> str:
    counted = count_spans(chosen.count - chosen.derived, chosen.derived)
    words = f"{counted}, {describe_size(chosen.size_bytes)}"
    if chosen.first_ns is not None and chosen.last_ns is not None:
        first, last = (local_time(at_ns, None) for at_ns in (chosen.first_ns, chosen.last_ns))
        words += f", of {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}"
    if chosen.pending:
        words += f", {chosen.pending:,} of them still to be sent"
    return words


def _ask(what: str, answers: TextIO | None, err: TextIO) -> str | None:
    """Ask on a terminal; return why nothing is deleted, unless somebody agrees."""
    if answers is None or not (answers.isatty() and err.isatty()):
        return f"nothing is deleted of {what}; --yes does it."
    err.write(f"{escape_line(what)}: delete? [y/N] ")
    err.flush()
    if answers.readline().strip().lower() in {"y", "yes"}:
        return None
    return "nothing is deleted."


def _delete(
    command: StoreCommand,
    wanted: Filter,
    until: int,
    out: TextIO,
    *,
    wait: Callable[[float], object],
) -> int:
    """Delete all matching spans up to number `until`, print how many, and return the exit status.

    Raises:
        StoreError: not all could be deleted.
    """
    deleted = derived = 0
    with open_owner(command.path) as owner:
        try:
            # Opened only now: an owner may have migrated the store just before.
            with command.open_store() as reader:
                found_out = reader.that(wanted.where().also(rows=Rows.FOUND_OUT))
                for count in _delete_all(owner, found_out.walk(until)):
                    derived += count
            with command.open_store() as reader:
                calls = reader.that(wanted.where().also(rows=Rows.CALLS))
                for count in _delete_all(owner, calls.walk(until)):
                    deleted += count
        finally:
            out.write(f"deleted {count_spans(deleted, derived)}\n")
        hindrance = _rewrite(owner)
        if not _fold(owner, wait):
            hindrance = _IN_THE_LOG
        elif owner.own is None:
            command.tell(_IN_OLD_COPIES)
    return command.fail(hindrance) if hindrance else 0


def _delete_all(owner: StoreOwner, numbers: Iterator[int]) -> Iterator[int]:
    """Let the owner delete spans; yield how many each step deleted.

    Raises:
        StoreError: not all could be deleted.
    """
    while batch := [*islice(numbers, MAX_DELETE_ROWS)]:
        while batch:
            step = owner.delete(batch)
            batch = batch[max(1, step.looked_at) :]
            yield step.deleted


def _rewrite(owner: StoreOwner) -> str:
    """Write the file again, if we own it; return what is in the way."""
    if owner.own is not None:
        try:
            owner.own.rewrite()
        except StoreError as error:
            return f"their bytes are overwritten, but old copies may be left: {error}"
    return ""


def _fold(owner: StoreOwner, wait: Callable[[float], object]) -> bool:
    """Let the owner cut the write-ahead log to nothing; false if a reader is in the way.

    Raises:
        StoreError: the owner cannot do it.
    """
    for _ in range(FOLD_TRIES):
        if owner.compact(gives_back=False).is_folded:
            return True
        wait(FOLD_WAIT_SECONDS)
    return False


MAX_HINDERED: Final = 20
"""How many steps in a row may fail because of a reader."""

HINDERED_SECONDS: Final = 0.1


def run_compact(
    store: Path, *, out: TextIO, err: TextIO, wait: Callable[[float], object] = time.sleep
) -> int:
    """Give room back, print how much, and return the exit status."""
    with StoreCommand("spantap store compact", store, err) as command:
        command.check_store()
        before_bytes = measure_disk_bytes(store)
        with open_owner(store) as owner:
            last = _compact(owner, wait)
        given = describe_size(max(0, before_bytes - last.size_bytes))
        out.write(f"gave {given} back; the store has {describe_size(last.size_bytes)}\n")
        if not last.is_folded:
            return command.fail("somebody who reads the store is in the way; run it again.")
    return command.status


def _compact(owner: StoreOwner, wait: Callable[[float], object]) -> CompactStep:
    """Give back all free pages.

    Raises:
        StoreError: the owner cannot do it.
    """
    step = owner.compact(gives_back=True) if owner.own is None else owner.own.rewrite()
    # A proxy at its limit frees pages all the time and fills them again, so the steps are limited.
    steps = step.free_bytes // MAX_COMPACT_BYTES + 1
    hindered = 0
    while steps > 0 and hindered < MAX_HINDERED and (step.free_bytes or not step.is_folded):
        if step.is_folded:
            steps -= 1
            hindered = 0
        else:
            hindered += 1
            wait(HINDERED_SECONDS)
        step = owner.compact(gives_back=True)
    return step
