"""Shows the calls of a launch when it is over."""

from __future__ import annotations

import contextlib
import shlex
import time
from typing import TYPE_CHECKING

from codec.apis.table import find_api
from proxy.commands.console import open_console
from proxy.commands.table import print_table
from proxy.commands.unobserved import print_unobserved
from telemetry.errors import StoreError
from telemetry.finding.where import ALL_CALLS, ask_launch
from telemetry.reading.stored_calls import open_calls
from telemetry.store.unobserved_calls import UPGRADE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import TextIO

    from telemetry.reading.calls import Calls
    from telemetry.store.unobserved_calls import UnobservedCalls

MAX_ROWS = 20
"""How many calls are shown, the last ones: about a screen."""

QUIET_SECONDS = 0.5
"""A launch is over when no call of it has been stored for this long. Calls are committed within a
quarter of a second, and the proxy notices within a tenth of a second that a client has gone."""

NONE_SECONDS = 2.0
"""How long to wait for the first call, on a busy machine."""

MAX_WAIT_SECONDS = 5.0
"""The longest wait, because a process that the command has left behind may make more calls."""

LOOK_SECONDS = 0.1


def wait_for_calls(store: Path, launch: tuple[str, str]) -> None:
    """Wait until a proxy that continues to run stores no more calls of a launch."""
    until = time.monotonic() + MAX_WAIT_SECONDS
    with contextlib.suppress(StoreError, OSError), _reading(store, launch) as reader:
        count, since = -1, time.monotonic()
        while (now := time.monotonic()) < until:
            if (stored := reader.count()) != count:
                count, since = stored, now
            if now - since >= (QUIET_SECONDS if count else NONE_SECONDS):
                break
            time.sleep(LOOK_SECONDS)


def print_summary(store: Path, launch: tuple[str, str], own_ns: int | None, err: TextIO) -> None:
    """Print a table of the last calls of a launch, and how many were not observed.

    Args:
        store: where they are.
        launch: its name and its number.
        own_ns: when the launch began, if no other launch uses its proxy: all unobserved calls since
            then belong to it. ``None`` if another launch uses the proxy too.
        err: where to print.
    """
    console = open_console(err)
    with contextlib.suppress(OSError):  # nobody reads
        try:
            with _reading(store, launch) as reader:
                count = reader.count()
                if count:
                    print_table(console, reader.rows(reversed(reader.numbers(MAX_ROWS))))
                others = [] if own_ns is None else reader.unobserved(own_ns)
        except StoreError as error:
            console.out(f"spantap: the calls cannot be shown: {error}")
            return
        shown = f", the last {MAX_ROWS} of them above" if count > MAX_ROWS else ""
        if count:
            calls_word = "call" if count == 1 else "calls"
            console.out(
                f"spantap: {count:,} {calls_word}{shown}; "
                f"`spantap traces --run {shlex.quote(launch[0])}` lists them"
            )
        else:
            console.out(
                "spantap: no call is recorded: none came through, or sampling left it out; "
                "`spantap help run` says which programs take their base URL from the environment"
            )
        print_unobserved(console, [one for one in others if not (count and _may_continue(one))])


def _may_continue(refused: UnobservedCalls) -> bool:
    """Tell whether a client may continue over HTTP, as Codex does, once a WebSocket is refused."""
    path = refused.path.removeprefix(UPGRADE)
    return refused.is_upgrade and find_api("POST", path) is not None


@contextlib.contextmanager
def _reading(store: Path, launch: tuple[str, str]) -> Iterator[Calls]:
    with open_calls(store) as reader:
        yield reader.that(ALL_CALLS.also(ask_launch(*launch)))
