"""Lines of telemetry's log about its own faults: rare, and without content.

A line about an error has its kind and its place, and nothing that a client or a provider said (R7).
No kind of line comes more than once in :data:`~telemetry.rate_limit.LOG_SECONDS`.
"""

from __future__ import annotations

import logging
from traceback import walk_tb
from typing import TYPE_CHECKING

from telemetry.rate_limit import RateLimit

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("spantap.telemetry")


class FaultLog:
    """Writes lines about faults.

    Args:
        now_ns: nanoseconds since the epoch.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._kinds: dict[str, RateLimit] = {}

    def tell(self, error: Exception, what: str) -> None:
        """Log what an error means, and where it was raised."""
        if self.may_say(what):
            _log.error("%s: %s at %s", what, type(error).__name__, _place(error))

    def say(self, what: str) -> None:
        """Log what happened."""
        if self.may_say(what):
            _log.error("%s", what)

    def may_say(self, kind: str) -> bool:
        """Tell whether a line of this kind is due."""
        if kind not in self._kinds:
            self._kinds[kind] = RateLimit(self._now_ns)
        return self._kinds[kind].admit() is not None


def _place(error: Exception) -> str:
    """Find the file and line of an error: the only part of a traceback without content."""
    *_, (frame, line) = walk_tb(error.__traceback__)
    return f"{frame.f_code.co_filename.rpartition('/')[2]}:{line}"
