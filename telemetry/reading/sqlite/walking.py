"""The one walk over the numbers of a store, in steps, so that no read is long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from telemetry.reading.engine import LAST_SEQ

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

STEP_NUMBERS: Final = 100_000
"""Numbers whose rows are held against a condition in one read: some 25 ms, 50 for a pattern."""

STEP_ROWS: Final = 5_000
"""Rows of a conversation or a run in one read: some 25 ms where they lie far from each other."""

CLOCK_SLACK_NS: Final = 3_600_000_000_000
"""An hour: the most that a person, or a wrong time zone, sets a clock back."""

_OLDEST = "SELECT min(seq) FROM spans"

_NEWEST = "SELECT max(seq) FROM spans WHERE seq <= ?"

_NEXT = "SELECT min(seq) FROM spans WHERE seq > ?"

_RECORDED = "SELECT seq, recorded_ns FROM spans WHERE seq >= ? ORDER BY seq LIMIT 1"


def find_newest(connection: sqlite3.Connection, until: int = LAST_SEQ) -> int:
    """Find the newest number up to this one; 0 where there is none."""
    (newest,) = connection.execute(_NEWEST, (until,)).fetchone()
    return int(newest or 0)


def find_oldest(connection: sqlite3.Connection) -> int | None:
    """Find the oldest number; ``None`` where there is none."""
    (oldest,) = connection.execute(_OLDEST).fetchone()
    return None if oldest is None else int(oldest)


def find_before(connection: sqlite3.Connection, at_ns: int) -> int:
    """Find a number such that what began at that time or later has a greater one.

    That holds if no clock was set back by more than :data:`CLOCK_SLACK_NS`.
    """
    at_ns -= CLOCK_SLACK_NS
    high = find_newest(connection) + 1
    low = find_oldest(connection) or high
    while low < high:
        middle = (low + high) // 2
        seq, recorded_ns = connection.execute(_RECORDED, (middle,)).fetchone()
        if not isinstance(recorded_ns, int) or recorded_ns < at_ns:
            low = seq + 1
        else:
            high = middle
    return low - 1


def walk_back(
    connection: sqlite3.Connection,
    *,
    after: int = 0,
    before: int = LAST_SEQ,
    size: int | None = None,
    first_size: int | None = None,
) -> Iterator[tuple[int, int]]:
    """Yield the first and last number of each step, from the newest back, over gaps."""
    oldest = find_oldest(connection)
    if oldest is None:
        return
    size = size or STEP_NUMBERS
    step, first = first_size or size, max(oldest, after + 1)
    until = find_newest(connection, before - 1)
    while until >= first:
        since = max(first, until - step + 1)
        yield since, until
        step = size
        until = find_newest(connection, since - 1)


def walk_on(
    connection: sqlite3.Connection, *, after: int = 0, before: int = LAST_SEQ
) -> Iterator[tuple[int, int]]:
    """Yield the first and last number of each step, from the oldest on, over gaps."""
    at = after
    while True:
        (since,) = connection.execute(_NEXT, (at,)).fetchone()
        if since is None or since >= before:
            return
        at = min(before - 1, since + STEP_NUMBERS - 1)
        yield since, at
