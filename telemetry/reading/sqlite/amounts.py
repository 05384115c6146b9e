"""Sums of rows by the quickest way (:mod:`telemetry.reading.sqlite.summing` has the ways).

All calls are summed up by the minutes, and by the rows that these leave out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from telemetry.finding.where import ALL_CALLS
from telemetry.reading.engine import Amounts, never
from telemetry.reading.sqlite import summing
from telemetry.store.minutes import find_summed_after
from telemetry.store.tally import read_tally, read_whole_tally

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from telemetry.finding.where import Where
    from telemetry.reading.engine import Group
    from telemetry.reading.sqlite.conditions import Chosen

_COUNTED: Final = ("calls",)


class RowSums:
    """Sums rows of a store up.

    Args:
        connection: to the store, for reading.
        listed: the table of spans, without its indexes.
    """

    def __init__(self, connection: sqlite3.Connection, listed: str) -> None:
        self._connection = connection
        self._listed = listed
        self._older: tuple[object, int] = (None, 0)

    def sum(
        self,
        where: Where,
        chosen: Chosen,
        by: Sequence[Group],
        names: Sequence[str],
        is_late: Callable[[], bool] | None,
        *,
        is_bounded: bool,
    ) -> Amounts:
        """Sum rows up; `is_bounded`: of some numbers alone, which the minutes do not know."""
        times = (where.since_ns, where.until_ns)
        is_quick = where.is_plain and not is_bounded and summing.can_be_minutes(times, by, names)
        summed_after = find_summed_after(self._connection) if is_quick else None
        if summed_after is None:
            if where.conversation is not None:
                return Amounts(summing.sum_conversation(self._connection, chosen, by, names))
            return Amounts(*summing.sum_rows(self._connection, chosen, by, names, is_late))
        sums, is_all = summing.sum_minutes(self._connection, times, by, names, is_late)
        chosen = chosen._replace(spans=self._listed, before=summed_after + 1)
        if where == ALL_CALLS and (*names,) == _COUNTED and not by:
            more: dict[tuple[Any, ...], tuple[Any, ...]] = {(): (self._count_older(chosen),)}
            is_rest = True
        else:
            more, is_rest = summing.sum_rows(self._connection, chosen, by, names, is_late)
        return Amounts(summing.merge(sums, more, names), is_all and is_rest)

    def _count_older(self, chosen: Chosen) -> int:
        """Count the calls that are in no minute; again only after rows were removed.

        Nobody adds such a call, so only a removal changes their number. How many rows were ever
        removed is what the tally has recorded, less what it counts.
        """
        tally = read_tally(self._connection)
        removed = tally.recorded - sum(tally.counts.values()) if tally.is_whole else None
        key = (removed, chosen.before)
        if removed is None or self._older[0] != key:
            sums, _ = summing.sum_rows(self._connection, chosen, (), _COUNTED, never)
            self._older = (key, sums[()][0] if sums else 0)
        return self._older[1]

    def count_states(self, all_rows: Chosen) -> Amounts:
        """Count all rows by state, by the tally where there is one."""
        counts = read_whole_tally(self._connection)
        if counts is not None:
            return Amounts({(state,): (count,) for state, count in counts.items() if count})
        return Amounts(*summing.sum_rows(self._connection, all_rows, ("state",), ("rows",), None))
