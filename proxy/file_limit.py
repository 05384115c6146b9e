"""Raises the limit of open files, and logs when it is reached.

Every open exchange takes two descriptors, so some 500 streams reach the usual soft limit of 1,024.
At the limit asyncio would log a traceback for each connection that waits.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import resource
import sys
from typing import TYPE_CHECKING, Any

from proxy.logging.logs import limit_lines, log_limited

if TYPE_CHECKING:
    import asyncio

    from proxy.clock import Clock

_log = logging.getLogger("spantap")

_OPEN_MAX = 10_240
"""The limit that macOS has for a process, although it reports no limit."""

_AT_THE_LIMIT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def hard_file_limit() -> int:
    """Return how many files this process could have open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard


def raise_file_limit() -> int:
    """Set the soft limit of open files to the hard one, which needs no privilege, and return it.

    macOS may refuse that, because it has a further limit. Then set it to that limit, which is still
    more than its usual 256.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        for wanted in (hard, max(soft, _OPEN_MAX)):
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                return wanted
    return soft


def quieten_file_limit(loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
    """Log connections that cannot be accepted: at most one line in a while."""
    lines = limit_lines(clock)

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _AT_THE_LIMIT:
            loop.default_exception_handler(context)
        else:
            advice = "raise the limit of open files (ulimit -n)"
            text = f"no more connections can be accepted for now: {error.strerror}; {advice}"
            log_limited(_log, lines, text, logging.ERROR)

    loop.set_exception_handler(handle)
