"""Bodies of answers as an observer keeps them: streams folded, sound counted, others whole.

A large body is shortened while it arrives; its API says which parts are too long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.text.sse import OVERLAP_BYTES, SHORTENED_BYTES
from telemetry.frames.frame import MAX_ERROR_BYTES
from telemetry.observing.chunk_timing import ChunkClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.apis.api import Api, Stream
    from codec.asked import Asked
    from codec.said import Said
    from codec.text.base64_text import TakenPictures
    from telemetry.frames.frame import ResponseHead
    from telemetry.observing.open_bodies import Holding

MAX_PLAIN_BYTES = 16 * 1024 * 1024
"""Largest body that is not a stream: four images. A chat's text has a few kilobytes."""

_FIELDS = (b":", b"data:", b"event:", b"id:", b"retry:", b"error:")
"""Beginnings of the first line of an event stream: a comment or a field (WHATWG HTML, section
9.2.6; ``error`` is old llama.cpp's, ``docs/contract/wire.md#error-line``)."""

_SOUND = ("audio/", "application/octet-stream")
"""Content types of answers that consist only of bytes."""

_PAGE = b"<"
"""The first byte of a web page. No line of a stream begins with it, whatever the content type
says."""

_LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl")
"""Content types of streams of JSON lines, whether the request asked for a stream or not."""


def make_body(
    head: ResponseHead,
    first: bytes,
    *,
    api: Api,
    asked: Asked,
    holding: Holding,
    pictures: TakenPictures,
    keeps_sound: bool,
) -> StreamBody | PlainBody | None:
    """Choose the kind of body by its first bytes, because content types are often wrong.

    See ``docs/contract/wire.md#content-types``.

    Pictures that are taken out of it go to `pictures`. With `keeps_sound` an answer of a session
    has its sound. ``None`` if the first bytes are too few to tell.
    """
    if head.status >= 400:
        return PlainBody(MAX_ERROR_BYTES, holding) if first else None
    choice_count = asked.choice_count
    is_json = first[:1] in {b"{", b"["}
    kind = find_type(head).lower()
    called_lines = api.streams_json and kind.startswith(_LINES)
    if is_json and not (called_lines or (asked.stream and api.streams_json)):
        shorten = None if api.shorten is None else pictures.shorten_text
        return PlainBody(MAX_PLAIN_BYTES, holding, shorten)
    if first.startswith(_PAGE):
        return PlainBody(MAX_PLAIN_BYTES, holding)
    called_stream = called_lines or kind.startswith("text/event-stream")
    if is_json or first.startswith(_FIELDS) or (first and called_stream):
        lend = holding.reserve
        if api.open_pictured is not None:
            opened = api.open_pictured(choice_count=choice_count, lend=lend, pictures=pictures)
            return StreamBody(opened)
        if keeps_sound and api.open_sounding is not None:
            return StreamBody(api.open_sounding(asked=asked, lend=lend))
        stream = api.open_stream(choice_count=choice_count, hides_usage=head.hides_usage, lend=lend)
        return StreamBody(stream)
    if any(field.startswith(first) for field in _FIELDS):
        return None
    return PlainBody(MAX_PLAIN_BYTES, holding)


def make_sound_body(head: ResponseHead, api: Api) -> SoundBody | None:
    """Make a body from its head alone, if the head says that it is sound.

    Sound may begin with any bytes except those of a page or of JSON: some gateways label these as
    sound, too.
    """
    kind = find_type(head).partition(";")[0].strip()
    if api.read_sound is None or head.status >= 400 or not kind.lower().startswith(_SOUND):
        return None
    return SoundBody(kind, api.read_sound)


def find_type(head: ResponseHead) -> str:
    """Find the content type of an answer; empty if it has none."""
    return next((value for name, value in head.headers if name == "content-type"), "")


class StreamBody:
    """An event stream, folded as it arrives."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.clock = ChunkClock()
        self.first_content_ns: int | None = None
        self._count = 0
        self._last_read_ns = 0

    def feed(self, data: bytes, at_ns: int) -> bool:
        """Fold what came in one read; return whether the answer is complete."""
        stream = self.stream
        stream.feed(data)
        self._last_read_ns = at_ns
        if (count := stream.chunk_count) != self._count:
            self.clock.arrive(count - self._count, at_ns)
            self._count = count
        if self.first_content_ns is None and stream.has_content:
            self.first_content_ns = at_ns
        return stream.is_complete

    def finish(self) -> Said:
        """Return the answer, after the last read."""
        stream = self.stream
        response = stream.finish()
        # The last event may lack its end.
        self.clock.arrive(stream.chunk_count - self._count, self._last_read_ns)
        if self.first_content_ns is None and stream.has_content:
            self.first_content_ns = self._last_read_ns
        return response


class SoundBody:
    """Bytes that are counted and not kept; `read` makes an answer of their type and number."""

    def __init__(self, mime_type: str, read: Callable[[str, int | None], Said]) -> None:
        self._mime_type = mime_type
        self._read = read
        self._size_bytes = 0

    @property
    def is_empty(self) -> bool:
        """Whether no byte has come."""
        return not self._size_bytes

    def feed(self, data: bytes, at_ns: int) -> bool:  # noqa: ARG002 - as StreamBody
        """Count the bytes of one read; return false, because only the end completes a body."""
        self._size_bytes += len(data)
        return False

    def finish(self, missing_bytes: int | None) -> Said:
        """Make the answer; its size includes missing bytes, ``None`` if their number is unknown."""
        size_bytes = None if missing_bytes is None else self._size_bytes + missing_bytes
        return self._read(self._mime_type, size_bytes)


class PlainBody:
    """A whole body, kept up to a limit; `shorten` removes overlong parts from a large one."""

    def __init__(
        self,
        limit_bytes: int,
        holding: Holding,
        shorten: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._limit_bytes = limit_bytes
        self._holding = holding
        self._shorten = shorten
        self._pieces: list[bytes] = []
        self._long_bytes = 0  # of the last pieces, which were not shortened yet
        self._size_bytes = 0
        self.cut = False

    def feed(self, data: bytes, at_ns: int) -> bool:  # noqa: ARG002 - as StreamBody
        """Keep the bytes of one read; return false, because only the end completes a body."""
        if self.cut or not self._holding.reserve(len(data)):
            self.cut = True
            return False
        self._pieces.append(data)
        self._size_bytes += len(data)
        self._long_bytes += len(data)
        if self._shorten is not None and self._long_bytes >= SHORTENED_BYTES:
            self._make_short(self._shorten)
        self.cut = self._size_bytes > self._limit_bytes
        return False

    def _make_short(self, shorten: Callable[[bytes], bytes]) -> None:
        """Shorten the last pieces, and enough before them to find a text that began there."""
        last = [self._pieces.pop()]
        last_bytes = len(last[0])
        while self._pieces and last_bytes < self._long_bytes + OVERLAP_BYTES:
            last.append(self._pieces.pop())
            last_bytes += len(last[-1])
        short = shorten(b"".join(reversed(last)))
        self._pieces += (short[:-OVERLAP_BYTES], short[-OVERLAP_BYTES:])
        self._long_bytes = 0
        self._size_bytes -= last_bytes - len(short)
        self._holding.give_back(last_bytes - len(short))

    def pop(self) -> bytes:
        """Return all that was kept, and forget it."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)[: self._limit_bytes]
