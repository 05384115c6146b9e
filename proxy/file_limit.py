"""The limit of open files, and what happens at it.

Every open exchange takes two descriptors, so the usual soft limit of 1,024 is reached at some 500
streams. At the limit asyncio says so once for each connection that waits, with a traceback.
"""

from __future__ import annotations

import errno
import logging
import resource
from typing import TYPE_CHECKING, Any

from proxy.logs import limit_lines

if TYPE_CHECKING:
    import asyncio

    from proxy.clock import Clock

__all__ = ("quieten_file_limit", "raise_file_limit")

_log = logging.getLogger("spantap")

_AT_THE_LIMIT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def raise_file_limit() -> int:
    """Set the soft limit of open files to the hard one, which needs no privilege; answers it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def quieten_file_limit(loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
    """Tell of connections that cannot be accepted in one line now and then."""
    lines = limit_lines(clock)

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _AT_THE_LIMIT:
            loop.default_exception_handler(context)
        elif (suppressed := lines.admit()) is not None:
            _log.error(
                "no more connections can be accepted for now: %s; raise the limit of open files "
                "(ulimit -n) (%d more such lines suppressed)",
                error.strerror,
                suppressed,
            )

    loop.set_exception_handler(handle)
