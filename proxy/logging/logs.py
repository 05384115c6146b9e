"""Log lines on standard error, and how many of them.

Rules:

1. A log line never fails, and never holds up, what it speaks of: where standard error is closed, on
   a full disk, or read by nobody, the line is lost (R2).
2. No line of code says more than :data:`MAX_LINES` a minute, a net below the limits that each kind
   of line has of its own (:func:`limit_lines`); what it left out is counted in its next line.
3. What comes out of a record is up to :mod:`proxy.logging.lines`: neither content nor credentials
   (R7).
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import sys
import threading
import time
import warnings
from enum import StrEnum
from typing import TYPE_CHECKING, TextIO

from proxy.logging.lines import format_for_people, format_for_programs
from telemetry.rate_limit import RateLimit

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from proxy.clock import Clock

_log = logging.getLogger("spantap")

LINE_SECONDS = 10.0
"""At most one line of a kind in this time."""

MAX_LINES = 200
"""Lines that one line of code logs in a minute: some 40 MB a day at the worst, and more than the
start of a proxy with a hundred upstreams says."""


class LogFormat(StrEnum):
    """The form of log lines."""

    HUMAN = "human"
    JSON = "json"


def limit_lines(clock: Clock) -> RateLimit:
    """Make a limit for one kind of line that clients or upstreams can cause at will."""
    return RateLimit(clock.monotonic_ns, interval_seconds=LINE_SECONDS)


def log_limited(
    log: logging.Logger, lines: RateLimit, text: str, level: int = logging.WARNING
) -> None:
    """Log a line if its limit admits it, and say how many were left out since the last one."""
    if (suppressed := lines.admit()) is not None:
        more = f" ({suppressed} more since the last such line)" if suppressed else ""
        log.log(level, "%s%s", text, more, stacklevel=2)


def set_up_logging(level: str, log_format: str = LogFormat.HUMAN, process: str = "") -> None:
    """Send the ``spantap`` loggers, and others' warnings, to standard error; again is harmless.

    What Python itself would write there goes the same way (:mod:`proxy.logging.logs`).

    Args:
        level: of our own loggers; others speak from ``WARNING`` on, or from this if it is higher.
        log_format: one of :class:`LogFormat`.
        process: which of spantap's processes this is (``worker 1``); empty for an only one.
    """
    shape = format_for_programs if log_format == LogFormat.JSON else format_for_people
    root = logging.getLogger()
    others = [handler for handler in root.handlers if not isinstance(handler, _StandardError)]
    root.handlers = [*others, _StandardError(lambda record, more: shape(record, process, more))]
    root.setLevel(max(logging.WARNING, logging.getLevelNamesMapping()[level]))
    logging.getLogger("spantap").setLevel(level)
    _log_uncaught()


class _StandardError(logging.Handler):
    """Handler that writes lines; :meth:`emit` is called under its lock."""

    def __init__(self, shape: Callable[[logging.LogRecord, int], str]) -> None:
        super().__init__()
        self._shape = shape
        self._limits: dict[tuple[str, int], RateLimit] = {}  # bounded by the lines of code

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record, or count it (rules 1 and 2)."""
        with contextlib.suppress(Exception):
            if (suppressed := self._limit(record).admit()) is not None:
                _write(f"{self._shape(record, suppressed)}\n".encode())

    def _limit(self, record: logging.LogRecord) -> RateLimit:
        place = record.pathname, record.lineno
        if place not in self._limits:
            self._limits[place] = RateLimit(time.monotonic_ns, burst=MAX_LINES)
        return self._limits[place]


def _write(line: bytes) -> None:
    """Write a line where that does not have to wait (rule 1).

    Raises:
        OSError: it cannot be written.
    """
    # Python has none where the descriptor was closed at its start: another file has that number.
    if sys.stderr is None:
        return
    descriptor = sys.stderr.fileno()
    # A pipe that is ready takes MAX_LINE_BYTES without waiting; select() knows small numbers only.
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    if poll.poll(0):
        os.write(descriptor, line)


def _log_uncaught() -> None:
    """Log what nobody catches in this process from now on; again is harmless."""
    sys.excepthook = _at_the_end
    threading.excepthook = _in_a_thread
    sys.unraisablehook = _unraisable
    warnings.showwarning = _warning


def _at_the_end(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return  # somebody's wish, which the exit status tells
    _log.critical("spantap ends because of a defect", exc_info=(kind, error, trace))


def _in_a_thread(args: threading.ExceptHookArgs) -> None:
    if not issubclass(args.exc_type, SystemExit):
        _log.critical("a thread ended because of a defect in spantap", exc_info=args.exc_value)


def _unraisable(args: sys.UnraisableHookArgs) -> None:
    _log.error("an error during clean-up", exc_info=args.exc_value)


def _warning(  # noqa: PLR0917 - Python's interface
    message: Warning | str,  # noqa: ARG001 - its text may hold anything
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,  # noqa: ARG001 - none but standard error
    line: str | None = None,  # noqa: ARG001 - the source text
) -> None:
    _log.warning("Python warns of a %s at %s:%d", category.__name__, filename, lineno)
