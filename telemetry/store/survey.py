"""A survey of what is in a store, made without changing a byte of it."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from telemetry.store.opening import (
    check_readable,
    connect_reader,
    explain_sqlite_errors,
    open_unchanging,
    wal_path,
)
from telemetry.store.tally import COUNT_STATES
from telemetry.store.unobserved_calls import read_unobserved

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from telemetry.store.unobserved_calls import UnobservedCalls

MAX_CHECK_SECONDS = 5.0
"""The most time for a check of the whole file: about as long as a store of a gigabyte takes."""

_PROGRESS_STEPS = 10_000
"""SQLite's steps between two looks at the clock: some tenths of a millisecond."""

_OLDEST_PENDING = "SELECT min(recorded_ns) FROM spans WHERE state = 'pending'"

_LAST_ERROR = """
SELECT last_error FROM spans WHERE state = ? AND last_error IS NOT NULL
ORDER BY recorded_ns DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSurvey:
    """The contents of a store, in numbers.

    Attributes:
        others: the number of spans that wait for nobody.
        oldest_pending_ns: when the oldest pending span was recorded; ``None`` if none waits.
        pending_error: why the last pending span that was tried could not be sent.
        rejected_error: why the last rejected one was refused.
        unobserved: calls that were relayed and are in no span.
        damage: what SQLite finds wrong with the file; empty if nothing was found.
        is_checked: the file was read to its end.
    """

    pending: int
    rejected: int
    others: int
    oldest_pending_ns: int | None
    pending_error: str | None
    rejected_error: str | None
    unobserved: Sequence[UnobservedCalls] = ()
    damage: str
    is_checked: bool


def survey_store(path: Path, *, is_in_use: bool) -> StoreSurvey:
    """Read the store at `path`; another process may be writing to it.

    While it is in use the whole file is not checked, because a long read would hold the owner's WAL
    (``docs/contract/promises.md#the-store``).

    Raises:
        StoreError: one of its children says why it cannot be read.
    """
    with contextlib.closing(open_untouched(path)) as connection, explain_sqlite_errors(path):
        counts = dict(connection.execute(COUNT_STATES).fetchall())
        (oldest_ns,) = connection.execute(_OLDEST_PENDING).fetchone()
        errors = [connection.execute(_LAST_ERROR, (s,)).fetchone() for s in ("pending", "rejected")]
        pending_error, rejected_error = (row and row[0] for row in errors)
        damage = None if is_in_use else find_damage(connection, MAX_CHECK_SECONDS)
        return StoreSurvey(
            pending=counts.pop("pending", 0),
            rejected=counts.pop("rejected", 0),
            others=sum(counts.values()),
            oldest_pending_ns=oldest_ns,
            pending_error=pending_error,
            rejected_error=rejected_error,
            unobserved=read_unobserved(connection),
            damage=damage or "",
            is_checked=damage is not None,
        )


def open_untouched(path: Path) -> sqlite3.Connection:
    """Open a connection that makes no file.

    If nobody has the store open, any other reader would make SQLite's companions (``-wal``,
    ``-shm``); here the file is read as one that does not change.

    Raises:
        StoreError: one of its children says why the store cannot be read.
    """
    if wal_path(path).exists():
        return connect_reader(path)
    with explain_sqlite_errors(path):
        connection = open_unchanging(path)
        try:
            check_readable(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


def find_damage(connection: sqlite3.Connection, max_seconds: float) -> str | None:
    """Find what is wrong, in SQLite's words; ``None`` if the time was too short."""
    until = time.monotonic() + max_seconds
    connection.set_progress_handler(lambda: time.monotonic() > until, _PROGRESS_STEPS)
    try:
        (words,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        return None
    finally:
        connection.set_progress_handler(None, 0)
    return "" if words == "ok" else str(words)
