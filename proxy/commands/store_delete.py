"""``spantap store delete`` and ``compact``: calls that go for good, and the room they leave.

Rules:

1. What fits is counted first, and none that was recorded later goes. Of a condition that changes
   with time, ``state:pending`` alone, it counts what holds when a call's turn comes.
2. Nothing goes unless somebody has said yes: on a terminal, or by ``--yes``. An empty filter, which
   would be all calls, is refused. So is a text: a person's data is not found by what they may have
   said, and others may have said it, too.
3. The owner of the store does it, in short steps (:mod:`proxy.commands.store_owner`), so that a
   proxy goes on recording.
4. At the end the file is written anew, so that no byte of what was deleted is left in the files of
   the store (:mod:`telemetry.store.deletion`). A proxy cannot do that while it records: there they
   are overwritten where they lie, and what else it takes is told. So is what is in the way.
5. With a call goes what was found out from it: the spans of agents and tools of its run say again
   what calls said, and its mark has its session. They go first, while the calls are there that tell
   which they are.
6. Where no proxy runs, ``compact`` writes the file anew: it has no unused part then, and no byte of
   what was deleted. A proxy gives its free pages back in short steps and goes on recording; that
   ends when none is left, or as many were given as there were.

Exit statuses: 0; 1 where the store is missing or cannot be read or written, a reader is in the way
of ``compact``, or rule 4 does not hold yet; 2 where the filter cannot be followed, or nobody said
yes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from proxy.commands.store_command import StoreCommand, count_spans, describe_size
from proxy.commands.store_owner import open_owner
from proxy.commands.table import local_time
from proxy.escape import escape_line
from proxy.reading.chosen_calls import read_filter
from telemetry.errors import StoreError
from telemetry.store.calls import IS_DERIVED
from telemetry.store.deletion import MAX_COMPACT_BYTES, MAX_DELETE_ROWS
from telemetry.store.retention import measure_disk_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import TextIO

    from proxy.commands.store_owner import StoreOwner
    from telemetry.finding.filter import Filter
    from telemetry.store.rows import ChosenSpans, CompactStep

FOLD_TRIES: Final = 20
"""How often the log is tried to be cut: a reader that is shown in between takes milliseconds."""

FOLD_WAIT_SECONDS: Final = 0.1

_IN_THE_LOG: Final = (
    "their bytes are still in the files, for somebody who reads the store is in the way: run"
    " `spantap store compact` when that has ended."
)

_IN_OLD_COPIES: Final = (
    "their bytes are overwritten. Where SQLite had moved them before, copies may be left in unused"
    " parts of the file: `spantap store compact` removes those once no proxy runs."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """What is asked.

    Attributes:
        words: a filter (:mod:`telemetry.finding.filter`), a word each.
        since: the value of a further ``since:`` of the filter.
        dry_run: count what would go, and delete nothing.
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
        options: which of them.
        answers: where somebody says yes, if it is a terminal; ``None`` where it is closed.
        out: for what was done.
        err: for everything else, questions included.
        wait: waits so many seconds.
        now_ns: the clock, since the epoch; what ``until:30d`` counts back from.

    Returns:
        The exit status.
    """
    with StoreCommand("spantap store delete", store, err) as command:
        wanted = read_filter(options.words, options.since, now_ns())
        if (objection := _object_to(wanted)) is not None:
            return command.refuse(objection)
        with command.open_store() as reader:
            reader.choose_with_derived(*wanted.where())
            until = reader.last_seq()
            told = reader.measure(until)
        if options.dry_run:
            out.write(f"{_describe(told)} would be deleted\n")
            return 0
        if not told.count:
            command.tell(f"no call fits {wanted}.")
            return 0
        if (refusal := None if options.yes else _ask(_describe(told), answers, err)) is not None:
            return command.refuse(refusal)
        return _delete(command, wanted, until, out, wait=wait)
    return command.status


def _object_to(wanted: Filter) -> str | None:
    """Say why a filter is refused (rule 2)."""
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


def _describe(told: ChosenSpans) -> str:
    counted = count_spans(told.count - told.derived, told.derived)
    words = f"{counted}, {describe_size(told.size_bytes)}"
    if told.first_ns is not None and told.last_ns is not None:
        first, last = (local_time(at_ns, None) for at_ns in (told.first_ns, told.last_ns))
        words += f", of {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}"
    if told.pending:
        words += f", {told.pending:,} of them still to be sent"
    return words


def _ask(what: str, answers: TextIO | None, err: TextIO) -> str | None:
    """Ask on a terminal; say why nothing is deleted, unless somebody says yes (rule 2)."""
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
    """Delete all that fits up to number `until`, tell how many, and return the exit status.

    Raises:
        StoreError: not all could be deleted.
    """
    deleted = derived = 0
    with open_owner(command.path) as owner:
        try:
            # Opened only now: an owner may have migrated the store just before.
            with command.open_store() as reader:
                reader.choose_with_derived(*wanted.where())
                reader.choose(IS_DERIVED)
                for count in _delete_all(owner, reader.oldest_first(until)):
                    derived += count
            with command.open_store() as reader:
                reader.choose(*wanted.where())
                for count in _delete_all(owner, reader.oldest_first(until)):
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
    """Have spans deleted; yield how many of each step there were.

    Raises:
        StoreError: not all could be deleted.
    """
    while batch := [*islice(numbers, MAX_DELETE_ROWS)]:
        while batch:
            step = owner.delete(batch)
            batch = batch[max(1, step.looked_at) :]
            yield step.deleted


def _rewrite(owner: StoreOwner) -> str:
    """Write the file anew, if it is ours; say what is in the way (rule 4)."""
    if owner.own is not None:
        try:
            owner.own.rewrite()
        except StoreError as error:
            return f"their bytes are overwritten, but old copies may be left: {error}"
    return ""


def _fold(owner: StoreOwner, wait: Callable[[float], object]) -> bool:
    """Have the write-ahead log cut to nothing (rule 4); false where a reader is in the way.

    Raises:
        StoreError: the owner does not do it.
    """
    for _ in range(FOLD_TRIES):
        if owner.compact(gives_back=False).is_folded:
            return True
        wait(FOLD_WAIT_SECONDS)
    return False


MAX_HINDERED: Final = 20
"""How many steps in a row may fail for a reader."""

HINDERED_SECONDS: Final = 0.1


def run_compact(
    store: Path, *, out: TextIO, err: TextIO, wait: Callable[[float], object] = time.sleep
) -> int:
    """Give room back, tell how much, and return the exit status."""
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
    """Give back what there is, and what is added to that at the same pace.

    Raises:
        StoreError: the owner does not do it.
    """
    step = owner.compact(gives_back=True) if owner.own is None else owner.own.rewrite()
    # A proxy at its limit frees pages all the time, and fills them again.
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
