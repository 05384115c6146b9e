r"""A streamed message: bytes in, :class:`~codec.apis.messages.said.MessageAnswer` out.

It keeps the rules of :mod:`codec.delta_reader` and of :mod:`codec.apis.messages.fold`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from codec.apis.messages.deltas import read_delta, read_run
from codec.apis.messages.fold import MessageFold
from codec.budget import MAX_ANSWER_BYTES, Budget
from codec.delta_reader import DeltaReader
from codec.text.sse import SseDecoder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codec.apis.messages.said import MessageAnswer
    from codec.delta_reader import Piece
    from codec.text.sse import ServerSentEvent
    from codec.text_fold import OpenText

__all__ = ("MAX_EVENT_BYTES", "MessageStream")

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Largest event: what a tool of the provider found comes in one."""


class MessageStream(DeltaReader[MessageFold]):
    r"""Reads one event stream. Not safe for concurrent calls.

    Args:
        lend: whether that many more bytes may be reserved beside all others (:mod:`codec.budget`).

    >>> stream = MessageStream()
    >>> stream.feed(b'data: {"type": "content_block_delta", "index": 0,')
    >>> stream.feed(b' "delta": {"type": "text_delta", "text": "Hi"}}\n\n')
    >>> stream.finish().answers[0].message.parts
    (Text(text='Hi'),)
    """

    __slots__ = ()

    names: ClassVar[frozenset[str]] = frozenset({"content_block_delta"})

    def __init__(
        self,
        *,
        lend: Callable[[int], bool] | None = None,
        **_of_other_apis: object,
    ) -> None:
        fold = MessageFold(Budget(MAX_ANSWER_BYTES, lend))
        super().__init__(fold, SseDecoder(limit_bytes=MAX_EVENT_BYTES))

    @property
    def is_complete(self) -> bool:
        """Whether the event that ends a message was seen."""
        return self._fold.is_complete

    def finish(self) -> MessageAnswer:
        """End the stream and return what it said. Call it once."""
        self._read_end()
        return self._fold.answer()

    def _read_delta(self, data: bytes) -> Piece | None:
        return read_delta(data)

    def _read_run(self, lines: Sequence[bytes], text: OpenText) -> list[str]:
        return read_run(lines, text)

    def _feed_value(self, value: Any, event: ServerSentEvent) -> None:
        self.chunk_count += self._fold.feed(value, event.event)
