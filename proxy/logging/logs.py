"""Writes log lines to standard error, and limits how many.

A log line never fails or delays what it reports: if standard error is closed, on a full disk, or
read by nobody, the line is lost (R2). :mod:`proxy.logging.lines` decides which parts of a record
are in its line.
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
"""In this time at most one line of a kind is logged."""

MAX_LINES = 200
"""How many lines one line of code may log in a minute, besides the limits of each kind of line
(:func:`limit_lines`): some 40 MB a day at worst, and more than a proxy with a hundred upstreams
logs at its start. The next line says how many were left out."""


class LogFormat(StrEnum):
    """The form of log lines."""

    HUMAN = "human"
    JSON = "json"


def limit_lines(clock: Clock) -> RateLimit:
    """Make a limit for one kind of line, if clients or upstreams can cause it at will."""
    return RateLimit(clock.monotonic_ns, interval_seconds=LINE_SECONDS)


def log_limited(
    log: logging.Logger, lines: RateLimit, text: str, level: int = logging.WARNING
) -> None:
    """Log a line if its limit allows it, and say how many were left out since the last one."""
    if (suppressed := lines.admit()) is not None:
        more = f" ({suppressed} more since the last such line)" if suppressed else ""
        log.log(level, "%s%s", text, more, stacklevel=2)


def set_up_logging(level: str, log_format: str = LogFormat.HUMAN, process: str = "") -> None:
    """Write our log records, and other loggers' warnings, to standard error.

    What Python itself would write there (uncaught errors, warnings) becomes such lines too. A
    second call changes nothing.

    Args:
        level: the lowest level of our loggers; others log from ``WARNING``, or from this if it is
            higher.
        log_format: one of :class:`LogFormat`.
        process: which of spantap's processes this is (``worker 1``); empty if there is only one.
    """
    shape = format_for_programs if log_format == LogFormat.JSON else format_for_people
    root = logging.getLogger()
    others = [handler for handler in root.handlers if not isinstance(handler, _StandardError)]
    root.handlers = [*others, _StandardError(lambda record, more: shape(record, process, more))]
    root.setLevel(max(logging.WARNING, logging.getLevelNamesMapping()[level]))
    logging.getLogger("spantap").setLevel(level)
    _log_uncaught()


class _StandardError(logging.Handler):
    """A handler that writes lines; :meth:`emit` is called under its lock."""

    def __init__(self, shape: Callable[[logging.LogRecord, int], str]) -> None:
        super().__init__()
        self._shape = shape
        self._limits: dict[tuple[str, int], RateLimit] = {}  # one for each line of code that logs

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record, or only count it if its line of code has logged too much."""
        with contextlib.suppress(Exception):
            if (suppressed := self._limit(record).admit()) is not None:
                _write(f"{self._shape(record, suppressed)}\n".encode())

    def _limit(self, record: logging.LogRecord) -> RateLimit:
        place = record.pathname, record.lineno
        if place not in self._limits:
            self._limits[place] = RateLimit(time.monotonic_ns, burst=MAX_LINES)
        return self._limits[place]


def _write(line: bytes) -> None:
    """Write a line, unless that would have to wait.

    Raises:
        OSError: it cannot be written.
    """
    # None if the descriptor was closed at the start: another file may have its number now.
    if sys.stderr is None:
        return
    descriptor = sys.stderr.fileno()
    # A pipe that is ready takes MAX_LINE_BYTES without waiting. Not select(), which accepts only
    # small descriptors.
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    if poll.poll(0):
        os.write(descriptor, line)


def _log_uncaught() -> None:
    """From now on log errors that nobody catches in this process; a second call changes nothing."""
    sys.excepthook = _at_the_end
    threading.excepthook = _in_a_thread
    sys.unraisablehook = _unraisable
    warnings.showwarning = _warning


def _at_the_end(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return  # somebody wanted that, and the exit status says so
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
    file: TextIO | None = None,  # noqa: ARG001 - always standard error
    line: str | None = None,  # noqa: ARG001 - the source text
) -> None:
    _log.warning("Python warns of a %s at %s:%d", category.__name__, filename, lineno)
