"""The framings of a streamed answer: events, an array in pieces, or JSON by itself.

See ``docs/contract/apis.md#framing`` and ``docs/contract/apis.md#bare-json``. An array begins with
a bracket; any other first byte means events. Between events there may be bare JSON, pretty-printed:
Gemini sends errors so. It ends at a blank line or with the bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codec.text.json_stream import JsonSplitter
from codec.text.sse import ServerSentEvent, SseDecoder, read_event, read_rest

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.event_reader import Decoder

__all__ = ("MAX_CHUNK_BYTES", "ChunkDecoder", "split_values")

MAX_CHUNK_BYTES: Final = 16 * 1024 * 1024
"""Largest chunk without its pictures: all that a search found comes in one chunk."""

_SPACE: Final = b" \t\r\n"
_BRACKETS: Final = (b"{", b"[")


class ChunkDecoder:
    """Cuts a stream into chunks, in any of the framings: a :class:`codec.event_reader.Decoder`.

    Args:
        shorten: shortens a piece of a large chunk (:class:`codec.text.sse.SseDecoder`).
    """

    __slots__ = ("_events", "_json", "_shorten")

    def __init__(self, shorten: Callable[[bytes], bytes] | None) -> None:
        self._shorten = shorten
        self._events: SseDecoder | None = None
        self._json: JsonSplitter | None = None

    @property
    def is_between_events(self) -> bool:
        """Whether the next byte begins a chunk."""
        if self._events is not None:
            return self._events.is_between_events
        return self._json is not None and self._json.is_between_values

    @property
    def pending_bytes(self) -> int:
        """The size of the chunk under way."""
        if self._events is not None:
            return self._events.pending_bytes
        return 0 if self._json is None else self._json.pending_bytes

    @property
    def has_end(self) -> bool:
        """Whether the end of an array came; no other framing has an end."""
        return self._json is not None and self._json.is_closed

    @property
    def is_open(self) -> bool:
        """Whether an array has begun, whose end is still to come."""
        return self._json is not None and self._json.in_array and not self._json.is_closed

    def split(self, data: bytes) -> list[bytes]:
        """Split one read and return the bytes of the chunks that it completes.

        Raises:
            LimitExceeded: a chunk passes its limit.
        """
        if self._events is not None:
            return self._events.split(data)
        if self._json is None:
            data = data.lstrip(_SPACE)
            if not data:
                return []
            if not data.startswith(_BRACKETS):
                self._events = SseDecoder(limit_bytes=MAX_CHUNK_BYTES, shorten=self._shorten)
                return self._events.split(data)
            self._json = JsonSplitter(limit_bytes=MAX_CHUNK_BYTES, shorten=self._shorten)
        return self._json.split(data)

    def read(self, raw: bytes) -> ServerSentEvent | None:
        """Read the bytes of a chunk; ``None`` if there is no data in it."""
        if self._json is not None:
            return ServerSentEvent(data=raw, raw=raw)
        bare = raw.strip(_SPACE)
        if bare.startswith(_BRACKETS):  # bare JSON between events
            return ServerSentEvent(data=bare, raw=raw)
        return read_event(raw)

    def finish(self) -> ServerSentEvent | None:
        """Return the chunk that was under way when the stream ended, if any.

        Raises:
            LimitExceeded: as :meth:`split`.
        """
        if self._events is not None:
            rest = self._events.pop_rest()
            return self.read(rest) or read_rest(rest)
        rest = b"" if self._json is None else self._json.finish()
        return self.read(rest) if rest else None


def split_values(data: bytes) -> list[bytes]:
    """Split the data of an event that has several values, since no blank lines were between them.

    Data of one line has one value.
    """
    if b"\n" not in data:
        return [data]
    splitter = JsonSplitter(limit_bytes=len(data))
    values = splitter.split(data)
    rest = splitter.finish()
    return [*values, rest] if rest else values


if TYPE_CHECKING:
    _IS_ONE: type[Decoder] = ChunkDecoder
