"""Removes from an answer's event stream the one kind of event that we caused.

If spantap asked for usage and the client did not, the upstream sends an event that the client does
not expect: naive clients read the first choice of every chunk and fail on an empty list
(``docs/contract/wire.md#hidden-usage``).

Rules (``docs/contract/promises.md#usage``):

1. Each :mod:`usage event <codec.chat.usage_event>` is taken out whole, with the blank line that
   ends it, as often as one comes (llama.cpp sends one for each choice).
2. All other bytes pass untouched and in order: comments, blank lines, a byte order mark, events
   that are not JSON.
3. Only the bytes of an incomplete event that may still be such an event wait, at most
   :data:`MAX_HELD_BYTES` of them. After a line that is not a field, a choice or too many bytes, the
   rest of that event flows.
4. The result does not depend on how the bytes were cut: whatever releases an incomplete event also
   keeps a complete one in the stream. But the comments at the beginning of an event may be passed
   on while the rest of it waits: they keep a connection alive, and say nothing to a client.
5. Only an event with a usage and without a choice is looked at; the whole events before it are
   skipped at once. So each byte is looked at a bounded number of times, whatever the events are.
"""

from __future__ import annotations

import re

from codec.chat.usage_event import (
    MAX_USAGE_EVENT_BYTES,
    find_usage,
    may_be_usage_event,
    reads_as_usage_event,
)

__all__ = ("MAX_HELD_BYTES", "UsageFilter")

MAX_HELD_BYTES = MAX_USAGE_EVENT_BYTES + len(b"\r\n\r\n")
"""The most bytes that may wait: the largest usage event and its line ends."""

_SHORT_LINE_BYTES = 1_024
_LINE_LOOK_BYTES = 16_384
"""In a long line each kind of line end is searched for separately, in steps of so many bytes. So a
line of 100 MB is searched ten times as fast, and a kind that never comes costs the lines with the
other kind little (rule 5)."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CR, _LF = b"\r\n"  # as numbers, because a search for a number is fast

_EVENT_END = b"\n\n"
_CRLF_EVENT_END = b"\n\r\n"
_USUAL_CHOICE = b'"choices":[{'

# Line ends are LF, CRLF or CR (WHATWG HTML, section 9.2.6); a CRLF is never taken for two.
_TWO_LINE_ENDS = re.compile(rb"(?:\r\n?+|\n){2}").match
_TO_LINE_END = re.compile(rb"[\r\n]").search
_BLANK_LINES = re.compile(rb"[\r\n]+").match
_COMMENTS = re.compile(rb"(?::[^\r\n]*+(?:\r\n?+|\n))+").match


class UsageFilter:
    """Filters the body of one answer, read by read.

    Attributes:
        held: the bytes that wait, from the first byte of the event under way. A beginning of them
            may have been passed on.
        removed_count: how many events were taken out so far.
    """

    def __init__(self) -> None:
        self.held = b""
        self.removed_count = 0
        self._let_go_bytes = 0  # how many of the waiting bytes were passed on
        self._at_start = True
        # Inside an event that flows, and the line end it was cut at: half a blank line, perhaps.
        self._flowing = False
        self._line_end = b""
        # The event taken out last ended in CR; a LF that follows belongs to it.
        self._drops_lf = False

    def feed(self, data: bytes) -> bytes:
        """Feed the bytes of one read and return those to relay now, perhaps none."""
        if self._flowing and not self._line_end and _LF not in data and _CR not in data:
            return data  # the middle of a long line
        end = data.find(_EVENT_END) + len(_EVENT_END)
        if (
            len(_EVENT_END) < end == len(data)
            and not (self.held or self._drops_lf)
            and ((data.find(_USUAL_CHOICE) >= 0 and _CR not in data) or not find_usage(data))
        ):
            # A usual read of a paced stream: it ends one event, and that one stays.
            self._at_start = self._flowing = False
            return data
        if not data:
            return b""
        if self._flowing:
            known = self._line_end
            return self._filter(known + data, position=0, begin=len(known))
        if self._drops_lf:
            self._drops_lf = False
            data = data.removeprefix(b"\n")
        return self._filter(self.held + data, position=0, begin=self._let_go_bytes)

    def let_go(self) -> bytes:
        """Return, once, the comments at the beginning of the event under way; the rest waits."""
        comments = _COMMENTS(self.held)
        end = 0 if comments is None else comments.end()
        begin, self._let_go_bytes = self._let_go_bytes, max(self._let_go_bytes, end)
        return self.held[begin:end]

    def finish(self) -> bytes:
        """Return the bytes that still wait, after the body ended or broke off.

        A usage event without its blank line is taken out, too, if its object is complete.
        """
        held, self.held = self.held, b""
        if not reads_as_usage_event(held.rstrip(b"\r\n")):
            return held[self._let_go_bytes :]
        self.removed_count += 1
        return b""

    def _filter(self, data: bytes, position: int, begin: int) -> bytes:
        """Return ``data`` from ``begin`` on, without what is taken out or must wait.

        The event under way, or the line end at which it was cut, begins at ``position``.
        """
        relayed = []
        whole = _find_last_end(data, position, len(data))
        jumps_from = position
        while position < len(data):
            if position >= jumps_from:
                position, jumps_from = self._jump(data, position, whole)
            elif self._at_start:
                if len(data) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(data):
                    break
                self._at_start = False
                position = len(_BYTE_ORDER_MARK) if data.startswith(_BYTE_ORDER_MARK) else 0
            elif not self._flowing and (blank := _BLANK_LINES(data, position)):
                position = blank.end()
            else:
                stop, end = _find_event_end(data, position)
                if self._flowing or not _is_unwanted(data, position, stop, is_whole=end > 0):
                    self._flowing, self._line_end = (False, b"") if end else (True, data[stop:])
                    position = end or len(data)
                elif not end:
                    break
                else:
                    relayed.append(data[begin:position])
                    begin = position = end
                    self.removed_count += 1
                    self._drops_lf = end == len(data) and data.endswith(b"\r")
        relayed.append(data[begin:position])
        self.held = data[position:]
        self._let_go_bytes = max(0, begin - position)
        return b"".join(relayed)

    def _jump(self, data: bytes, position: int, whole: int) -> tuple[int, int]:
        """Skip the whole events before the next one that may have to be removed.

        Args:
            data: the bytes to filter.
            position: where to start.
            whole: where the last whole event ends.

        Returns:
            Where to continue event by event, and from where on to skip again.
        """
        suspect = _find_suspect(data, position, whole)
        end = whole if suspect is None else _find_last_end(data, position, suspect.start())
        if end > position:
            position = end
            self._at_start = self._flowing = False
        return position, len(data) if suspect is None else suspect.end()


def _find_suspect(data: bytes, position: int, whole: int) -> re.Match[bytes] | None:
    """Find the next place where an event has a usage, with no choice before it in the line."""
    while suspect := find_usage(data, position, whole):
        place = suspect.start()
        choice = data.rfind(_USUAL_CHOICE, position, place)
        if choice < 0 or max(data.find(b"\n", choice, place), data.find(b"\r", choice, place)) >= 0:
            break
        position = suspect.end()
    return suspect


def _find_last_end(data: bytes, start: int, stop: int) -> int:
    """The end of the last event between two places, by a LF before a blank line; else `start`."""
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


def _find_event_end(data: bytes, position: int) -> tuple[int, int]:
    """Find where the last line of an event ends, and where its blank line ends.

    If the event is not complete, the first is the place of its last line end, or the end of the
    data, and the second is 0.
    """
    while True:
        stop = _find_line_end(data, position)
        if blank := _TWO_LINE_ENDS(data, stop):
            return stop, blank.end()
        position = stop + (len(b"\r\n") if data.startswith(b"\r\n", stop) else 1)
        if position >= len(data):
            return stop, 0


def _is_unwanted(data: bytes, position: int, stop: int, *, is_whole: bool) -> bool:
    """Tell whether an event is to be removed, or may be while it is not whole."""
    if stop - position > MAX_USAGE_EVENT_BYTES or data.find(_USUAL_CHOICE, position, stop) >= 0:
        return False  # before it is copied
    block = data[position:stop]
    return reads_as_usage_event(block) if is_whole else may_be_usage_event(block)
