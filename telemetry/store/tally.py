"""The tally: how many spans a store has, and ever had, kept in one row beside them.

Functions on an open connection. The row changes in the transaction that adds, settles or removes
spans, so that nobody has to count them each second. If a disk damages it, the next owner makes it
again (:mod:`telemetry.store.mending`).

The number of spans that were ever recorded only grows. An owner writes it down outside of the
database as well (:mod:`telemetry.store.lock`): a file that knows of fewer has lost the others. The
row also has an id of the store, by which another file in its place is recognised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from telemetry.store.rows import SpanState

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

_COUNTED = tuple(state.value for state in SpanState)

_CHANGE = f"UPDATE tally SET {', '.join(f'{state} = {state} + :{state}' for state in _COUNTED)}"  # noqa: S608 - constants

_NONE = dict.fromkeys(_COUNTED, 0)

COUNT_STATES: Final = "SELECT state, count(*) FROM spans GROUP BY state"
"""Counts what the tally should say."""

MAX_COUNT: Final = 1 << 53
"""A greater count is damage, as is a negative one."""


class Tally(NamedTuple):
    """A store's id, how many spans were ever recorded, and how many there are in each state."""

    store_id: str
    recorded: int
    counts: Mapping[str, int]

    @property
    def is_whole(self) -> bool:
        """Whether each value has the form in which it was written: the disk may have damaged it."""
        numbers = (self.recorded, *self.counts.values())
        return (
            type(self.store_id) is str
            and bool(self.store_id)
            and all(type(one) is int and 0 <= one < MAX_COUNT for one in numbers)
        )


def read_tally(connection: sqlite3.Connection) -> Tally:
    """Read the row; without one each value is ``None``."""
    store_id, recorded, *counts = connection.execute(
        f"SELECT store_id, recorded, {', '.join(_COUNTED)} FROM tally"  # noqa: S608 - constants
    ).fetchone() or ("", *(0,) * (len(_COUNTED) + 1))
    return Tally(store_id, recorded, dict(zip(_COUNTED, counts, strict=True)))


def read_whole_tally(connection: sqlite3.Connection) -> Mapping[str, int] | None:
    """Read how many spans are in each state; ``None`` if the tally is missing or damaged."""
    found = connection.execute("SELECT count(*) FROM pragma_table_info('tally')").fetchone()
    tally = read_tally(connection) if found[0] else None
    return tally.counts if tally is not None and tally.is_whole else None


def count_added(connection: sqlite3.Connection, added: Mapping[str, int]) -> int:
    """Count spans that were added, by state; return how many there ever were."""
    (recorded,) = connection.execute(
        f"{_CHANGE}, recorded = recorded + :recorded RETURNING recorded",
        {**_NONE, **added, "recorded": sum(added.values())},
    ).fetchone()
    return int(recorded)


def count_moved(connection: sqlite3.Connection, count: int, state: SpanState) -> None:
    """Count spans that were pending and now are in `state`."""
    connection.execute(_CHANGE, _NONE | {SpanState.PENDING.value: -count, state.value: count})


def count_removed(connection: sqlite3.Connection, removed: Mapping[str, int]) -> None:
    """Count spans that were removed, by state."""
    connection.execute(_CHANGE, _NONE | {state: -count for state, count in removed.items()})
