"""Event streams: bytes to :class:`ServerSentEvent`, by the grammar of the WHATWG HTML standard.

Rules:

1. A line ends at LF, CRLF or a lone CR, and at nothing else; a CRLF cut in two by the network is
   one line end (``docs/contract/wire.md#line-ends``). An event ends at a blank line.
2. The events are the same however the bytes are cut.
3. Bytes stay bytes: only field names, event names, ids and comments become text. A character cut
   in two by the network is whole again before it is decoded.
4. An event without data comes out only if it has a name or a comment (``event: error`` may say why
   in a comment); its ``data`` is then ``None`` or empty, as sent.
5. An incomplete event never holds more than its limit, by default :data:`MAX_EVENT_BYTES` (R5).
6. The work is linear in the bytes, even if they come one by one.
"""

from __future__ import annotations

import re
from io import BytesIO
from typing import TYPE_CHECKING

import msgspec

from codec.errors import LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = (
    "MAX_EVENT_BYTES",
    "OVERLAP_BYTES",
    "SHORTENED_BYTES",
    "ServerSentEvent",
    "SseDecoder",
    "read_event",
    "read_rest",
)

MAX_EVENT_BYTES = 8 * 1024 * 1024
"""Largest event. Audio deltas and whole tool calls take up to a few megabytes in one event; a
stream that never ends its event must not take the memory of all others."""

SHORTENED_BYTES = 64 * 1024
"""The size of the pieces in which a large event is shortened."""

OVERLAP_BYTES = 48 * 1024
"""How much of the end of a shortened piece is read again, because its string may continue."""

_BOM = b"\xef\xbb\xbf"
_LINE_ENDS = b"\r\n"
_CR, _LF = _LINE_ENDS  # as numbers, because a search for a number is fast

_MAX_COMMENTS = 1_024
"""The most comments that are read of one event that says nothing else."""

# A line end and then a blank line. Behind CR CR a LF is left out: whether it has arrived yet must
# not matter (rule 2), and what follows an event may be dropped safely. The pattern begins with a
# set because long lines are searched several times as fast for a set as for two words.
_EVENT_END = re.compile(rb"[\r\n](?:(?<=\r)(?:\r|\n(?>\r\n|\n|\r))|(?<=\n)(?>\r\n|\n|\r))")

_NAME_FIELD = b"event: "
_LINE = re.compile(rb"[^\r\n]+")
_FIELDS = frozenset({b"event", b"id", b"retry", b"error"})

_LONGEST_UNFINISHED_END = 3  # "CR LF CR", whose LF may still be to come


class ServerSentEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event as it was on the wire. It is a struct because streams make one for every token.

    Attributes:
        data: the ``data`` lines joined with LF; ``None`` if there was no such line.
        event: the event's name; ``None`` if absent or empty.
        retry: the reconnection time in milliseconds, as digits.
        comments: the comments, without colon and first space.
        raw: the bytes of the event, including its blank line (as far as it came).
    """

    data: bytes | None = None
    event: str | None = None
    id: str | None = None
    retry: str | None = None
    comments: tuple[str, ...] = ()
    raw: bytes = b""

    @property
    def is_single_line(self) -> bool:
        """Whether the event is one line and nothing else, also without a comment."""
        line = self.raw.strip(_LINE_ENDS)
        return bool(line) and _LF not in line and _CR not in line

    @property
    def is_comment(self) -> bool:
        """Whether it has comments and no field, not even the beginning of a field."""
        return all(line[0].startswith(b":") for line in _LINE.finditer(self.raw))


class SseDecoder:
    r"""Turns pieces of an event stream into events. Not safe for concurrent calls.

    Args:
        limit_bytes: the limit of an event, by default :data:`MAX_EVENT_BYTES`.
        shorten: shortens a piece of a large event; the piece begins and ends anywhere, and pieces
            overlap by :data:`OVERLAP_BYTES`. So an event may be larger on the wire than its limit.

    >>> decoder = SseDecoder()
    >>> decoder.feed(b"data: a\n\ndata: b")[0].data
    b'a'
    >>> decoder.finish().data
    b'b'
    """

    __slots__ = (
        "_begun",
        "_exceeded",
        "_has_cr",
        "_limit_bytes",
        "_pending",
        "_searched",
        "_shorten",
        "_shortened",
    )

    def __init__(
        self,
        *,
        limit_bytes: int | None = None,
        shorten: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._limit_bytes = MAX_EVENT_BYTES if limit_bytes is None else limit_bytes
        self._shorten = shorten
        self._shortened = 0  # how many bytes of it were shortened
        self._pending = bytearray()  # the incomplete event
        self._searched = 0  # no event ends before this offset of it
        self._has_cr = False  # other line ends than LF came
        self._begun = False  # a BOM could only have stood before
        self._exceeded = False

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Feed one read and return the events that it completes.

        Raises:
            LimitExceeded: an event passes its limit. Events that were complete
                before it are returned first, and the next call raises. The decoder is finished.
        """
        return [event for raw in self.split(data) if (event := read_event(raw)) is not None]

    def split(self, data: bytes) -> list[bytes]:
        """Split one read into the bytes of the events that it completes, as :meth:`feed` does.

        They are for :func:`read_event`; blank lines may be before each.
        """
        if self._pending or not self._begun or self._exceeded:
            data = self._join(data)
        if len(data) > self._limit_bytes and self._shorten is not None:
            data = self._shorten(data)  # whole events, or the beginning of one, in a huge read
        if len(data) > self._limit_bytes:
            return self._split(data)
        if _CR in data:
            events = data.split(b"\r\n\r\n")  # every line ends so, and nothing finds that quicker
            returns, feeds = data.count(b"\r"), data.count(b"\n")
            # Events of one line have no others; to find two bytes takes several times as long.
            is_usual = 2 * (len(events) - 1) == returns == feeds
            if not (is_usual or data.count(b"\r\n") == returns == feeds):
                return self._split(data)
            self._has_cr = True
            self._pending += events.pop().lstrip(_LINE_ENDS)
            return [event + b"\r\n\r\n" for event in events]
        is_named = data.startswith(_NAME_FIELD)
        data_start = data.find(_LF) + 1 if is_named else 0
        if data_start < data.find(_LF, data_start) == len(data) - 2 and data.endswith(b"\n\n"):
            return [data]  # most reads are one event of one line, perhaps with its name before it
        whole, end, rest = data.rpartition(b"\n\n")
        whole += end
        self._pending += rest.lstrip(b"\n")
        # Most events are one line, or a name and one; nothing finds lines as quickly.
        lines = BytesIO(whole).readlines()
        step = 3 if is_named else 2
        if len(lines) == step * lines[step - 1 :: step].count(b"\n") == step * lines.count(b"\n"):
            return [*map(b"".join, zip(*[iter(lines)] * step, strict=True))]
        return [event + b"\n\n" for event in whole.split(b"\n\n")[:-1]]

    @property
    def is_between_events(self) -> bool:
        """Whether the next byte begins an event."""
        return self._begun and not (self._pending or self._exceeded)

    @property
    def pending_bytes(self) -> int:
        """The size of the event under way."""
        return len(self._pending)

    def finish(self) -> ServerSentEvent | None:
        """Return the event that was under way when the stream ended, if any.

        The standard would drop it. The caller has to find out whether it is whole, because
        providers leave out the last blank line (``docs/contract/wire.md#the-last-event``).

        Raises:
            LimitExceeded: as :meth:`feed`.
        """
        return read_rest(self.pop_rest())

    def pop_rest(self) -> bytes:
        """Return the bytes of the event that was under way when the stream ended, once.

        Raises:
            LimitExceeded: as :meth:`feed`.
        """
        self._check_limit()
        block = bytes(self._pending)
        self._pending.clear()
        self._searched = self._shortened = 0
        return block

    def _join(self, data: bytes) -> bytes:
        """Join a read to the event under way, and return all bytes as soon as an event ends."""
        self._check_limit()
        pending = self._pending
        pending += data
        if not self._begun:
            if _BOM.startswith(pending):
                return b""  # the bytes may still be the beginning of a BOM
            pending = self._pending = pending.removeprefix(_BOM).lstrip(_LINE_ENDS)
            self._begun = True
        self._has_cr = self._has_cr or _CR in data
        if self._find_end(pending, self._searched):
            data = bytes(pending)
            pending.clear()
            self._searched = self._shortened = 0
            return data
        if self._shorten is not None and len(pending) - self._shortened >= SHORTENED_BYTES:
            start = max(0, self._shortened - OVERLAP_BYTES)
            pending[start:] = self._shorten(bytes(pending[start:]))
            self._shortened = len(pending)
        self._searched = max(0, len(pending) - _LONGEST_UNFINISHED_END)
        self._exceeded = len(pending) > self._limit_bytes
        self._check_limit()
        return b""

    def _find_end(self, data: bytes | bytearray, start: int) -> int:
        """Find where the first event ends, including its blank line; 0 if none does."""
        if not self._has_cr:
            at = data.find(b"\n\n", start)  # quicker again
            return at + 2 if at >= 0 else 0
        match = _EVENT_END.search(data, start)
        return match.end() if match is not None and not _may_grow(match, len(data)) else 0

    def _split(self, data: bytes) -> list[bytes]:
        """Find the events in bytes with any line ends and of any size; the rest is pending."""
        self._has_cr = self._has_cr or _CR in data
        events = []
        start = _skip_blank_lines(data, 0)
        while end := self._find_end(data, start):
            if end - start > self._limit_bytes:
                break
            events.append(data[start:end])
            start = _skip_blank_lines(data, end)
        self._exceeded = len(data) - start > self._limit_bytes
        if not self._exceeded:
            self._pending += data[start:]
        elif not events:
            self._check_limit()
        return events

    def _check_limit(self) -> None:
        if self._exceeded:
            self._pending.clear()
            raise LimitExceeded("MAX_EVENT_BYTES", self._limit_bytes)


def read_event(raw: bytes) -> ServerSentEvent | None:
    """Read the bytes of one event; ``None`` if it says nothing (rule 4)."""
    start = raw.find(_LF) + 1 if raw.startswith(_NAME_FIELD) else 0
    if raw.startswith(b"data:", start) and raw.find(_LF, start) == len(raw) - 2 and _CR not in raw:
        # One line of data, perhaps with the name before it, as in nearly all events.
        data = raw[start + 5 : -2].removeprefix(b" ")
        if data:
            name = _text(raw[len(_NAME_FIELD) : start - 1]) if start else ""
            return ServerSentEvent(data=data, event=name or None, raw=raw)
    return _parse(raw.lstrip(_LINE_ENDS))


def read_rest(raw: bytes) -> ServerSentEvent | None:
    """Read the event that the end of a stream cuts off, even if it says nothing yet.

    Returns:
        ``None`` if none has begun.
    """
    if not raw.removeprefix(_BOM).strip():
        return None
    return read_event(raw) or ServerSentEvent(raw=raw)


def _skip_blank_lines(data: bytes, start: int) -> int:
    end = len(data)
    while start < end and data[start] in _LINE_ENDS:
        start += 1
    return start


def _may_grow(match: re.Match[bytes], end: int) -> bool:
    """Tell whether the end that was found is a CR whose LF may be in the next read."""
    return match.end() == end and match[0].endswith(b"\r") and match[0] != b"\r\r"


def _parse(block: bytes) -> ServerSentEvent | None:
    """Parse the lines of one event; ``None`` if it says nothing (rule 4)."""
    data: list[bytes] = []
    fields: dict[bytes, bytes] = {}
    comments: list[str] = []
    for line in _LINE.finditer(block):  # one by one: there may be millions
        name, _, value = line[0].partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name in _FIELDS:
            fields[name] = value
        elif not name and len(comments) < _MAX_COMMENTS:
            comments.append(_text(value))
    event = fields.get(b"event")
    payload = b"\n".join(data) if data else None
    if not payload and b"error" in fields:
        # Old llama.cpp: "error: {...}", a field that the standard would ignore
        # (``docs/contract/wire.md#error-line``). It is read as the event it was meant to be.
        event, payload = b"error", fields[b"error"]
    if not (payload or event or comments):
        return None
    retry = fields.get(b"retry", b"")
    return ServerSentEvent(
        data=payload,
        event=_text(event) if event else None,
        id=_text(fields[b"id"]) if b"\0" not in fields.get(b"id", b"\0") else None,
        retry=_text(retry) if retry.isdigit() else None,
        comments=tuple(comments),
        raw=block,
    )


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
