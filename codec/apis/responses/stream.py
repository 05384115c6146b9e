r"""A streamed response: bytes in, :class:`~codec.apis.responses.said.ResponseAnswer` out.

Rules, besides those of :mod:`codec.event_reader`:

1. The end is the end of the bytes. ``[DONE]``, which some gateways send, is passed over.
2. Most events are one more word of the same text. They are read as no more than that
   (:class:`_Delta`): their padding, ids and numbers are neither decoded nor kept.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from codec.apis.responses.fold import ResponseFold
from codec.apis.responses.item_fold import PARTS, WHOLES, OpenText
from codec.base64_text import shorten_base64_text
from codec.budget import FRAGMENT_BYTES, Budget
from codec.event_reader import EventReader
from codec.sse import SseDecoder, read_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.apis.responses.said import ResponseAnswer
    from codec.sse import ServerSentEvent

__all__ = ("MAX_EVENT_BYTES", "MAX_RESPONSE_BYTES", "ResponseStream")

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Largest event without its images: the last one repeats the whole answer."""

MAX_RESPONSE_BYTES = 16 * 1024 * 1024
"""What one response may take in memory, as :mod:`codec.budget` estimates it: as a chat's answer."""

_MAX_DELTA_BYTES: Final = 4_096
"""Largest event that is looked at as one more word: real ones have some 300 bytes."""

_MOST_BYTES: Final = 4
"""The most that a character takes in memory."""

_LF, _CR = b"\n\r"  # as numbers, which are searched for as they are
_BEFORE_DATA: Final = re.compile(rb"(?:event: [^\r\n]*\n)?data: ").fullmatch
_TOLD_AGAIN: Final = PARTS.union(WHOLES)
"""The names of events that mostly tell what the deltas told."""

_NONE: Final = -1
"""The length of no bytes at all: the next read is not looked at as an event like the last one."""


_Index = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Delta(msgspec.Struct, gc=False):
    """All that is read of an event that adds to a text."""

    type: str
    delta: str
    output_index: _Index
    content_index: _Index = 0
    summary_index: _Index = 0


class _Told(msgspec.Struct, gc=False):
    """All that is read of an event that may tell a text again."""

    type: str
    output_index: _Index = -1
    content_index: _Index = 0
    summary_index: _Index = 0


_decode_delta = msgspec.json.Decoder(_Delta).decode
_decode_told = msgspec.json.Decoder(_Told).decode
_NO_DELTA = (msgspec.MsgspecError, UnicodeError, RecursionError)


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
        self._before = b""  # all of the last event that comes before its data, and
        self._before_bytes = _NONE  # how long that is
        self._text = OpenText("", 0, 0, [])

    @property
    def is_complete(self) -> bool:
        """The event that ends a response was seen."""
        return self._fold.is_complete

    def feed(self, data: bytes) -> None:
        """Take one read of the (decompressed) body, cut anywhere."""
        if self._between_events and self._feed_alike(data):
            return  # the usual read is one event like the last one
        for raw in self._split(data):
            if not self._feed_alike(raw):
                self._feed_other(raw)
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
            and size <= _MAX_DELTA_BYTES
            and payload.find(_LF) == size - 2
            and payload[-1] == _LF
            and _CR not in payload
            and self._feed_delta(payload)
        )

    def _feed_other(self, raw: bytes) -> None:
        self._before_bytes = _NONE
        if (event := read_event(raw)) is None:
            return
        line = event.data or b""
        is_told_again = event.event in _TOLD_AGAIN
        if not is_told_again and len(line) <= _MAX_DELTA_BYTES and self._feed_delta(line):
            before = raw[: -len(line) - 2]
            if _BEFORE_DATA(before):
                self._before, self._before_bytes = before, len(before)
        elif not (is_told_again and self._feed_told(line)):
            self._feed_event(event)

    def _feed_told(self, payload: bytes) -> bool:
        """Take data that tells again what the deltas told; whether it is that."""
        try:
            told = _decode_told(payload)
        except _NO_DELTA:
            return False
        part = told.content_index or told.summary_index
        if not (payload.isascii() and self._fold.was_told(told.type, told.output_index, part)):
            return False
        self.chunk_count += 1
        return True

    def _feed_delta(self, payload: bytes) -> bool:
        """Take data that is one more word; whether it is that."""
        try:
            delta = _decode_delta(payload)
        except _NO_DELTA:
            return False
        part = delta.content_index or delta.summary_index
        text = self._text
        if (
            text.kind != delta.type
            or text.index != delta.output_index
            or text.part != part
            or (room_bytes := text.room_bytes - _MOST_BYTES * len(delta.delta)) < 0
        ):
            opened = self._fold.open_text(delta.type, delta.output_index, part, delta.delta)
            if opened is None:
                return False
            self._text = opened
        else:
            text.pieces.append(delta.delta)
            text.room_bytes = room_bytes - FRAGMENT_BYTES
        self.chunk_count += 1
        return True

    def _feed_value(self, value: Any, event: ServerSentEvent) -> None:
        self.chunk_count += self._fold.feed(value, event.event)
