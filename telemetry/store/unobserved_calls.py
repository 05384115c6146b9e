"""Calls that were not observed, as the store counts them by path.

A count belongs to one session of the proxy, named by its beginning, and only grows. Writing it
again changes nothing, so a restarted telemetry process counts no call twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from telemetry.store.schema import transaction

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

UPGRADE = "GET "
"""The mark before a path of a request for a WebSocket, which was refused."""

MAX_ROWS = 200
"""The most counts that stay, the newest ones (R5): enough for several sessions with as many paths
as a worker names (:data:`proxy.relay.unobserved.MAX_PATHS`)."""

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
SELECT CAST(path AS TEXT), sum(calls), max(last_ns) FROM unobserved
WHERE run_ns >= ? AND path IS NOT NULL AND typeof(calls) = 'integer' AND typeof(last_ns) = 'integer'
    AND calls BETWEEN 0 AND 1 << 53
GROUP BY 1 ORDER BY sum(calls) DESC, 1
"""


class UnobservedCalls(NamedTuple):
    """Unobserved calls to one path, without its query, and when the last was counted.

    The path ``_other`` stands for further paths, after too many different ones.
    """

    path: str
    calls: int
    last_ns: int

    @property
    def is_upgrade(self) -> bool:
        """Whether a WebSocket was requested, and refused."""
        return self.path.startswith(UPGRADE)


def write_unobserved(
    connection: sqlite3.Connection,
    run_ns: int,
    counts: Mapping[str, int],
    now_ns: int,
    max_age_ns: int,
) -> None:
    """Write the counts of a session of the proxy, and remove old ones."""
    with transaction(connection):
        connection.executemany(
            _WRITE, [(run_ns, path, calls, now_ns) for path, calls in counts.items()]
        )
        connection.execute(_EXPIRE, (now_ns - max_age_ns, MAX_ROWS))


def read_unobserved(connection: sqlite3.Connection, since_ns: int = 0) -> list[UnobservedCalls]:
    """Read unobserved calls, the most frequent path first; empty if the store has no table of them.

    `since_ns`: only those of sessions of the proxy that began later.
    """
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'unobserved'").fetchone():
        return []
    return [UnobservedCalls(*row) for row in connection.execute(_READ, (since_ns,))]
