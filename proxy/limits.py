"""Limits of what one client, and all of them together, may use of a worker."""

from __future__ import annotations

import logging
import resource
from dataclasses import dataclass

_log = logging.getLogger("spantap.downstream")

MAX_BODIES_BYTES = 512 * 1024 * 1024
"""All bodies together, by default: a thousand chats of 256 KiB, each held as it came and rewritten,
or four of the largest; with the rest of a worker it fits into 2 GB."""

MAX_ANSWER_BYTES = 32 * 1024 * 1024
"""Largest answer: fifty times the longest real one, yet no single exchange fills what waits."""

FILES_PER_CONNECTION = 2
"""A client's connection, and its request's to the upstream."""

MAX_OTHER_FILES = 256
"""Open files besides: listeners, the store, idle connections to upstreams, and those clients
(:data:`proxy.downstream.server.MAX_TURNED_AWAY`) that are just being told that there are too
many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DownstreamLimits:
    """Limits of client connections; :mod:`proxy.settings.settings` has the reasons of the numbers.

    Attributes:
        header_seconds: from a connection's beginning, or a further request's first byte, to the
            end of the request's head; 0 means none.
        body_idle_seconds: between two reads of a request's body; 0 means none.
        stall_seconds: how long a client may take nothing of its answer; 0 means for ever.
    """

    max_connections: int = 4096
    header_seconds: float = 60.0
    body_idle_seconds: float = 60.0
    stall_seconds: float = 900.0


def count_room(max_files: int) -> int:
    """Return how many connections a number of open files has room for; a small one is halved."""
    others = min(MAX_OTHER_FILES, max_files // 2)
    return max(1, (max_files - others) // FILES_PER_CONNECTION)


def fit_file_limit(max_connections: int, max_files: int) -> int:
    """Limit connections to what a number of open files (-1: any) has room for.

    One more could not be accepted, nor its request sent; better to turn it away with a word.
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
