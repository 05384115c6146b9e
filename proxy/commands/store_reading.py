"""What the commands that read a store say when they cannot."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from proxy.escape import escape_line
from telemetry.errors import StoreUnavailable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

__all__ = ("complain", "explain_store_error", "tell_missing")


def complain(complaints: Console, command: str, words: str, *lines: str) -> None:
    """Say something of a command in one line; the lines that follow it are escaped already."""
    complaints.out("\n".join((f"{command}: {escape_line(words)}", *lines)))


def tell_missing(complaints: Console, command: str, store: Path) -> None:
    """Say that there is no store."""
    complain(
        complaints,
        command,
        f"there is no store at {store}. `spantap serve` makes it when it"
        " starts; if yours is elsewhere, name it with --store or SPANTAP_STORE.",
    )


def explain_store_error(error: Exception, store: Path) -> str:
    """Say what is wrong; of missing permissions SQLite does not speak."""
    # Readers write too: beside the store lies what they share with its owner.
    may_read = os.access(store, os.R_OK) and os.access(store.parent, os.W_OK | os.X_OK)
    if may_read or not isinstance(error, (StoreUnavailable, OSError)):
        return str(error)
    return (
        f"no permission to read {store} and to write in its folder: run this as the user of"
        f" `spantap serve` ({error})"
    )
