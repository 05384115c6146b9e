"""Event streams: bytes to :class:`ServerSentEvent`, by the grammar of the WHATWG HTML standard.

Rules:

1. A line ends at LF, CRLF or a lone CR, and at nothing else; a CRLF cut in two by the network is
   one line end (``dialects.md`` section 5). An event ends at a blank line.
2. However the bytes are cut, the events are the same.
3. Bytes stay bytes: only field names, event names, ids and comments become text. A character cut
   in two by the network is whole again before anybody decodes it.
4. An event without data comes out only if it has a name or a comment to tell
   (``event: error`` may say why in a comment); its ``data`` is then ``None`` or empty, as sent.
5. An incomplete event never holds more than its limit, :data:`MAX_EVENT_BYTES` if no other (R5).
6. The work is linear in the bytes, also where they come one by one.
"""

from __future__ import annotations

import re
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
    "read_line",
)

MAX_EVENT_BYTES = 8 * 1024 * 1024
"""Largest event. Audio deltas and whole tool calls take up to a few megabytes in one event; a
stream that never ends its event must not take the memory of all others."""

SHORTENED_BYTES = 64 * 1024
"""So much of a large event is shortened at a time."""

OVERLAP_BYTES = 48 * 1024
"""What was shortened before and is looked at again, for what goes on behind it."""

_BOM = b"\xef\xbb\xbf"
_LF, _CR = b"\n\r"  # as numbers, which are searched for as they are

_MAX_COMMENTS = 1_024
"""Of one event; they are read where it says nothing else."""

# A line end and then a blank line. The first alternative keeps the LF of "CR CR LF" out: whether
# it has arrived yet must not matter (rule 2), and what follows an event may be dropped safely.
_EVENT_END = re.compile(rb"\r\r|(?>\r\n|\n)(?>\r\n|\n|\r)")

_LINE = re.compile(rb"[^\r\n]+")
_FIELDS = frozenset({b"event", b"id", b"retry", b"error"})

_MAY_BE_BOM = {b"", _BOM[:1]}
_SHORTEST_LINE = len(b"data: \n\n")
_LONGEST_UNFINISHED_END = 3  # "CR LF CR", whose LF may be still to come


class ServerSentEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event as it was on the wire. A struct, for streams make one for every token.

    Attributes:
        data: the ``data`` lines joined with LF; ``None`` where there was no such line.
        event: the event's name; ``None`` where absent or empty.
        id: the event's id.
        retry: the reconnection time in milliseconds, as its digits.
        comments: the comments in order, without colon and first space.
        raw: the bytes of the event, its blank line included (as far as it came).
    """

    data: bytes | None = None
    event: str | None = None
    id: str | None = None
    retry: str | None = None
    comments: tuple[str, ...] = ()
    raw: bytes = b""

    @property
    def is_single_line(self) -> bool:
        """Whether the event is one line and nothing else, a comment or second field included."""
        line = self.raw.strip(b"\r\n")
        return bool(line) and _LF not in line and _CR not in line


class SseDecoder:
    r"""Turns pieces of an event stream into events. Not safe for concurrent calls.

    Args:
        limit_bytes: of an event, :data:`MAX_EVENT_BYTES` if not given.
        shorten: makes a piece of a large event shorter, one that begins and ends anywhere; pieces
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
        self._shortened = 0  # so much of it was shortened
        self._pending = bytearray()  # the incomplete event
        self._searched = 0  # no event ends before this offset of it
        self._begun = False  # the place where a BOM may stand is behind us
        self._exceeded = False

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Take one read and return the events that it completes.

        Raises:
            LimitExceeded: an event passes its limit. Events that were complete
                before it are returned first, and the next call raises. The decoder is finished.
        """
        events: list[ServerSentEvent] = []
        if not self._begun and not self._pending and data[:1] not in _MAY_BE_BOM:
            self._begun = True
        if (
            self._pending
            or not self._begun
            or self._exceeded
            or _CR in data
            or len(data) > self._limit_bytes
        ):
            self._feed_any(data, events)
            return events
        if (payload := read_line(data)) is not None:
            events.append(ServerSentEvent(data=payload, raw=data))
            return events
        # The usual case: between two events, LF only. What remains is left to the general way.
        *blocks, rest = data.split(b"\n\n")
        for block in blocks:
            if block.startswith(b"data:") and b"\n" not in block:
                if payload := block[6:] if block.startswith(b"data: ") else block[5:]:
                    events.append(ServerSentEvent(data=payload, raw=block + b"\n\n"))
            elif event := _parse(block.lstrip(b"\n") + b"\n\n"):
                events.append(event)
        self._pending += rest.lstrip(b"\n")
        return events

    @property
    def pending_bytes(self) -> int:
        """The size of the event under way."""
        return len(self._pending)

    @property
    def between_events(self) -> bool:
        """No event is under way, and the place where a BOM may stand is behind."""
        return self._begun and not self._pending and not self._exceeded

    def finish(self) -> ServerSentEvent | None:
        """Return the event that was under way when the stream ended, if any.

        The standard would drop it; whether it is whole is for the caller to find out, since
        providers leave the last blank line out (``dialects.md`` section 5).

        Raises:
            LimitExceeded: as :meth:`feed`.
        """
        if self._exceeded:
            raise LimitExceeded("MAX_EVENT_BYTES", self._limit_bytes)
        if not self._pending:
            return None
        block = bytes(self._pending)
        self._pending.clear()
        self._searched = self._shortened = 0
        return _parse(block)

    def _feed_any(self, data: bytes, events: list[ServerSentEvent]) -> None:
        pending = self._pending
        if not self._exceeded:
            pending += data
            if len(pending) - self._shortened >= SHORTENED_BYTES and self._shorten is not None:
                self._shorten_pending(self._shorten)
            if not self._begun:
                self._begin()
            if self._begun:
                self._take_events(events)
        if self._exceeded and not events:
            raise LimitExceeded("MAX_EVENT_BYTES", self._limit_bytes)

    def _begin(self) -> None:
        pending = self._pending
        if len(pending) < len(_BOM) and _BOM.startswith(bytes(pending)):
            return
        if pending.startswith(_BOM):
            del pending[: len(_BOM)]
        self._begun = True

    def _shorten_pending(self, shorten: Callable[[bytes], bytes]) -> None:
        start = max(0, self._shortened - OVERLAP_BYTES)
        self._pending[start:] = shorten(bytes(self._pending[start:]))
        self._shortened = len(self._pending)
        self._searched = min(self._searched, start)

    def _take_events(self, events: list[ServerSentEvent]) -> None:
        pending = self._pending
        start = 0
        while True:
            if not self._searched:
                start = _skip_blank_lines(pending, start)
            match = _EVENT_END.search(pending, max(start, self._searched))
            if match is None or _may_grow(match, len(pending)):
                break
            if match.end() - start > self._limit_bytes:
                self._exceed()
                return
            if event := _parse(bytes(pending[start : match.end()])):
                events.append(event)
            start = match.end()
            self._searched = 0
        del pending[:start]
        self._shortened = max(0, self._shortened - start)
        self._searched = max(0, len(pending) - _LONGEST_UNFINISHED_END)
        if len(pending) > self._limit_bytes:
            self._exceed()

    def _exceed(self) -> None:
        self._exceeded = True
        self._pending = bytearray()
        self._shortened = 0


def read_line(data: bytes) -> bytes | None:
    """Return the data of a read that is one event of one line, written as nearly all are.

    ``None`` where it is not, or may have more in it than may be told at once.
    """
    size = len(data)
    if (
        _SHORTEST_LINE < size <= MAX_EVENT_BYTES
        and data.startswith(b"data: ")
        and data.find(_LF) == size - 2
        and data.endswith(b"\n\n")
        and _CR not in data
    ):
        return data[6:-2]
    return None


def _skip_blank_lines(data: bytearray, start: int) -> int:
    end = len(data)
    while start < end and data[start] in b"\r\n":
        start += 1
    return start


def _may_grow(match: re.Match[bytes], end: int) -> bool:
    """Whether the end that was found is a CR whose LF may be in the next read."""
    return match.end() == end and match[0].endswith(b"\r") and match[0] != b"\r\r"


def _parse(block: bytes) -> ServerSentEvent | None:
    """Parse the lines of one event; ``None`` where it has nothing to tell (rule 4)."""
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
        # (dialects.md section 4.7). It is read as the event it was meant to be.
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
