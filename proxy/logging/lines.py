r"""One log record to one line, for people or for programs.

Rules:

1. A record is one line: line ends, control characters (a terminal obeys some) and halves of
   surrogate pairs become visible as ``\x1b``.
2. An exception is its type and where it was raised. Its text never comes out: libraries put what
   they were given into it, and that may be a prompt or a key (R7).
3. Of records of other people's loggers only fixed text comes out, for the same reason.
4. No line is longer than :data:`MAX_LINE_BYTES`.
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
"""The most that every system writes to a pipe as one piece (``PIPE_BUF`` on Linux): lines of
several processes on one standard error do not run into each other."""

_MAX_MESSAGE_CHARS = 800
_MAX_EXCEPTION_CHARS = 400
_MAX_NAME_CHARS = 80
"""A message of characters of four bytes, and the others in ASCII, are less than a line."""

_MAX_PLACES = 5
"""Calls of a traceback, the innermost ones: enough to see which way it came."""

_MAX_CAUSES = 3
"""Exceptions of a chain, the last one first."""

_OWN = "spantap"
_SPEAKS_FIRST_WORDS = frozenset({"aiohttp", "asyncio"})
"""Loggers whose messages begin with words of their own, before they quote anything."""

_QUOTES = re.compile(r"[\n<(\[{'\":=]")
"""The end of the first words."""

_LOCAL_TIME = logging.Formatter()


def format_for_people(record: logging.LogRecord, process: str, suppressed: int) -> str:
    """Format time, level, process, logger, message and exception.

    `process` is empty where there is only one; `suppressed` lines like this were left out before.
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
    except Exception:  # noqa: BLE001 - arguments that do not fit: logging must not fail
        return str(record.msg)


def _foreign_text(record: logging.LogRecord) -> str:
    """Keep what is sure to be the library's own text (rule 3)."""
    text = str(record.msg)
    if record.args:
        return fixed_text(text)
    if record.name.partition(".")[0] in _SPEAKS_FIRST_WORDS:
        return _QUOTES.split(text, maxsplit=1)[0].rstrip()
    return f"(a text that may quote anything, from {_file(record.pathname)}:{record.lineno})"


def _exception(record: logging.LogRecord) -> str:
    """Name an exception and what it came from (rule 2); empty where there is none."""
    error = record.exc_info[1] if record.exc_info else None
    told: list[str] = []
    while error is not None and len(told) < _MAX_CAUSES:
        told.append(_type_and_places(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return _short_ascii(", from ".join(told), _MAX_EXCEPTION_CHARS)


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
    """Shorten what other people's code is called: as a rule it is ASCII and short."""
    text = escape_line(text).encode("ascii", "backslashreplace").decode("ascii")
    return text if len(text) <= limit_chars else f"{text[: limit_chars - 3]}..."
