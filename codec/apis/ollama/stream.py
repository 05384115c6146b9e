r"""A streamed answer: bytes in, :class:`~codec.apis.ollama.said.OllamaSaid` out.

It keeps the rules of :mod:`codec.event_reader` and of :mod:`codec.apis.ollama.fold`. An event is a
line: one that is not JSON costs itself alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.apis.ollama.fold import LineFold
from codec.budget import MAX_ANSWER_BYTES, Budget
from codec.event_reader import SMALL_PENDING_BYTES, EventReader
from codec.text.lines import LineDecoder
from codec.text.sse import ServerSentEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.apis.ollama.said import OllamaSaid

__all__ = ("MAX_LINE_BYTES", "LineStream")

MAX_LINE_BYTES = 16 * 1024 * 1024
"""Largest line: the last one of a long text has the tokens of its whole context."""


class LineStream(EventReader[LineFold]):
    r"""Reads one stream of lines. Not safe for concurrent calls.

    Args:
        kind: what it is an answer to.
        lend: whether that many more bytes may be reserved beside all others (:mod:`codec.budget`).

    >>> from codec.apis.ollama.said import GenerateSaid
    >>> stream = LineStream(kind=GenerateSaid)
    >>> stream.feed(b'{"response": "Good", "done": false}\n{"response": "bye", ')
    >>> stream.feed(b'"done": true}')
    >>> stream.finish().answers[0].message.parts
    ('Goodbye',)
    """

    __slots__ = ()

    def __init__(
        self,
        *,
        kind: type[OllamaSaid],
        lend: Callable[[int], bool] | None = None,
        **_of_other_apis: object,
    ) -> None:
        fold = LineFold(Budget(MAX_ANSWER_BYTES, lend), kind)
        super().__init__(fold, LineDecoder(limit_bytes=MAX_LINE_BYTES))

    @property
    def is_complete(self) -> bool:
        """Whether the line that ends an answer was seen."""
        return self._fold.is_complete

    def feed(self, data: bytes) -> None:
        """Feed one read of the (decompressed) body, cut anywhere."""
        for line in self._split(data):
            self._feed_event(ServerSentEvent(data=line))
        if self._decoder.pending_bytes > SMALL_PENDING_BYTES:
            self._fold.settle()  # before the line under way takes the room
        self._reserve_pending()

    def finish(self) -> OllamaSaid:
        """End the stream and return what it said. Call it once."""
        self._read_end()
        return self._fold.answer()

    def _feed_value(self, value: Any, event: ServerSentEvent) -> None:  # noqa: ARG002
        self.chunk_count += self._fold.feed(value)
