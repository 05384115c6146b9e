"""The exporter's log lines, and how often they come.

No line has the backend's words, which may quote the spans, or a credential (R7).
"""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING

from telemetry.rate_limit import RateLimit

if TYPE_CHECKING:
    from collections.abc import Callable

_OUTAGE_LOG_SECONDS = 600.0
"""The time between two log lines about one outage, so that today's log shows it."""

_logger = logging.getLogger("spantap.exporter")


class ExportJournal:
    """The log of one exporter to a backend; for one thread.

    There is one line when a backend begins to fail and one when it recovers, whatever the number of
    tries: at most one such pair a minute, and one more line in every ten minutes of a long outage.
    Any other kind of line comes at most once a minute.
    """

    def __init__(self, backend: str, clock_ns: Callable[[], int]) -> None:
        self._backend = backend
        (
            self._failure_lines,
            self._rejection_lines,
            self._culprit_lines,
            self._warning_lines,
            self._trouble_lines,
        ) = (RateLimit(clock_ns) for _ in range(5))
        self._outage_lines = RateLimit(clock_ns, interval_seconds=_OUTAGE_LOG_SECONDS)
        self._failures = 0
        self._failure_logged = False

    def tell_failure(self, words: str) -> None:
        """Tell that a try failed because of `words`."""
        self._failures += 1
        if self._failure_logged:
            if self._outage_lines.admit() is not None:
                _logger.warning(
                    "%s still accepts no spans (%s), after %d tries; `spantap check` tells more",
                    self._backend,
                    words,
                    self._failures,
                )
        elif self._failure_lines.admit() is not None:
            self._failure_logged = True
            self._outage_lines.admit()
            _logger.warning(
                "%s accepts no spans (%s); they wait in the store and are sent when it does",
                self._backend,
                words,
            )

    def tell_recovery(self) -> None:
        """Tell that a try did not fail, if an earlier one did."""
        if self._failure_logged:
            _logger.info(
                "%s accepts spans again, after %d failed tries", self._backend, self._failures
            )
        self._failures = 0
        self._failure_logged = False

    def tell_rejection(self, span_id: str, words: str) -> None:
        """Tell that the backend refused one span."""
        what = "%s refused span %s (%s); it is set aside"
        self._tell_span(self._rejection_lines, what, span_id, words)

    def tell_culprit(self, span_id: str, words: str) -> None:
        """Tell that the backend fails on one span while it takes others."""
        what = "%s fails on span %s (%s) and accepts others; that one is tried alone from now on"
        self._tell_span(self._culprit_lines, what, span_id, words)

    def _tell_span(self, lines: RateLimit, what: str, span_id: str, words: str) -> None:
        if (untold := lines.admit()) is not None:
            _logger.warning(
                f"{what}, `spantap traces show` has its words; "  # noqa: G004 - constants
                "%d in all since the last such line",
                self._backend,
                span_id,
                words,
                untold + 1,
            )

    def tell_warning(self, words: str) -> None:
        """Tell that the backend accepted everything, with `words`, if there are any."""
        if words and self._warning_lines.admit() is not None:
            _logger.warning("%s accepted the spans %s", self._backend, words)

    def tell_trouble(self, words: str) -> None:
        """Tell that something on our side went wrong."""
        if self._trouble_lines.admit() is not None:
            _logger.error("spans cannot be exported, the next try follows: %s", words)


def describe_defect(error: Exception) -> str:
    """Name an error and its place: its text may hold a credential that a library was given (R7)."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {place.name}, {place.filename}:{place.lineno}"
