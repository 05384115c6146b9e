"""What the store remembers of calls that were relayed and not observed: how many, by path.

Rules:

1. A count belongs to one run of the proxy, named by when it began, and only grows. To write it
   again changes nothing, so that a restarted telemetry process counts no call twice.
2. Bounded (R5): old counts go, and of the rest the last :data:`MAX_ROWS` stay.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from telemetry.errors import StoreError
from telemetry.metrics.instruments import REQUESTS_UNOBSERVED
from telemetry.store.schema import transaction

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping

    from telemetry.metrics.snapshot import Snapshot
    from telemetry.store.store import Store

__all__ = ("UnobservedCalls", "UnobservedKeeper", "read_unobserved", "write_unobserved")

MAX_ROWS = 200
"""Some runs with all the paths that a worker names (:data:`proxy.relay.unobserved.MAX_PATHS`)."""

_WRITE = """
INSERT INTO unobserved (run_ns, path, calls, last_ns) VALUES (?, ?, ?, ?)
ON CONFLICT (run_ns, path) DO UPDATE SET calls = excluded.calls, last_ns = excluded.last_ns
WHERE excluded.calls > calls
"""

_EXPIRE = """
DELETE FROM unobserved WHERE last_ns < ?
OR rowid NOT IN (SELECT rowid FROM unobserved ORDER BY last_ns DESC LIMIT ?)
"""

_READ = """
SELECT path, sum(calls), max(last_ns) FROM unobserved GROUP BY path ORDER BY sum(calls) DESC, path
"""


class UnobservedCalls(NamedTuple):
    """Unobserved calls to one path, without its query, and when the last was counted.

    The path ``_other`` stands for those that were too many.
    """

    path: str
    calls: int
    last_ns: int


def write_unobserved(
    connection: sqlite3.Connection,
    run_ns: int,
    counts: Mapping[str, int],
    now_ns: int,
    max_age_ns: int,
) -> None:
    """Write the counts of a run, and remove what is old (rule 2)."""
    with transaction(connection):
        connection.executemany(
            _WRITE, [(run_ns, path, calls, now_ns) for path, calls in counts.items()]
        )
        connection.execute(_EXPIRE, (now_ns - max_age_ns, MAX_ROWS))


def read_unobserved(connection: sqlite3.Connection) -> list[UnobservedCalls]:
    """Read unobserved calls, the most frequent path first; none if there is no table of them."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'unobserved'").fetchone():
        return []
    return [UnobservedCalls(*row) for row in connection.execute(_READ)]


class UnobservedKeeper:
    """Keeps in the store what the workers have counted."""

    def __init__(self, store: Store, now_ns: Callable[[], int]) -> None:
        self._store = store
        self._now_ns = now_ns
        self._kept: dict[str, int] | None = None  # differs from no counts: what is old goes

    def keep(self, numbers: Snapshot | None) -> None:
        """Keep the numbers of all workers since the proxy began; if that fails, the next ones."""
        if numbers is None:
            return
        series = numbers.numbers.get(REQUESTS_UNOBSERVED.name, ())
        counts = {str(one.labels[0]): int(one.value) for one in series}
        if counts != self._kept:
            with contextlib.suppress(StoreError):
                self._store.keep_unobserved(numbers.start_ns, counts, self._now_ns())
                self._kept = counts
