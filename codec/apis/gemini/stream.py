r"""A streamed answer: bytes in, :class:`~codec.apis.gemini.said.ContentAnswer` out.

It keeps the rules of :mod:`codec.event_reader`, :mod:`codec.apis.gemini.framing` and
:mod:`codec.apis.gemini.fold`. A chunk that is one more word is read quickly
(:mod:`codec.apis.gemini.deltas`); the general way, chunk by chunk, comes to the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codec.apis.gemini.deltas import WordReader
from codec.apis.gemini.fold import ContentFold
from codec.apis.gemini.framing import ChunkDecoder
from codec.budget import Budget
from codec.event_reader import EventReader
from codec.text.json_stream import JsonSplitter
from codec.text.sse import ServerSentEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.apis.gemini.said import ContentAnswer

__all__ = ("MAX_ANSWER_BYTES", "ContentStream")

_DATA: Final = b"data: "

MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
"""What one answer may take in memory, as :mod:`codec.budget` estimates it: as a chat's."""


class ContentStream(EventReader[ContentFold]):
    r"""Reads one stream, in whichever framing it comes. Not safe for concurrent calls.

    Args:
        lend: whether that many more bytes may be taken beside all others (:mod:`codec.budget`).

    >>> stream = ContentStream()
    >>> stream.feed(b'[{"candidates": [{"content": {"parts": [{"te')
    >>> stream.feed(b'xt": "Hi"}]}, "finishReason": "STOP"}]}\r\n]')
    >>> stream.finish().answers[0].message.content
    'Hi'
    """

    __slots__ = ("_framing", "_is_cut", "_words")

    def __init__(
        self,
        *,
        lend: Callable[[int], bool] | None = None,
        **_of_other_apis: object,
    ) -> None:
        self._framing = ChunkDecoder()
        self._words = WordReader()
        self._is_cut = False
        super().__init__(ContentFold(Budget(MAX_ANSWER_BYTES, lend)), self._framing)

    @property
    def is_complete(self) -> bool:
        """The end of an array came; events have no mark of their end."""
        return self._framing.has_end

    def feed(self, data: bytes) -> None:
        """Take one read of the body, its content coding undone, cut anywhere. Never raises."""
        for raw in self._split(data):
            line = raw.removeprefix(_DATA)
            if not self._feed_word(line) and (event := self._framing.read(raw)) is not None:
                self._feed_event(event)
                self._words.begin(line)
        self._reserve_pending()

    def _feed_word(self, line: bytes) -> bool:
        """Take a chunk that is one more word; return whether it is."""
        said = self._words.read(line)
        if said is None or not self._fold.add_word(*said):
            return False
        self.chunk_count += 1
        return True

    def finish(self) -> ContentAnswer:
        """Take the end of the bytes and return what the stream said. Call it once."""
        self._read_end()
        is_cut = self._is_cut or self._framing.is_open
        return self._fold.answer(has_end=self._framing.has_end, is_cut=is_cut)

    def _feed_text(self, data: bytes, name: str | None, *, is_cut_off: bool) -> None:
        """Take data that is not one JSON value: several, where the blank lines between are lost."""
        values = [] if b"\n" not in data else _split_values(data)
        if len(values) < 2:
            self._is_cut = self._is_cut or is_cut_off
            super()._feed_text(data, name, is_cut_off=is_cut_off)
            return
        for value in values:
            event = ServerSentEvent(data=value, event=name, raw=value)
            self._feed_event(event, is_cut_off=is_cut_off and value is values[-1])

    def _feed_value(self, value: Any, event: ServerSentEvent) -> None:
        self.chunk_count += self._fold.feed(value, event.event)


def _split_values(data: bytes) -> list[bytes]:
    splitter = JsonSplitter(limit_bytes=len(data))
    values = splitter.split(data)
    rest = splitter.finish()
    return [*values, rest] if rest else values
