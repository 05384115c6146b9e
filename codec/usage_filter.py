"""Takes out of an answer's event stream the one kind of event that we caused.

Where spantap asked for usage and the client did not, the upstream sends an event that the client
does not expect: naive clients read the first choice of every chunk and die on an empty list
(``dialects.md`` section 6).

Rules (``design.md`` section 4):

1. Taken out is an event made of a single ``data:`` line whose object is
   :func:`codec.chunk.is_usage_only`, together with the blank line that ends it, as often as one
   comes (llama.cpp sends one for each choice).
2. All other bytes pass untouched and in order: comments, blank lines, a byte order mark, events
   that are no JSON.
3. Only the bytes of an incomplete event that may still be such an event wait, at most
   :data:`MAX_HELD_BYTES` of them. A line that begins otherwise, a second line, a choice or too many
   bytes rule it out, and the rest of that event flows.
4. What is taken out does not depend on how the bytes were cut: whatever would rule out an
   incomplete event keeps a complete one in.
"""

from __future__ import annotations

import re

from codec.chunk import is_usage_only
from codec.jsontext import decode_json

__all__ = ("MAX_HELD_BYTES", "UsageFilter")

MAX_HELD_BYTES = 16_384
"""Bytes that may wait (``design.md`` section 4): a usage event has about 1,000."""

_MAX_LINE_BYTES = MAX_HELD_BYTES - len(b"\r\n\r\n")
"""The same limit without line ends, for how these are cut must not matter (rule 4)."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FIELD = b"data:"

# Line ends are LF, CRLF or CR (WHATWG HTML, section 9.2.6); a CRLF is never taken for two.
_TWO_LINE_ENDS = re.compile(rb"(?:\r\n?+|\n){2}").match
_BLANK_LINES = re.compile(rb"[\r\n]+").match
_TO_NO_CHOICE = re.compile(rb'"choices"[ \t]*:[ \t]*\[[ \t]*\]').search
_TO_A_CHOICE = re.compile(rb'"choices"[ \t]*:[ \t]*\[[ \t]*[^ \t\]]').search


class UsageFilter:
    """Filters the body of one answer, read by read.

    Attributes:
        removed_count: how many events were taken out so far.
    """

    def __init__(self) -> None:
        self.removed_count = 0
        self._held = b""
        self._at_start = True
        # Inside an event that flows, and the line end it was cut at: half a blank line, perhaps.
        self._flowing = False
        self._line_end = b""
        # The event taken out last ended in CR; a LF that follows belongs to it.
        self._drops_lf = False

    def feed(self, data: bytes) -> bytes:
        """Take the bytes of one read and answer those to relay now, which may be none."""
        if not data:
            return b""
        begin = 1 if self._drops_lf and data.startswith(b"\n") else 0
        self._drops_lf = False
        return self._filter(self._held + data, begin)

    def finish(self) -> bytes:
        """Answer what still waits, at the end of the body or where it broke off.

        A usage event that lacks its blank line is taken out too, if its object is complete.
        """
        held, self._held = self._held, b""
        if not _is_unwanted(held.rstrip(b"\r\n")):
            return held
        self.removed_count += 1
        return b""

    def _filter(self, data: bytes, begin: int) -> bytes:
        """Relay ``data`` from ``begin`` on, but for what is taken out or must wait."""
        relayed = []
        position = self._skip_harmless(data) or begin
        while position < len(data):
            if self._flowing:
                position = self._find_flow_end(data, position)
            elif self._at_start:
                if len(data) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(data):
                    break
                self._at_start = False
                position = len(_BYTE_ORDER_MARK) if data.startswith(_BYTE_ORDER_MARK) else 0
            elif blank := _BLANK_LINES(data, position):
                position = blank.end()
            else:
                stop = _find_line_end(data, position)
                end = _TWO_LINE_ENDS(data, stop)
                if end is not None and _is_unwanted(data[position:stop]):
                    relayed.append(data[begin:position])
                    begin = position = end.end()
                    self.removed_count += 1
                    self._drops_lf = begin == len(data) and data.endswith(b"\r")
                elif _may_be_unwanted(data, position, stop):
                    break
                else:
                    self._flowing = True
                    self._line_end = b""
        relayed.append(data[begin:position])
        self._held = data[position:]
        return b"".join(relayed)

    def _skip_harmless(self, data: bytes) -> int:
        """Jump over the whole events of a usual read, none of which reports usage alone."""
        end = max(data.rfind(b"\n\n") + len(b"\n\n"), data.rfind(b"\n\r\n") + len(b"\n\r\n"))
        if end <= len(b"\n\r\n") or _TO_NO_CHOICE(data, 0, end):
            return 0
        self._at_start = self._flowing = False
        return end

    def _find_flow_end(self, data: bytes, position: int) -> int:
        """Where the event that flows ends, or the end of the data."""
        known = self._line_end
        rest = known + data[position:]
        stop = end = 0
        while end < len(rest):
            stop = _find_line_end(rest, end)
            if blank := _TWO_LINE_ENDS(rest, stop):
                self._flowing = False
                return position + blank.end() - len(known)
            end = stop + (len(b"\r\n") if rest.startswith(b"\r\n", stop) else 1)
        self._line_end = rest[stop:]
        return len(data)


def _find_line_end(data: bytes, position: int) -> int:
    """The place of the next CR or LF, or the end of the data."""
    line_feed = data.find(b"\n", position)
    end = len(data) if line_feed < 0 else line_feed
    carriage_return = data.find(b"\r", position, end)
    return end if carriage_return < 0 else carriage_return


def _may_be_unwanted(data: bytes, position: int, stop: int) -> bool:
    """Whether an event whose first line runs from ``position`` to ``stop`` may be one to take out.

    The event goes on to the end of the data and is incomplete.
    """
    if not data.startswith(_FIELD, position):
        return _FIELD.startswith(data[position : position + len(_FIELD)])
    return (
        stop - position <= _MAX_LINE_BYTES
        and data[stop : stop + len(b"\r\n.")] in {b"", b"\r", b"\n", b"\r\n"}
        and not _TO_A_CHOICE(data, position, stop)
    )


def _is_unwanted(line: bytes) -> bool:
    """Whether the one line of an event makes it one to take out."""
    if (
        len(line) > _MAX_LINE_BYTES
        or not line.startswith(_FIELD)
        or not _TO_NO_CHOICE(line)
        or _TO_A_CHOICE(line)
    ):
        return False
    try:
        return is_usage_only(decode_json(line[len(_FIELD) :]))
    except ValueError:
        return False
