r"""A streamed message: bytes in, :class:`~codec.apis.messages.said.MessageAnswer` out.

It reads events as :mod:`codec.delta_reader` says, and :mod:`codec.apis.messages.fold` joins them.
Most events add one more word to a block; only the word is read from these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from codec.apis.messages.fold import MessageFold
from codec.budget import MAX_ANSWER_BYTES, Budget
from codec.delta_reader import DeltaReader, are_short, is_short
from codec.text.sse import SseDecoder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codec.apis.messages.said import MessageAnswer
    from codec.delta_reader import Piece
    from codec.text.sse import ServerSentEvent
    from codec.text_fold import OpenText

__all__ = ("MAX_EVENT_BYTES", "MessageStream", "read_delta", "read_run")

_EVENT: Final = "content_block_delta"


class Inner(msgspec.Struct, gc=False):
    """The piece that an event adds: one of these texts."""

    type: str
    text: str = ""
    thinking: str = ""
    partial_json: str = ""


class Delta(msgspec.Struct, gc=False):
    """The members that are read of an event that adds to a block."""

    type: str
    index: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    delta: Inner


_decode = msgspec.json.Decoder(Delta).decode
_MEMBERS: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "input_json_delta": "partial_json",
}


def read_delta(data: bytes) -> Piece | None:
    """Read data that is one more word; ``None`` for other data."""
    if not is_short(data):
        return None
    try:
        event = _decode(data)
    except msgspec.MsgspecError:
        return None
    delta = event.delta
    member = _MEMBERS.get(delta.type)
    if event.type != _EVENT or member is None:
        return None
    return delta.type, event.index, 0, getattr(delta, member)


def read_run(lines: Sequence[bytes], text: OpenText) -> list[str]:
    """Read lines of data that all add to one text: their pieces, or nothing if a line does not."""
    member = _MEMBERS.get(text.kind)
    if member is None or not are_short(lines):
        return []
    try:
        events = [*map(_decode, lines)]
    except msgspec.MsgspecError:
        return []
    kind, index = text.kind, text.index
    pieces = [
        getattr(it.delta, member)
        for it in events
        if it.type == _EVENT and it.index == index and it.delta.type == kind
    ]
    return pieces if len(pieces) == len(lines) else []


MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Largest event: all that a tool of the provider found comes in one event."""


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
