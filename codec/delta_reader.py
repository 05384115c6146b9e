"""Reads event streams quickly in which most events add one more word to the same text.

The reader keeps the rules of :mod:`codec.event_reader`. The answer ends with the bytes; ``[DONE]``,
which some gateways send, is ignored. Only the word is read from an event that is one more word, and
several such events in a row, in one read, are read together. The general way, event by event, gives
exactly the same result, whatever room there is.

Data is read as a word only if it is UTF-8, and too short to be nested too deeply or to hold too
much. The general way reads everything else, and so notices all that is odd about an event.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from io import BytesIO
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from codec.budget import CHARACTER_BYTES, FRAGMENT_BYTES
from codec.event_reader import SMALL_PENDING_BYTES, EventReader
from codec.text.jsontext import is_utf8
from codec.text.nesting import MAX_DEPTH
from codec.text.sse import read_event
from codec.text_fold import OpenText, TextFold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.text.sse import SseDecoder

__all__ = ("DeltaReader", "Piece", "are_short", "is_short")

Piece = tuple[str, int, int, str]
"""A piece of text: the type of its event, the index of its item, its place there, and the text."""

MAX_DELTA_BYTES: Final = 2 * MAX_DEPTH
"""Largest data that may be one more word; real events have some 300 bytes. So short a text has no
room for too many brackets inside each other, nor for a number that is too long."""

_MIN_LINES_BYTES: Final = 8 * 1024
_MAX_LINES_BYTES: Final = 1024 * 1024
"""Largest read that is split into lines: a larger one would make hundreds of thousands of them."""

_LF, _CR = b"\n\r"  # as numbers, because a search for a number is fast
_BLANK: Final = b"\n"
"""The line that ends an event."""

_LINES: Final = 3
"""How many lines the usual event has: its name, its data, and a blank one."""

_NAME: Final = b"event: "
_DATA: Final = b"data: "
_DATA_BYTES: Final = len(_DATA)
_BEFORE_DATA: Final = re.compile(rb"(?:event: [^\r\n]*\n)?data: ").fullmatch

_NOTHING_ALIKE: Final = -1
"""Replaces the length of the bytes before the data if the next event cannot be like this one."""

_Fold = TypeVar("_Fold", bound=TextFold)


def is_short(data: bytes) -> bool:
    """Tell whether data is short enough to be one more word, and UTF-8."""
    return len(data) <= MAX_DELTA_BYTES and is_utf8(data)


def are_short(lines: Sequence[bytes]) -> bool:
    """Tell whether each of these is short enough to be one more word, and all are UTF-8."""
    return max(map(len, lines), default=0) <= MAX_DELTA_BYTES and is_utf8(b"".join(lines))


class DeltaReader(EventReader[_Fold]):
    """Reads the events of one stream. Not safe for concurrent calls.

    Each API defines what an event says: :meth:`_read_delta`, :meth:`_read_run` and, for the general
    way, :meth:`_feed_value`.
    """

    __slots__ = ("_before", "_before_bytes", "_text")

    names: ClassVar[frozenset[str]]
    """The names of events that may be one more word."""

    def __init__(self, fold: _Fold, decoder: SseDecoder) -> None:
        super().__init__(fold, decoder)
        self._before = b""  # the bytes of the last event before its data
        self._before_bytes = _NOTHING_ALIKE  # their length
        self._text = OpenText()

    @abstractmethod
    def _read_delta(self, data: bytes) -> Piece | None:
        """Read data that is one more word; ``None`` for other data."""

    @abstractmethod
    def _read_run(self, lines: Sequence[bytes], text: OpenText) -> list[str]:
        """Read lines of data that all add to one text: their pieces, or none if one does not."""

    def feed(self, data: bytes) -> None:
        """Feed one read of the (decompressed) body, cut anywhere."""
        if self._between_events and self._feed_alike(data):
            return  # most reads are one event like the last one
        if _MIN_LINES_BYTES <= len(data) <= _MAX_LINES_BYTES and _CR not in data:
            data = self._feed_lines(data)
        if data:
            self._feed_events(data)
        if self._decoder.pending_bytes > SMALL_PENDING_BYTES:
            self._fold.settle()  # before the event under way takes the room
        self._reserve_pending()

    def _feed_alike(self, event: bytes) -> bool:
        """Feed an event if only its data differs from the last one; return whether that is so."""
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
        """Feed events of two lines and a blank one, as nearly all are; return the unread rest.

        If any event of the read has another number of lines, the rest is everything behind the
        event under way.
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
            self._feed_one(name + rows[start] + _BLANK)  # opens a text, if it is one more word
            start += 1
            if name.startswith(_NAME):
                start += self._feed_run(rows[start:end])
            for row in rows[start:end]:
                self._feed_one(name + row + _BLANK)
        return b"".join(lines[_LINES * count :])

    def _feed_run(self, rows: list[bytes]) -> int:
        """Feed lines of data that each add a word to the open text; return how many do."""
        if not (rows and self._text.kind):
            return 0
        lines = [row[_DATA_BYTES:] for row in rows]
        if _DATA + _DATA.join(lines) != b"".join(rows):
            return 0
        pieces = self._read_run(lines, self._text)
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
        if (name is None or name in self.names) and self._feed_delta(line):
            before = raw[: -len(line) - 2]
            if _BEFORE_DATA(before):
                self._before, self._before_bytes = before, len(before)
        else:
            self._feed_event(event)

    def _feed_delta(self, line: bytes) -> bool:
        """Feed data if it is one more word; return whether it is."""
        if (delta := self._read_delta(line)) is None:
            return False
        kind, index, part, piece = delta
        text = self._text
        if (
            text.kind != kind
            or text.index != index
            or text.part != part
            or (room_bytes := text.room_bytes - CHARACTER_BYTES * len(piece) - FRAGMENT_BYTES) < 0
        ):
            opened = self._fold.open_text(kind, index, part, piece)
            if opened is None:
                return False
            self._text = opened
        else:
            if piece:
                text.pieces.append(piece)
            text.room_bytes = room_bytes
        self.chunk_count += 1
        return True
