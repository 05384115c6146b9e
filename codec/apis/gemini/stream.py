r"""A streamed answer: bytes in, :class:`~codec.apis.gemini.said.ContentAnswer` out.

It keeps the rules of :mod:`codec.event_reader`, :mod:`codec.apis.google_framing` and
:mod:`codec.apis.gemini.fold`. A chunk that is one more word is read quickly
(:mod:`codec.apis.gemini.deltas`); the general way, chunk by chunk, gives the same result.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from codec.apis.gemini.deltas import learn_frame
from codec.apis.gemini.fold import ContentFold
from codec.apis.google_framing import ChunkDecoder, split_values
from codec.budget import MAX_ANSWER_BYTES, Budget
from codec.event_reader import EventReader
from codec.text.base64_text import TakenPictures
from codec.text.sse import ServerSentEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codec.apis.gemini.deltas import WordFrame
    from codec.apis.gemini.said import ContentAnswer

__all__ = ("MAX_WASTED_FRAMES", "ContentStream")

_EVENT_END: Final = re.compile(rb"\r?\n\r?\n").search

MAX_WASTED_FRAMES: Final = 16
"""After so many frames in a row that matched nothing no further frame is made: the chunks of this
stream differ in other places."""


class ContentStream(EventReader[ContentFold]):
    r"""Reads one stream, in whichever framing it comes. Not safe for concurrent calls.

    Args:
        lend: whether that many more bytes may be reserved beside all others (:mod:`codec.budget`).
        pictures: gets the pictures that are taken out.

    >>> stream = ContentStream()
    >>> stream.feed(b'[{"candidates": [{"content": {"parts": [{"te')
    >>> stream.feed(b'xt": "Hi"}]}, "finishReason": "STOP"}]}\r\n]')
    >>> stream.finish().answers[0].message.content
    'Hi'
    """

    __slots__ = ("_frame", "_framing", "_wasted")

    def __init__(
        self,
        *,
        lend: Callable[[int], bool] | None = None,
        pictures: TakenPictures | None = None,
        **_of_other_apis: object,
    ) -> None:
        pictures = TakenPictures() if pictures is None else pictures
        self._framing = ChunkDecoder(pictures.shorten_text)
        self._frame: WordFrame | None = None
        self._wasted = 0
        super().__init__(ContentFold(Budget(MAX_ANSWER_BYTES, lend), pictures), self._framing)

    @property
    def is_complete(self) -> bool:
        """Whether the end of an array came; events have no mark of their end."""
        return self._framing.has_end

    def feed(self, data: bytes) -> None:
        """Feed one read of the body, its content coding undone, cut anywhere. Never raises."""
        self._feed_chunks(data)
        self._reserve_pending()

    def _feed_chunks(self, data: bytes) -> None:
        chunks = self._split(data)
        at = 0
        while at < len(chunks):
            count = self._feed_words(chunks, at)
            if not count:
                self._feed_chunk(chunks[at])
            at += count or 1

    def _feed_words(self, chunks: Sequence[bytes], start: int) -> int:
        """Feed the chunks from `start` on that are one more word each; return their number."""
        if self._frame is None:
            return 0
        texts, counts = self._frame.match_run(chunks, start)
        return len(texts) if self._add_words(texts, counts) else 0

    def _add_words(self, texts: Sequence[str], counts: bytes) -> bool:
        """Add the texts of chunks; return whether there are some, and the open text."""
        if not texts or not self._fold.add_words(texts, counts):
            return False
        self._wasted = 0
        self.chunk_count += len(texts)
        return True

    def _feed_chunk(self, chunk: bytes) -> None:
        """Feed a chunk the general way, and learn what the next ones may look like."""
        self._frame = None
        if (event := self._framing.read(chunk)) is None:
            return
        self._feed_event(event)
        if event.data and self._wasted < MAX_WASTED_FRAMES:
            self._frame = learn_frame(chunk, event.data)
            self._wasted += self._frame is not None

    def finish(self) -> ContentAnswer:
        """End the stream and return what it said. Call it once."""
        self._read_end()
        return self._fold.answer(has_end=self._framing.has_end, is_cut=self._framing.is_open)

    def _feed_text(self, data: bytes, name: str | None, *, is_cut_off: bool) -> None:
        """Feed data that is not one JSON value, but several without blank lines between them."""
        values = split_values(data)
        if len(values) < 2:
            super()._feed_text(data, name, is_cut_off=is_cut_off)
            return
        for value in values:
            event = ServerSentEvent(data=value, event=name, raw=value)
            self._feed_event(event, is_cut_off=is_cut_off and value is values[-1])

    def _feed_value(self, value: Any, event: ServerSentEvent) -> None:
        self.chunk_count += self._fold.feed(value, event.event)
