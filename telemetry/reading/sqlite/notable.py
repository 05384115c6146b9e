"""The slowest and dearest calls, and how calls failed. On an open connection."""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, Final

from telemetry.reading.engine import Failure, Notable
from telemetry.reading.sqlite.summing import STEP_NUMBERS
from telemetry.reading.sqlite.walking import walk_back

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping, Sequence

    from telemetry.reading.sqlite.conditions import Chosen

MAX_ERROR_TYPES: Final = 10_000
"""Classes of errors that are counted, a megabyte; providers have some dozens. One more is left
out."""

_FIRST_STEP: Final = 2_000
"""Rows in which the first candidates for the slowest and dearest are found: against these all other
rows are held in the same read."""

_NOTABLE = """
SELECT seq, end_ns - start_ns, cost_usd, status, coalesce(error_type, outcome)
FROM {spans} WHERE seq BETWEEN ? AND ?
    AND (status = 'ERROR' OR end_ns - start_ns > ? OR cost_usd > ?) AND {where}
"""


def find_notable(
    connection: sqlite3.Connection, chosen: Chosen, count: int, is_late: Callable[[], bool]
) -> Notable:
    """Find the slowest and dearest calls, and how calls failed, `count` of each, newest first."""
    statement = _NOTABLE.format(spans=chosen.spans, where=chosen.where)
    slowest: list[tuple[float, int]] = []
    dearest: list[tuple[float, int]] = []
    failed: dict[str, tuple[int, int]] = {}
    is_whole = True
    steps = walk_back(connection, after=chosen.after, size=STEP_NUMBERS, first_size=_FIRST_STEP)
    for step, (since, until) in enumerate(steps):
        if step and is_late():  # sums may have taken all the time: the newest rows are read anyway
            is_whole = False
            break
        bounds = (_find_bound(slowest, count), _find_bound(dearest, count))
        rows = connection.execute(statement, (since, until, *bounds, *chosen.values))
        for seq, took, cost, status, error_type in rows:
            if isinstance(took, int):
                slowest.append((took, seq))
            if isinstance(cost, int | float):
                dearest.append((cost, seq))
            if status == "ERROR":
                _count_failure(failed, str(error_type), seq)
        slowest, dearest = nlargest(count, slowest), nlargest(count, dearest)
    return Notable(
        [seq for _, seq in slowest],
        [seq for _, seq in dearest],
        nlargest(count, _list_failures(failed), key=lambda one: (one.calls, one.last_seq)),
        is_whole,
    )


def _find_bound(found: Sequence[tuple[float, int]], count: int) -> float:
    """Find the value that a row must exceed to be listed."""
    return found[-1][0] if len(found) >= count else -1


def _count_failure(failed: dict[str, tuple[int, int]], error_type: str, seq: int) -> None:
    if len(failed) >= MAX_ERROR_TYPES and error_type not in failed:
        return
    calls, last = failed.get(error_type, (0, 0))
    failed[error_type] = (calls + 1, max(last, seq))


def _list_failures(failed: Mapping[str, tuple[int, int]]) -> list[Failure]:
    return [Failure(name, calls, last) for name, (calls, last) in failed.items()]
