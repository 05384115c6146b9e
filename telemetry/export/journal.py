"""What the exporter says in the log, and how often.

Rules:

1. A backend that begins to fail is one line, one that recovers another, whatever the number of
   tries; one that flaps gets no more than a pair of them per minute, and a long outage is told
   again every ten minutes.
2. Any other kind of line comes at most once a minute.
3. No line holds the backend's words, which may quote the spans, nor a credential (R7).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from telemetry.rate_limit import RateLimit

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("ExportJournal",)

_OUTAGE_LOG_SECONDS = 600.0
"""Between two log lines about one outage: whoever looks at today's log alone shall see it."""

_LOG_SECONDS = 60.0
"""At most one line of a kind in this time."""

_logger = logging.getLogger("spantap.exporter")


class ExportJournal:
    """The log of one exporter; for one thread.

    Args:
        backend: its scheme, host and port.
        clock_ns: nanoseconds since the epoch.
    """

    def __init__(self, backend: str, clock_ns: Callable[[], int]) -> None:
        self._backend = backend
        (
            self._failure_lines,
            self._rejection_lines,
            self._culprit_lines,
            self._warning_lines,
            self._trouble_lines,
        ) = (RateLimit(clock_ns, interval_seconds=_LOG_SECONDS) for _ in range(5))
        self._outage_lines = RateLimit(clock_ns, interval_seconds=_OUTAGE_LOG_SECONDS)
        self._failures = 0
        self._failure_told = False

    def tell_failure(self, words: str) -> None:
        """A try failed because of `words`."""
        self._failures += 1
        if self._failure_told:
            if self._outage_lines.admit() is not None:
                _logger.warning(
                    "%s still takes no spans (%s), after %d tries; `spantap check` tells more",
                    self._backend,
                    words,
                    self._failures,
                )
        elif self._failure_lines.admit() is not None:
            self._failure_told = True
            self._outage_lines.admit()
            _logger.warning(
                "%s takes no spans (%s); they wait in the store and are sent when it does",
                self._backend,
                words,
            )

    def tell_recovery(self) -> None:
        """A try did not fail."""
        if self._failure_told:
            _logger.info(
                "%s takes spans again, after %d failed tries", self._backend, self._failures
            )
        self._failures = 0
        self._failure_told = False

    def tell_rejection(self, span_id: str, words: str) -> None:
        """The backend refused one span."""
        untold = self._rejection_lines.admit()
        if untold is not None:
            _logger.warning(
                "%s refused span %s (%s); it is set aside, `spantap traces show` has its words; "
                "%d in all since the last such line",
                self._backend,
                span_id,
                words,
                untold + 1,
            )

    def tell_culprit(self, span_id: str, words: str) -> None:
        """The backend fails on one span while it takes others."""
        untold = self._culprit_lines.admit()
        if untold is not None:
            _logger.warning(
                "%s fails on span %s (%s) and takes others; that one is tried alone from now on, "
                "`spantap traces show` has its words; %d in all since the last such line",
                self._backend,
                span_id,
                words,
                untold + 1,
            )

    def tell_warning(self, words: str) -> None:
        """The backend took everything, with `words`; nothing where they are empty."""
        if words and self._warning_lines.admit() is not None:
            _logger.warning("%s took the spans %s", self._backend, words)

    def tell_trouble(self, words: str) -> None:
        """Something on our side went wrong."""
        if self._trouble_lines.admit() is not None:
            _logger.error("spans cannot be exported, the next try follows: %s", words)
