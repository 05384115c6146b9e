"""Limits of what one client, and all clients together, may use of a worker."""

from __future__ import annotations

import logging
import resource
from dataclasses import dataclass

_log = logging.getLogger("spantap.downstream")

MAX_BODIES_BYTES = 512 * 1024 * 1024
"""The default limit of all bodies together: a thousand chats of 256 KiB, each held as it came and
as it was rewritten, or four of the largest. A worker with that many takes less than 2 GB."""

MAX_ANSWER_BYTES = 32 * 1024 * 1024
"""The largest answer: fifty times the longest real one, and still less than may wait for
telemetry."""

FILES_PER_CONNECTION = 2
"""Open files of a connection: one for the client, and one for the upstream."""

MAX_OTHER_FILES = 256
"""Other open files: listeners, the store, idle connections to upstreams, and the clients that get a
503 because there are too many (:data:`proxy.downstream.server.MAX_TURNED_AWAY`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DownstreamLimits:
    """Limits of client connections; :mod:`proxy.settings.settings` gives the reasons for them.

    Attributes:
        header_seconds: from a connection's beginning, or from the first byte of a later request, to
            the end of the request's head; 0 means no limit.
        body_idle_seconds: between two reads of a request's body; 0 means no limit.
        stall_seconds: how long a client may read nothing of its answer; 0 means no limit.
    """

    max_connections: int = 4096
    header_seconds: float = 60.0
    body_idle_seconds: float = 60.0
    stall_seconds: float = 900.0


def count_room(max_files: int) -> int:
    """Return how many connections fit into a number of open files.

    If the number is small, half of it is for connections.
    """
    others = min(MAX_OTHER_FILES, max_files // 2)
    return max(1, (max_files - others) // FILES_PER_CONNECTION)


def fit_file_limit(max_connections: int, max_files: int) -> int:
    """Limit connections to as many as fit into a number of open files (-1: no limit).

    One more could not be accepted, or its request could not be sent. A 503 is better for a client.
    """
    room = count_room(max_files)
    if max_files == resource.RLIM_INFINITY or room >= max_connections:
        return max_connections
    _log.warning(
        "the limit of open files (%d) has room for %d client connections, not for "
        "max_connections, which is %d; raise it (ulimit -n)",
        max_files,
        room,
        max_connections,
    )
    return room
