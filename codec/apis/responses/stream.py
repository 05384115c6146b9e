r"""A streamed response: bytes in, :class:`~codec.apis.responses.said.ResponseAnswer` out.

It reads events as :mod:`codec.delta_reader` says. Most events add one more word to a text. Only the
word is read from these: their padding, ids and sequence numbers are neither decoded nor kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec

from codec.apis.responses.fold import ResponseFold
from codec.apis.responses.item_fold import DELTAS
from codec.apis.session import write_event
from codec.budget import MAX_ANSWER_BYTES, Budget
from codec.delta_reader import DeltaReader, are_short, is_short
from codec.text.base64_text import TakenPictures
from codec.text.sse import SseDecoder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codec.apis.responses.said import ResponseAnswer
    from codec.delta_reader import Piece
    from codec.text.sse import ServerSentEvent
    from codec.text_fold import OpenText

__all__ = ("MAX_EVENT_BYTES", "MessageStream", "ResponseStream", "read_delta", "read_run")

_Index = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Delta(msgspec.Struct, gc=False):
    """The members that are read of an event that adds to a text."""

    type: str
    delta: str
    output_index: _Index
    content_index: _Index = 0
    summary_index: _Index = 0
    command_index: _Index = 0


_decode_delta = msgspec.json.Decoder(Delta).decode
_OTHER = msgspec.MsgspecError


def read_delta(data: bytes) -> Piece | None:
    """Read data that is one more word; ``None`` for other data."""
    if not is_short(data):
        return None
    try:
        delta = _decode_delta(data)
    except _OTHER:
        return None
    part = delta.content_index or delta.summary_index or delta.command_index
    return delta.type, delta.output_index, part, delta.delta


def read_run(lines: Sequence[bytes], text: OpenText) -> list[str]:
    """Read lines of data that all add to one text: their pieces, or nothing if a line does not."""
    if not are_short(lines):
        return []
    try:
        deltas = [*map(_decode_delta, lines)]
    except _OTHER:
        return []
    kind, index, part = text.kind, text.index, text.part
    pieces = [
        it.delta
        for it in deltas
        if it.type == kind
        and it.output_index == index
        and (it.content_index or it.summary_index or it.command_index) == part
    ]
    return pieces if len(pieces) == len(lines) else []


MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Largest event without its images: the last one repeats the whole answer."""


class ResponseStream(DeltaReader[ResponseFold]):
    r"""Reads one event stream. Not safe for concurrent calls.

    Args:
        lend: whether that many more bytes may be reserved beside all others (:mod:`codec.budget`).
        pictures: gets the pictures that are taken out.

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
        pictures: TakenPictures | None = None,
        **_of_other_apis: object,
    ) -> None:
        pictures = TakenPictures() if pictures is None else pictures
        fold = ResponseFold(Budget(MAX_ANSWER_BYTES, lend), pictures)
        decoder = SseDecoder(limit_bytes=MAX_EVENT_BYTES, shorten=pictures.shorten_text)
        super().__init__(fold, decoder)

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

    def _feed_value(self, value: Any, event: ServerSentEvent) -> None:
        self.chunk_count += self._fold.feed(value, event.event)


class MessageStream(ResponseStream):
    """Reads the events of one response that come as messages, one in each."""

    __slots__ = ()

    @property
    def item_count(self) -> int:
        """How many items the response has so far."""
        return self._fold.item_count

    def feed_message(self, text: bytes) -> None:
        """Feed an event."""
        self.feed(write_event(text))

    def feed_cut(self, kind: str) -> None:
        """Feed the type of an event that is too large to be read."""
        self.chunk_count += self._fold.feed({"type": kind})
        self._fold.note("observer_limit")

    def reserve(self, size_bytes: int) -> bool:
        """Reserve bytes in the room of the answer, or return false if they do not fit."""
        return self._fold.budget.reserve(size_bytes)
