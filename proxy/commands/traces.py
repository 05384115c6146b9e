"""``spantap traces``: a list of the calls in the store, also while a proxy writes it.

A list is made of columns; bytes of spans are read only to search them, or if they are wanted. Only
the numbers of the listed calls are held in memory. Without a condition open calls are listed too,
below the recorded ones and in addition to the limit (:mod:`proxy.commands.listing`). Rows that are
not calls are listed only if the filter names their kind. One word that is the beginning of an id
shows that call (:mod:`proxy.commands.show`). Everything except calls goes to standard error.

The exit status is 0; 1 if the store is missing or cannot be read; 2 if a word is the beginning of
several ids, or a filter is wrong.
"""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.commands.console import open_console, paging
from proxy.commands.listing import Listing, find_open_calls, search_content
from proxy.commands.store_command import StoreCommand
from proxy.commands.table import find_title
from proxy.commands.unobserved import print_unobserved
from proxy.processes.open_calls import NO_CALLS
from proxy.reading.chosen_calls import read_filter
from telemetry.facts import ORDERS
from telemetry.finding.where import ALL_ROWS, ask_launch, ask_word
from telemetry.finding.words import quote_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import TextIO

    from rich.console import Console

    from proxy.reading.call import RecordedCall
    from telemetry.finding.filter import Filter
    from telemetry.reading.calls import Calls
    from telemetry.store.rows import StoredSpan

DEFAULT_LIMIT = 20
"""How many calls a list shows: about a screen."""

POLL_SECONDS = 0.5
"""How often ``--follow`` reads the store, which takes a millisecond; soon enough for a person."""

TOOL_SECONDS = 0.1
"""How long a tool is looked for: a line about tools is not worth a wait."""

_MAY_BE_ID = re.compile(r"[0-9a-fA-F]{4,32}")
"""A word that may be the beginning of an id; it is looked up before it counts as a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracesOptions:
    """The options of ``spantap traces``.

    Attributes:
        words: a filter (:mod:`telemetry.finding.filter`), word by word; or one word, which may be
            the beginning of an id.
        since: the value of one more ``since:`` of the filter.
        sort: the order, one of :data:`~telemetry.facts.ORDERS`; else the newest calls are
            listed, the oldest of them first.
        launch: list only calls of launches with this name.
        limit: how many calls to list at most; by default :data:`DEFAULT_LIMIT`.
        follow: then list new calls as they are recorded, until interrupted.
        as_json: one JSON object per line, for programs, instead of a rendering for people.
        full: each object has the request, the answer and the whole span; if one word names a call,
            nothing of it is folded.
        raw: show the bodies of the call that the one word names.
        runs: list the runs of agents that have such calls, the newest first, or as `sort` says.
    """

    words: Sequence[str] = ()
    since: str | None = None
    sort: str | None = None
    launch: str | None = None
    limit: int | None = None
    follow: bool = False
    as_json: bool = False
    full: bool = False
    raw: bool = False
    runs: bool = False


def run_traces(
    store: Path,
    options: TracesOptions,
    *,
    out: TextIO,
    err: TextIO,
    wait: Callable[[float], object] = time.sleep,
    now_ns: Callable[[], int] = time.time_ns,
) -> int:
    """List what is recorded, or show the call that one word names.

    Args:
        store: the store's file.
        options: what to list or show.
        out: for the calls.
        err: for everything else.
        wait: waits so many seconds between two looks.
        now_ns: the clock, since the epoch; what ``since:2h`` counts back from.

    Returns:
        The exit status.
    """
    with StoreCommand("spantap traces", store, err) as command:
        wanted = read_filter(options.words, options.since, now_ns())
        if (contradiction := _contradict(wanted, options)) is not None:
            return command.refuse(contradiction)
        console = open_console(out)
        with command.open_store() as reader:
            if found := _find_word(reader, options):
                return _show(found, console, command, options, reader)
            if options.raw or (options.full and not options.as_json):
                flag = "--raw" if options.raw else "--full without --json"
                return command.refuse(f"{flag} shows one call: name it by the beginning of its id.")
            if options.runs:
                return _list_runs(reader, wanted, options, console, command)
            listing = Listing(
                console,
                reader,
                as_json=options.as_json,
                full=options.full,
                kept=find_title(ORDERS.get(options.sort or "", "")),
            )
            if wanted.texts:
                search_content(
                    _choose(reader, wanted, options),
                    options.limit or DEFAULT_LIMIT,
                    listing,
                    complaints=command.complaints,
                    now_ns=now_ns(),
                )
            else:
                _list(reader, wanted, options, listing, command.tell, wait=wait, now_ns=now_ns)
            if not listing.count and not options.follow:
                described = _describe(wanted, options)
                command.tell(f"no call{described} is recorded in {store} yet.")
            if not options.as_json:
                command.tell_marks(console, listing.marks)
                if options.sort == "slow" and _has_tools(reader, wanted):
                    command.tell(
                        "`kind:tool --sort slow` lists tools; no call includes their time."
                    )
                command.tell_gaps(listing.gaps.explain())
            if not (wanted or options.as_json or options.launch or options.follow):
                print_unobserved(console, reader.unobserved(), has_calls=bool(listing.count))
    return command.status


def _contradict(wanted: Filter, options: TracesOptions) -> str | None:
    """Say which options contradict each other."""
    if options.runs:
        if wanted.texts:
            return f"--runs goes with conditions, and {quote_text(wanted.texts[0])} is a text."
        for flag in ("follow", "full", "raw"):
            if getattr(options, flag):
                return f"--runs lists runs: leave --{flag} out."
    if options.follow and options.sort:
        return "--follow lists calls as they come, and --sort others first: leave one out."
    for flag, is_given in (("--follow", options.follow), ("--sort", options.sort)):
        if wanted.texts and is_given:
            text = quote_text(wanted.texts[0])
            return f"{flag} goes with conditions, and {text} is a text to be searched for."
    return None


def _find_word(reader: Calls, options: TracesOptions) -> list[StoredSpan]:
    """Find the calls whose id begins with the only word, if it may be an id."""
    if options.runs or len(options.words) != 1 or not _MAY_BE_ID.fullmatch(options.words[0]):
        return []
    if options.follow or any((options.since, options.sort, options.launch)):
        return []
    return reader.find(options.words[0])


def _choose(reader: Calls, wanted: Filter, options: TracesOptions) -> Calls:
    """Choose the calls that the filter and the options name."""
    of_launch = () if options.launch is None else (ask_launch(options.launch),)
    return reader.that(wanted.where().also(*of_launch))


def _list(
    reader: Calls,
    wanted: Filter,
    options: TracesOptions,
    listing: Listing,
    tell: Callable[[str], None],
    *,
    wait: Callable[[float], object],
    now_ns: Callable[[], int],
) -> None:
    """List the calls that fulfil the conditions, and open ones if there is no condition.

    If more fit than the default limit, say so.
    """
    reader = _choose(reader, wanted, options)
    limit = options.limit or DEFAULT_LIMIT
    seen = reader.last_seq()
    numbers = reader.numbers(limit + 1, ORDERS.get(options.sort or "", ""))
    is_cut = len(numbers) > limit
    del numbers[limit:]
    if options.sort is None:
        numbers.reverse()
    pages = not (options.follow or options.as_json)
    is_all = not (wanted or options.launch or options.sort or options.follow)
    still_open = find_open_calls(reader.path) if is_all else NO_CALLS
    length = len(numbers) + len(still_open.calls)
    with paging(listing.console, is_long=pages and length >= listing.console.height - 1):
        listing.add(reader.rows(numbers))
        listing.add_open(still_open.calls, now_ns())
    if still_open.count > len(still_open.calls):
        older = still_open.count - len(still_open.calls)
        tell(f"{older} older calls are open, too.")
    if count := still_open.web_sockets:
        tell("1 WebSocket is open." if count == 1 else f"{count:,} WebSockets are open.")
    if options.follow:
        _follow(reader, max(seen, listing.last_seq), listing, wait)
    elif is_cut and options.limit is None:
        first = "newest" if options.sort is None else "first"
        tell(f"these are the {first} {limit}; --limit N lists more.")


def _has_tools(reader: Calls, wanted: Filter) -> bool:
    """Tell whether the store has tools, and the filter does not ask for their kind itself."""
    if any(one.key == "kind" for one in wanted.conditions):
        return False
    tools = reader.that(ALL_ROWS.also(ask_word("kind", "TOOL")))
    return bool(tools.page(1, seconds=TOOL_SECONDS).rows)


def _list_runs(
    reader: Calls,
    wanted: Filter,
    options: TracesOptions,
    console: Console,
    command: StoreCommand,
) -> int:
    """List the runs of agents that have calls that fit (:mod:`proxy.commands.runs`)."""
    from proxy.commands.runs import list_runs  # noqa: PLC0415 - no list of calls needs it

    limit = options.limit or DEFAULT_LIMIT
    largest = ORDERS.get(options.sort or "", "")
    chosen = _choose(reader, wanted, options)
    marks = set[str]()
    count = list_runs(chosen, limit, console, marks, largest=largest, as_json=options.as_json)
    command.tell_marks(console, marks)
    if not count:
        fits = _describe(wanted, options)
        command.tell(f"no run of an agent{fits} is recorded in {reader.path} yet.")
    elif count > limit and options.limit is None:
        first = "newest" if options.sort is None else "first"
        command.tell(f"these are the {first} {limit}; --limit N lists more.")
    return 0


def _follow(reader: Calls, seen: int, listing: Listing, wait: Callable[[float], object]) -> None:
    """List calls as they are recorded, after number `seen`, until interrupted."""
    with contextlib.suppress(KeyboardInterrupt):  # the normal end
        while True:
            wait(POLL_SECONDS)
            last = reader.last_seq()
            listing.add(reader.since(seen))
            # Calls that do not fit the filter are not looked at again.
            seen = max(seen, last, listing.last_seq)


def _describe(wanted: Filter, options: TracesOptions) -> str:
    """Describe the calls that were asked for and not found."""
    of_run = "" if options.launch is None else f" of a run named {options.launch!r}"
    return f"{of_run} that fits {wanted}" if wanted else of_run


def latest_calls(reader: Calls, limit: int = DEFAULT_LIMIT) -> Iterator[RecordedCall]:
    """Read and decode the newest calls one at a time, oldest of them first.

    Raises:
        StoreError: the store cannot be read.
    """
    return map(_decode, reader.newest(limit))


def _decode(stored: StoredSpan) -> RecordedCall:
    from proxy.reading.call import decode_call  # noqa: PLC0415 - no list needs it

    return decode_call(stored.summary, stored.span)


def _show(
    found: Sequence[StoredSpan],
    console: Console,
    command: StoreCommand,
    options: TracesOptions,
    reader: Calls,
) -> int:
    """Show the one call that the word names in full, or say that it names several."""
    from proxy.commands.show import ShowOptions, refuse_several, show_found  # noqa: PLC0415 - no list needs it

    (word,) = options.words
    shown = ShowOptions(as_json=options.as_json, raw=options.raw, whole=options.full)
    if show_found(found, word, shown, console=console, command=command, reader=reader):
        return 0
    words = (
        f"several calls have an id that begins with {word!r}. Name more of it, or search for the"
        f" text: spantap traces '\"{word}\"':"
    )
    return refuse_several(found, words, command)
