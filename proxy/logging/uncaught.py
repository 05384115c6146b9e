"""Log lines for what Python itself writes to standard error.

Its own tracebacks hold the exception's text, which may be content (R7), and are many lines.
"""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from types import TracebackType

_log = logging.getLogger("spantap")


def log_uncaught() -> None:
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
    _log.critical("spantap ends because of a defect of its own", exc_info=(kind, error, trace))


def _in_a_thread(args: threading.ExceptHookArgs) -> None:
    if not issubclass(args.exc_type, SystemExit):
        _log.critical("a thread ended because of a defect of spantap's", exc_info=args.exc_value)


def _unraisable(args: sys.UnraisableHookArgs) -> None:
    _log.error("an error came up where none can be raised", exc_info=args.exc_value)


def _warning(  # noqa: PLR0917 - Python's interface
    message: Warning | str,  # noqa: ARG001 - its text may hold anything
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,  # noqa: ARG001 - none but standard error
    line: str | None = None,  # noqa: ARG001 - the source text
) -> None:
    _log.warning("Python warns of a %s at %s:%d", category.__name__, filename, lineno)
