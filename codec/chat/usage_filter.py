"""Takes out of an answer's event stream the one kind of event that we caused.

Where spantap asked for usage and the client did not, the upstream sends an event that the client
does not expect: naive clients read the first choice of every chunk and die on an empty list
(``dialects.md`` section 6).

Rules (``design.md`` section 4):

1. Taken out is an event made of a single ``data:`` line whose object is
   :func:`codec.chat.chunk.is_usage_only`, together with the blank line that ends it, as often as
   one comes (llama.cpp sends one for each choice).
2. All other bytes pass untouched and in order: comments, blank lines, a byte order mark, events
   that are not JSON.
3. Only the bytes of an incomplete event that may still be such an event wait, at most
   :data:`MAX_HELD_BYTES` of them. A line that begins otherwise, a second line, a choice or too many
   bytes rule it out, and the rest of that event flows.
4. What is taken out does not depend on how the bytes were cut: whatever would rule out an
   incomplete event keeps a complete one in.
5. Only an event that names no choice is looked at; whole events before it are jumped over at once.
   Each byte is looked at so a bounded number of times, whatever the events of a read are.
"""

from __future__ import annotations

import re

from codec.chat.chunk import is_usage_only
from codec.text.jsontext import decode_json

__all__ = ("MAX_HELD_BYTES", "UsageFilter")

MAX_HELD_BYTES = 16_384
"""Bytes that may wait (``design.md`` section 4): a usage event has about 1,000."""

_MAX_LINE_BYTES = MAX_HELD_BYTES - len(b"\r\n\r\n")
"""The limit of a line without its ends: how these are cut must not matter (rule 4)."""

_SHORT_LINE_BYTES = 1_024
_LINE_LOOK_BYTES = 16_384
"""Past a short line each kind of line end is looked for by itself, so far at a time: a line of
100 MB is searched ten times as fast, and a kind that never comes costs the lines of the other kind
little (rule 5)."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FIELD = b"data:"

_EVENT_END = b"\n\n"
_CRLF_EVENT_END = b"\n\r\n"

# Line ends are LF, CRLF or CR (WHATWG HTML, section 9.2.6); a CRLF is never taken for two.
_TWO_LINE_ENDS = re.compile(rb"(?:\r\n?+|\n){2}").match
_TO_LINE_END = re.compile(rb"[\r\n]").search
_BLANK_LINES = re.compile(rb"[\r\n]+").match
# What is not followed by the usual beginning of a choice; most chunks end the attempt there.
_TO_NO_CHOICE = re.compile(rb'"choices"(?!:\[\{)[ \t]*:[ \t]*\[[ \t]*\]').search
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
        """Feed the bytes of one read and return those to relay now, which may be none."""
        if self._flowing and not self._line_end and b"\n" not in data and b"\r" not in data:
            return data  # the middle of a long line
        end = data.find(_EVENT_END) + len(_EVENT_END)
        if len(_EVENT_END) < end == len(data) and not (
            self._held or self._drops_lf or _TO_NO_CHOICE(data)
        ):
            # The read of a paced stream: the end of one event, and that is none to remove.
            self._at_start = self._flowing = False
            return data
        if not data:
            return b""
        if self._flowing:
            known = self._line_end
            return self._filter(known + data, position=0, begin=len(known))
        begin = 1 if self._drops_lf and data.startswith(b"\n") else 0
        self._drops_lf = False
        return self._filter(self._held + data, position=begin, begin=begin)

    def finish(self) -> bytes:
        """Answer what still waits, at the end of the body or where it broke off.

        A usage event that lacks its blank line is taken out too, if its object is complete.
        """
        held, self._held = self._held, b""
        if not _is_unwanted(held.rstrip(b"\r\n")):
            return held
        self.removed_count += 1
        return b""

    def _filter(self, data: bytes, position: int, begin: int) -> bytes:
        """Relay ``data`` from ``begin`` on, but for what is taken out or must wait.

        The event under way, or the line end that it was cut at, begins at ``position``.
        """
        relayed = []
        whole = _find_last_end(data, position, len(data))
        jumps_from = position
        while position < len(data):
            if position >= jumps_from:
                position, jumps_from = self._jump(data, position, whole)
            elif self._flowing:
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
        relayed.append(data[begin:position])
        self._held = data[position:]
        return b"".join(relayed)

    def _jump(self, data: bytes, position: int, whole: int) -> tuple[int, int]:
        """Jump over the whole events before the next one that may have to be removed.

        Args:
            data: what is filtered.
            position: where to jump from.
            whole: where the last whole event ends.

        Returns:
            Where to go on event by event, and from where on to jump again.
        """
        suspect = _TO_NO_CHOICE(data, position, whole)
        end = whole if suspect is None else _find_last_end(data, position, suspect.start())
        if end > position:
            position = end
            self._at_start = self._flowing = False
        return position, len(data) if suspect is None else suspect.end()

    def _find_flow_end(self, data: bytes, position: int) -> int:
        """The end of the event that flows, or of the data."""
        stop = position
        while position < len(data):
            stop = _find_line_end(data, position)
            if blank := _TWO_LINE_ENDS(data, stop):
                self._flowing = False
                return blank.end()
            position = stop + (len(b"\r\n") if data.startswith(b"\r\n", stop) else 1)
        self._line_end = data[stop:]
        return len(data)


def _find_last_end(data: bytes, start: int, stop: int) -> int:
    """The end of the last event between two places, by a LF before a blank line; else the first."""
    if stop == len(data) and data.endswith((_EVENT_END, _CRLF_EVENT_END), start):
        return stop
    end = data.rfind(_EVENT_END, start, stop)
    crlf_end = data.rfind(_CRLF_EVENT_END, max(start, end), stop)
    if crlf_end >= 0:
        return crlf_end + len(_CRLF_EVENT_END)
    return start if end < 0 else end + len(_EVENT_END)


def _find_line_end(data: bytes, position: int) -> int:
    """The place of the next CR or LF, or the end of the data."""
    stop = position + _SHORT_LINE_BYTES
    if near := _TO_LINE_END(data, position, stop):
        return near.start()
    while stop < len(data):
        position, stop = stop, stop + _LINE_LOOK_BYTES
        line_feed = data.find(b"\n", position, stop)
        found = data.find(b"\r", position, stop if line_feed < 0 else line_feed)
        if found >= 0 or (found := line_feed) >= 0:
            return found
    return len(data)


def _may_be_unwanted(data: bytes, position: int, stop: int) -> bool:
    """Tell whether an incomplete event may be one to remove.

    Its first line runs from ``position`` to ``stop``, and it goes on to the end of the data.
    """
    if not data.startswith(_FIELD, position):
        return _FIELD.startswith(data[position : position + len(_FIELD)])
    return (
        stop - position <= _MAX_LINE_BYTES
        and data[stop : stop + len(b"\r\n.")] in {b"", b"\r", b"\n", b"\r\n"}
        and not _TO_A_CHOICE(data, position, stop)
    )


def _is_unwanted(line: bytes) -> bool:
    """Tell whether the one line of an event makes it one to remove."""
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
