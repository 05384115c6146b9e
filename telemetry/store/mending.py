"""Mends, at each start, damaged rows that would otherwise never be sent, or never be removed.

Functions on an open connection. Only what an index can find is mended: a start does not read a
million rows.
"""

from __future__ import annotations

import logging
import os
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from telemetry.store.checksum import DAMAGED_WORDS
from telemetry.store.minutes import begin_anew
from telemetry.store.rows import SpanState
from telemetry.store.schema import transaction
from telemetry.store.tally import COUNT_STATES, MAX_COUNT, read_tally

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

_logger = logging.getLogger("spantap.store")

_STATES: Final = sorted(state.value for state in SpanState)

_BETWEEN: Final = " OR ".join(
    [
        "state IS NULL",
        f"state < '{_STATES[0]}'",
        *(f"state > '{one}' AND state < '{two}'" for one, two in pairwise(_STATES)),
        f"state > '{_STATES[-1]}'",
    ]
)
"""True of a state that does not exist. An index answers this, but not ``NOT IN``."""

_SET_ASIDE = f"UPDATE spans SET state = 'rejected', last_error = ? WHERE {_BETWEEN}"  # noqa: S608 - constants

_TIMELESS = """
UPDATE spans SET recorded_ns = CASE typeof(end_ns) WHEN 'integer' THEN end_ns ELSE 0 END
WHERE state = ? AND (recorded_ns IS NULL OR recorded_ns > 9223372036854775807)
"""
"""Infinity, a text and a blob are greater than any integer."""

_IS_COUNT: Final = "(typeof(failed_alone) = 'integer' AND failed_alone >= 0)"

_END_WAITS = f"""
UPDATE spans SET next_try_ns = 0,
    failed_alone = CASE WHEN {_IS_COUNT} THEN failed_alone ELSE 0 END
WHERE state = 'pending' AND (next_try_ns IS NOT 0 OR NOT {_IS_COUNT})
"""  # noqa: S608 - constants

_LAST_SEQ = """
SELECT max(
    coalesce((SELECT CAST(seq AS INTEGER) FROM sqlite_sequence WHERE name = 'spans'), 0),
    coalesce((SELECT max(seq) FROM spans), 0)
)
"""

_SUMMED_AFTER = "SELECT minutes_after FROM tally WHERE typeof(minutes_after) = 'integer'"


def mend(connection: sqlite3.Connection, path: Path) -> int:
    """Mend the single rows that a start finds damaged, and log it.

    Args:
        connection: to the store.
        path: of its file, for the log.

    Returns:
        How many spans are damaged.
    """
    if _mend_tally(connection):
        _logger.error(
            "the tally of the store %s was damaged: its spans are counted again; check the disk",
            path,
        )
    if rows := _mend_rows(connection):
        _logger.error(
            "%d rows of the store %s were damaged, and are set aside; the others are whole;"
            " check the disk",
            rows,
            path,
        )
    return rows


def _mend_rows(connection: sqlite3.Connection) -> int:
    """Mend rows whose state or time is damaged; return how many there were.

    A row whose state does not exist is set aside: it is treated as refused, and goes by age. A row
    whose time is not a number keeps its state, and gets the time of its end.
    """
    with transaction(connection):
        count = connection.execute(_SET_ASIDE, (DAMAGED_WORDS,)).rowcount
        aside = count
        for state in _STATES:
            count += connection.execute(_TIMELESS, (state,)).rowcount
        if aside:
            _count_again(connection)
    return count


def end_waits(connection: sqlite3.Connection) -> None:
    """End the waits that a former owner began, because the backend may work again."""
    connection.execute(_END_WAITS)


def _mend_tally(connection: sqlite3.Connection) -> bool:
    """Make the tally again if it is damaged; true if it was.

    The spans are counted. How many were ever recorded is then concluded from their numbers, and may
    be too many. Sums by minute begin again if it is not known which spans are in them.
    """
    if read_tally(connection).is_whole and connection.execute(_SUMMED_AFTER).fetchone():
        return False
    with transaction(connection):
        _count_again(connection)
    return True


def _count_again(connection: sqlite3.Connection) -> None:
    store_id, recorded, counts = read_tally(connection)
    counts = dict.fromkeys(counts, 0) | {
        state: count for state, count in connection.execute(COUNT_STATES) if state in counts
    }
    (last_seq,) = connection.execute(_LAST_SEQ).fetchone()
    if type(store_id) is not str or not store_id:
        store_id = os.urandom(8).hex()
    if type(recorded) is not int or not 0 <= recorded < MAX_COUNT:
        recorded = last_seq
    after = connection.execute(_SUMMED_AFTER).fetchone()
    row = {
        "store_id": store_id,
        "recorded": max(recorded, sum(counts.values())),
        **counts,
        "minutes_after": last_seq if after is None else after[0],
    }
    connection.execute("DELETE FROM tally")
    connection.execute(
        f"INSERT INTO tally ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",  # noqa: S608 - constants
        tuple(row.values()),
    )
    if after is None:
        begin_anew(connection, last_seq)
