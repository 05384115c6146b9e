r"""Formats one log record as one line, for people or for programs.

A record is one line of at most :data:`MAX_LINE_BYTES`. Line ends, control characters (a terminal
obeys some) and halves of surrogate pairs become visible as ``\x1b``.

For an exception, the line has its type and the place where it was raised, but not its text:
libraries quote what they were given, and that may be a prompt or a key (R7). For the same reason
only fixed text of other people's loggers is logged.
"""

from __future__ import annotations

import errno
import json
import logging
import re
import traceback
from collections import deque
from datetime import UTC, datetime

from proxy.escape import escape_line
from telemetry.export.sdk_logs import fixed_text

MAX_LINE_BYTES = 4096
"""``PIPE_BUF`` on Linux: the most that is written to a pipe in one piece, so that lines of several
processes on the same standard error do not mix."""

_MAX_MESSAGE_CHARS = 800
_MAX_EXCEPTION_CHARS = 400
_MAX_NAME_CHARS = 80
"""Limits of the parts of a line. Together they are shorter than a line, even if each character of
the message takes four bytes; the exception and the name are ASCII."""

_MAX_PLACES = 5
"""How many calls of a traceback are shown, from the innermost: enough to see how it got there."""

_MAX_CAUSES = 3
"""How many exceptions of a chain are shown, the last one first."""

_OWN = "spantap"
_SPEAKS_FIRST_WORDS = frozenset({"aiohttp", "asyncio"})
"""Loggers whose messages begin with fixed words, before they quote anything."""

_QUOTES = re.compile(r"[\n<(\[{'\":=]")
"""The end of these fixed words."""

_LOCAL_TIME = logging.Formatter()


def format_for_people(record: logging.LogRecord, process: str, suppressed: int) -> str:
    """Format time, level, process, logger, message and exception.

    `process` is empty if there is only one. `suppressed` such lines were left out before this one.
    """
    name = _short_ascii(record.name, _MAX_NAME_CHARS)
    place = f"[{process}] {name}" if process else name
    message = _message(record, suppressed)
    line = f"{_LOCAL_TIME.formatTime(record)} {record.levelname:<7} {place}: {message}"
    exception = _exception(record)
    return f"{line} ({exception})" if exception else line


def format_for_programs(record: logging.LogRecord, process: str, suppressed: int) -> str:
    """Format a record as one JSON object; the time is RFC 3339 in UTC."""
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    members = {
        "time": time.replace("+00:00", "Z"),
        "level": record.levelname,
        "logger": _short_ascii(record.name, _MAX_NAME_CHARS),
        "process": process,
        "pid": record.process,
        "message": _message(record, suppressed),
    }
    if exception := _exception(record):
        members["exception"] = exception
    return json.dumps(members, ensure_ascii=False)


def _message(record: logging.LogRecord, suppressed: int) -> str:
    is_own = record.name.partition(".")[0] == _OWN
    text = _short(_own_text(record) if is_own else _foreign_text(record), _MAX_MESSAGE_CHARS)
    return f"{text} (and {suppressed:,} more such lines, not shown)" if suppressed else text


def _own_text(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - the arguments do not fit, and logging must not fail
        return str(record.msg)


def _foreign_text(record: logging.LogRecord) -> str:
    """Keep only text that is fixed in the library's code."""
    text = str(record.msg)
    if record.args:
        return fixed_text(text)
    if record.name.partition(".")[0] in _SPEAKS_FIRST_WORDS:
        return _QUOTES.split(text, maxsplit=1)[0].rstrip()
    return f"(a text that may quote anything, from {_file(record.pathname)}:{record.lineno})"


def _exception(record: logging.LogRecord) -> str:
    """Name an exception and its causes, without their texts; empty if there is no exception."""
    error = record.exc_info[1] if record.exc_info else None
    names: list[str] = []
    while error is not None and len(names) < _MAX_CAUSES:
        names.append(_type_and_places(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return _short_ascii(", from ".join(names), _MAX_EXCEPTION_CHARS)


def _type_and_places(error: BaseException) -> str:
    name = type(error).__name__
    if isinstance(error, OSError) and (symbol := errno.errorcode.get(error.errno or 0)):
        name = f"{name} {symbol}"
    frames = deque(traceback.walk_tb(error.__traceback__), maxlen=_MAX_PLACES)
    places = (f"{_file(frame.f_code.co_filename)}:{line}" for frame, line in frames)
    return f"{name} at {' > '.join(places)}" if frames else name


def _file(path: str) -> str:
    """Name a file with its folder: ``relay/tee.py``."""
    return "/".join(path.split("/")[-2:])


def _short(text: str, limit_chars: int) -> str:
    text = escape_line(text)
    return text if len(text) <= limit_chars else f"{text[: limit_chars - 1]}…"


def _short_ascii(text: str, limit_chars: int) -> str:
    """Shorten a name in other people's code, which is usually short and ASCII."""
    text = escape_line(text).encode("ascii", "backslashreplace").decode("ascii")
    return text if len(text) <= limit_chars else f"{text[: limit_chars - 3]}..."
