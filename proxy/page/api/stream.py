"""``GET /api/calls/ID/stream``: the true bytes of an answer as lines, each with its time.

An answer has :data:`MAX_LINES` lines at most, and about as many characters as a slice of a text
(:mod:`proxy.page.api.slices`), but always one line. A longer line is cut, and says how long it is.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from proxy.page.api.found_calls import find_raw_answer
from proxy.reading.raw_stream import measure_time, walk_lines

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from proxy.page.api.parameters import Parameters
    from proxy.reading.raw_stream import StreamLine
    from telemetry.reading.calls import Calls

STREAM_PARAMETERS: Final = ("from",)

MAX_LINES: Final = 400

MAX_CHARACTERS: Final = 65_536

MAX_LINE_CHARACTERS: Final = 8_192
"""The longest line that is shown whole: many times a usual event."""


def read_stream(reader: Calls, parameters: Parameters) -> JsonObject:
    """Read some lines of an answer as it came."""
    row, answer = find_raw_answer(reader, parameters)
    start = parameters.number("from", 0)
    lines: list[JsonObject] = []
    chars, is_whole = 0, True
    for line in islice(walk_lines(answer), start, None):
        if len(lines) >= MAX_LINES or chars >= MAX_CHARACTERS:
            is_whole = False
            break
        lines.append(_build_line(line, row.start_ns))
        chars += len(line.text or "")
    return {
        "content_type": answer.content_type or None,
        "content_encoding": answer.content_encoding or None,
        "bytes": len(answer.body),
        "left_bytes": answer.left_bytes,
        "reads": len(answer.sizes_bytes),
        "duration_ms": measure_time(answer) / 1e6,
        "lines": lines,
        "from": start,
        "next": None if is_whole else start + len(lines),
    }


def _build_line(line: StreamLine, start_ns: int) -> JsonObject:
    text = line.text
    return {
        "at_ms": (line.at_ns - start_ns) / 1e6,
        "wait_ms": None if line.wait_ns is None else line.wait_ns / 1e6,
        "text": None if text is None else text[:MAX_LINE_CHARACTERS],
        "chars": None if text is None else len(text),
        "bytes": line.size_bytes if text is None else None,
    }
