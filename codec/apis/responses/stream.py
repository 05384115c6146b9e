r"""A streamed response: bytes in, :class:`~codec.apis.responses.said.ResponseAnswer` out.

It keeps the rules of :mod:`codec.delta_reader`, but for one thing: what else is in an event that
repeats a text is not decoded, so that no value in it is too large, and no number too long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from codec.apis.responses.deltas import read_delta, read_run, read_told
from codec.apis.responses.fold import ResponseFold
from codec.apis.responses.item_fold import DELTAS, PARTS, WHOLES
from codec.budget import MAX_ANSWER_BYTES, Budget
from codec.delta_reader import DeltaReader
from codec.text.base64_text import shorten_base64_text
from codec.text.sse import SseDecoder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codec.apis.responses.said import ResponseAnswer
    from codec.delta_reader import Piece
    from codec.text.sse import ServerSentEvent
    from codec.text_fold import OpenText

__all__ = ("MAX_EVENT_BYTES", "ResponseStream")

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Largest event without its images: the last one repeats the whole answer."""

_TOLD_AGAIN: Final = PARTS.union(WHOLES)
"""The names of events that mostly tell what the deltas told."""


class ResponseStream(DeltaReader[ResponseFold]):
    r"""Reads one event stream. Not safe for concurrent calls.

    Args:
        lend: whether that many more bytes may be reserved beside all others (:mod:`codec.budget`).

    >>> stream = ResponseStream()
    >>> stream.feed(b'data: {"type": "response.output_text.delta", "delta": "Hi",')
    >>> stream.feed(b' "output_index": 0}\n\n')
    >>> stream.finish().answers[0].message.parts
    (Text(text='Hi'),)
    """

    __slots__ = ()

    names: ClassVar[frozenset[str]] = frozenset(DELTAS)

    def __init__(
        self,
        *,
        lend: Callable[[int], bool] | None = None,
        **_of_other_apis: object,
    ) -> None:
        fold = ResponseFold(Budget(MAX_ANSWER_BYTES, lend))
        super().__init__(fold, SseDecoder(limit_bytes=MAX_EVENT_BYTES, shorten=shorten_base64_text))

    @property
    def is_complete(self) -> bool:
        """Whether the event that ends a response was seen."""
        return self._fold.is_complete

    def finish(self) -> ResponseAnswer:
        """End the stream and return what it said. Call it once."""
        self._read_end()
        return self._fold.answer()

    def _read_delta(self, data: bytes) -> Piece | None:
        return None if self._fold.has_shared_indexes else read_delta(data)

    def _read_run(self, lines: Sequence[bytes], text: OpenText) -> list[str]:
        return read_run(lines, text)

    def _feed_told(self, name: str | None, data: bytes) -> bool:
        if name not in _TOLD_AGAIN or (told := read_told(data)) is None:
            return False
        if not self._fold.was_told(told.type, told.output_index, told.part):
            return False
        self.chunk_count += 1
        return True

    def _feed_value(self, value: Any, event: ServerSentEvent) -> None:
        self.chunk_count += self._fold.feed(value, event.event)
