r"""A streamed response: bytes in, :class:`~codec.apis.responses.said.ResponseAnswer` out.

Rules, besides those of :mod:`codec.event_reader`:

1. The end is the end of the bytes. ``[DONE]``, which some gateways send, is passed over.
2. Most events are one more word of the same text. They are read as no more than that
   (:mod:`codec.apis.responses.deltas`), and together where a read has a run of them. The general
   way, event by event, comes to the same to the byte, whatever there is room for. One thing
   differs: what else is in an event that repeats a text is not decoded, so that no value in it is
   too large, and no number too long.
"""

from __future__ import annotations

import re
from io import BytesIO
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from codec.apis.responses.deltas import read_delta, read_run, read_told
from codec.apis.responses.fold import ResponseFold
from codec.apis.responses.item_fold import DELTAS, PARTS, WHOLES, OpenText
from codec.budget import CHARACTER_BYTES, FRAGMENT_BYTES, Budget
from codec.event_reader import SMALL_PENDING_BYTES, EventReader
from codec.text.base64_text import shorten_base64_text
from codec.text.sse import SseDecoder, read_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.apis.responses.said import ResponseAnswer
    from codec.text.sse import ServerSentEvent

__all__ = ("MAX_EVENT_BYTES", "MAX_RESPONSE_BYTES", "ResponseStream")

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Largest event without its images: the last one repeats the whole answer."""

MAX_RESPONSE_BYTES = 16 * 1024 * 1024
"""What one response may take in memory, as :mod:`codec.budget` estimates it: as a chat's answer."""

_MIN_LINES_BYTES: Final = 8 * 1024
_MAX_LINES_BYTES: Final = 1024 * 1024
"""Reads that are looked at line by line: a smaller one has few events, and a larger one becomes
hundreds of thousands of lines."""

_LF, _CR = b"\n\r"  # as numbers, which are searched for as they are
_BLANK: Final = b"\n"
"""The line that ends an event."""

_LINES: Final = 3
"""How many lines the usual event has: its name, its data, and a blank one."""

_NAME: Final = b"event: "
_DATA: Final = b"data: "
_DATA_BYTES: Final = len(_DATA)
_BEFORE_DATA: Final = re.compile(rb"(?:event: [^\r\n]*\n)?data: ").fullmatch
_TOLD_AGAIN: Final = PARTS.union(WHOLES)
"""The names of events that mostly tell what the deltas told."""

_NOTHING_ALIKE: Final = -1
"""Stands for the length of what comes before the data, where the next event cannot be alike."""


class ResponseStream(EventReader[ResponseFold]):
    r"""Reads one event stream. Not safe for concurrent calls.

    Args:
        lend: whether that many more bytes may be taken beside all others (:mod:`codec.budget`).

    >>> stream = ResponseStream()
    >>> stream.feed(b'data: {"type": "response.output_text.delta", "delta": "Hi",')
    >>> stream.feed(b' "output_index": 0}\n\n')
    >>> stream.finish().answers[0].message.parts
    (Text(text='Hi'),)
    """

    __slots__ = ("_before", "_before_bytes", "_text")

    def __init__(
        self,
        *,
        lend: Callable[[int], bool] | None = None,
        **_of_other_apis: object,
    ) -> None:
        fold = ResponseFold(Budget(MAX_RESPONSE_BYTES, lend))
        super().__init__(fold, SseDecoder(limit_bytes=MAX_EVENT_BYTES, shorten=shorten_base64_text))
        self._before = b""  # of the last event, all that came before its data
        self._before_bytes = _NOTHING_ALIKE  # the length of that
        self._text = OpenText()

    @property
    def is_complete(self) -> bool:
        """The event that ends a response was seen."""
        return self._fold.is_complete

    def feed(self, data: bytes) -> None:
        """Take one read of the (decompressed) body, cut anywhere."""
        if self._between_events and self._feed_alike(data):
            return  # the usual read is one event like the last one
        if _MIN_LINES_BYTES <= len(data) <= _MAX_LINES_BYTES and _CR not in data:
            data = self._feed_lines(data)
        if data:
            self._feed_events(data)
        if self._decoder.pending_bytes > SMALL_PENDING_BYTES:
            self._fold.settle()  # before the event under way takes the room
        self._reserve_pending()

    def finish(self) -> ResponseAnswer:
        """Take the end of the bytes and return what the stream said. Call it once."""
        self._read_end()
        return self._fold.answer()

    def _feed_alike(self, event: bytes) -> bool:
        """Take an event that is like the last one but for its data; whether it is such."""
        payload = event.removeprefix(self._before)
        size = len(payload)
        return (
            len(event) - size == self._before_bytes  # it was there
            and payload.find(_LF) == size - 2
            and payload[-1] == _LF
            and _CR not in payload
            and self._feed_delta(payload)
        )

    def _feed_lines(self, data: bytes) -> bytes:
        """Take events of two lines and a blank one, as nearly all are; return what follows them.

        All that is behind the event under way follows where any event of the read has another
        number of lines.
        """
        if not self._decoder.is_between_events:
            begun, blank, data = data.partition(b"\n\n")
            self._feed_events(begun + blank)
        if self._is_lost or not self._decoder.is_between_events:
            return data
        lines = BytesIO(data).readlines()  # nothing finds lines as quickly
        blanks = lines[_LINES - 1 :: _LINES]
        if blanks.count(_BLANK) < len(blanks):
            return data
        count = len(blanks)
        names, rows = lines[: _LINES * count : _LINES], lines[1::_LINES]
        end = 0
        for name, alike in groupby(names):
            start, end = end, end + len([*alike])
            self._feed_one(name + rows[start] + _BLANK)  # opens a text, if it is of such
            start += 1
            if name.startswith(_NAME):
                start += self._feed_run(rows[start:end])
            for row in rows[start:end]:
                self._feed_one(name + row + _BLANK)
        return b"".join(lines[_LINES * count :])

    def _feed_run(self, rows: list[bytes]) -> int:
        """Take lines of data that are one more word each of the open text; how many were taken."""
        if not (rows and self._text.kind):
            return 0
        lines = [row[_DATA_BYTES:] for row in rows]
        if _DATA + _DATA.join(lines) != b"".join(rows):
            return 0
        pieces = read_run(lines, self._text)
        self._fold.add_pieces(pieces)
        self.chunk_count += len(pieces)
        return len(pieces)

    def _feed_events(self, data: bytes) -> None:
        for raw in self._split(data):
            self._feed_one(raw)

    def _feed_one(self, raw: bytes) -> None:
        if not self._feed_alike(raw):
            self._feed_other(raw)

    def _feed_other(self, raw: bytes) -> None:
        self._before_bytes = _NOTHING_ALIKE
        if (event := read_event(raw)) is None:
            return
        line, name = event.data or b"", event.event
        if (name is None or name in DELTAS) and self._feed_delta(line):
            before = raw[: -len(line) - 2]
            if _BEFORE_DATA(before):
                self._before, self._before_bytes = before, len(before)
        elif not (name in _TOLD_AGAIN and self._feed_told(line)):
            self._feed_event(event)

    def _feed_told(self, line: bytes) -> bool:
        """Take data that tells again what the deltas told; whether it is that."""
        told = read_told(line)
        if told is None:
            return False
        part = told.content_index or told.summary_index
        if not self._fold.was_told(told.type, told.output_index, part):
            return False
        self.chunk_count += 1
        return True

    def _feed_delta(self, line: bytes) -> bool:
        """Take data that is one more word; whether it is that."""
        delta = read_delta(line)
        if delta is None:
            return False
        part = delta.content_index or delta.summary_index
        text, piece = self._text, delta.delta
        if (
            text.kind != delta.type
            or text.index != delta.output_index
            or text.part != part
            or (room_bytes := text.room_bytes - CHARACTER_BYTES * len(piece) - FRAGMENT_BYTES) < 0
        ):
            opened = self._fold.open_text(delta.type, delta.output_index, part, piece)
            if opened is None:
                return False
            self._text = opened
        else:
            if piece:
                text.pieces.append(piece)
            text.room_bytes = room_bytes
        self.chunk_count += 1
        return True

    def _feed_value(self, value: Any, event: ServerSentEvent) -> None:
        self.chunk_count += self._fold.feed(value, event.event)
