"""Requests out of bytes: llhttp by way of aiohttp's parser, fed so that nothing it knows is lost.

Rules:

1. One piece at a time, and a piece ends where a head or a body may end: whatever is valid is
   handed out before the byte after it is parsed. aiohttp's parser alone forgets the valid
   requests of a read in which a later byte is wrong.
2. Trailers end with their message: a new parser follows each chunked body. aiohttp's alone
   would put the last trailer into the head of the next request.
3. A body that breaks its framing fails its reader; one whose head came in the same read never
   becomes a request.
4. After the first fault, or a request to change the protocol, nothing more is parsed: where the
   next request begins is anybody's guess (RFC 9112 section 11.2).
5. A head as a whole, and the trailers of a body, are bounded too: :data:`MAX_HEAD_FACTOR` fields
   of the largest size. aiohttp's parser alone would keep as many as it takes fields.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from aiohttp import hdrs
from aiohttp.http import HttpProcessingError, HttpRequestParser, RawRequestMessage
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import MAX_MSG_QUEUE_SIZE, RequestPayloadError, _ErrInfo

from proxy.downstream.request_faults import explain_fault

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from aiohttp.base_protocol import BaseProtocol

__all__ = ("MAX_PIECE_CHUNKS", "RequestParser")

_BLANK_LINE = b"\r\n\r\n"
_LINE_ENDS = re.compile(rb"[\r\n]*").match
_SIZE = re.compile(rb"([0-9A-Fa-f]+)[;\r]").match
_PLAIN_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n").match

MAX_PIECE_BYTES = 64 * 1024
"""Of a body, after which it is seen whether its reader has enough: bounds the work of a turn."""

MAX_PIECE_CHUNKS = 128
"""Of a body, after which the same is seen: one of a byte costs as much as a kilobyte in a large
one, and the reader has enough after a sixteenth of so many as it may have bytes."""

MAX_HEAD_FACTOR = 4
"""Largest head as a whole, in largest fields: nginx has four buffers for large ones, too."""

MAX_SIZE_DIGITS = 64
"""Of a chunk's size, as it may have any number of zeros before it; real ones have 8 at most."""

_Parsed = tuple[RawRequestMessage | _ErrInfo, StreamReader]


class _Refused(Exception):  # noqa: N818 - names what happened
    """A request that is not taken, for a reason of ours."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class RequestParser:
    """What aiohttp's connection wants of a parser, by the rules of this module.

    Args:
        protocol: the connection, for backpressure from bodies.
        max_header_bytes: largest field and request target.
        max_fields: most fields of a head.
        read_buffer_bytes: how much is read ahead of a body.
        on_broken_body: called with a sentence when the body of a request that was already handed
            out breaks its framing.

    Attributes:
        head_begun: some of a head has come, and not all of it.
    """

    def __init__(
        self,
        protocol: BaseProtocol,
        loop: asyncio.AbstractEventLoop,
        *,
        max_header_bytes: int,
        max_fields: int,
        read_buffer_bytes: int,
        on_broken_body: Callable[[str], None],
    ) -> None:
        self._protocol = protocol
        self._loop = loop
        self._max_header_bytes = max_header_bytes
        self._max_head_bytes = MAX_HEAD_FACTOR * max_header_bytes
        self._max_fields = max_fields
        self._read_buffer_bytes = read_buffer_bytes
        self._on_broken_body = on_broken_body
        self._parser = self._make_parser()
        self._unparsed = b""
        self._ending = b""
        self._body: StreamReader = EMPTY_PAYLOAD
        self._body_left = 0
        self._chunks: _ChunkedBody | None = None
        self._queued = 0
        self._paused = False
        self._stopped = False
        self._expired = False
        self._head_bytes = 0
        self._is_between = True  # nothing of a request, and nothing else, waits here
        self.head_begun = False

    def _make_parser(self) -> HttpRequestParser:
        return HttpRequestParser(
            self._protocol,
            self._loop,
            self._read_buffer_bytes,
            max_line_size=self._max_header_bytes,
            max_field_size=self._max_header_bytes,
            max_headers=self._max_fields,
            payload_exception=RequestPayloadError,
            auto_decompress=False,
        )

    def feed_data(self, data: bytes) -> tuple[list[_Parsed], bool, bytes]:
        """The requests whose heads are complete now, and a fault as the last of them.

        Never raises. What comes after :data:`aiohttp.web_protocol.MAX_MSG_QUEUE_SIZE` waiting
        requests, or while a body's reader has enough, stays here until it is called again. The
        other two members of the result are for upgrades, which do not happen.
        """
        if self._unparsed:
            data = self._unparsed + data
        at = 0
        self._paused = False
        parsed: list[_Parsed] = []
        if self._is_between and self._queued < MAX_MSG_QUEUE_SIZE:
            at = self._feed_usual(data, parsed)
            if at == len(data):
                return parsed, False, b""
        if self._expired and not self._stopped:
            late = _Refused(408, "The request's head did not come within the header timeout.")
            self._fail(late, parsed)
        while at < len(data) and self._has_room():
            try:
                if self._body_left:
                    end = min(at + min(self._body_left, MAX_PIECE_BYTES), len(data))
                    self._feed_counted(data[at:end])
                else:
                    end = self._find_end(data, at)
                    self._feed_piece(data[at:end], parsed)
                at = end
            except (HttpProcessingError, ValueError, _Refused) as error:
                self._fail(error, parsed)
        self._unparsed = b"" if self._stopped else data[at:]
        self._is_between = not (
            self._unparsed
            or self._ending
            or self._body_left
            or self._chunks is not None
            or self.head_begun
            or self._stopped
            or self._expired
        )
        return parsed, False, b""

    def _feed_usual(self, data: bytes, parsed: list[_Parsed]) -> int:
        """The request that a read begins with, in fewer steps; only between requests.

        That is its head, and its body if all of it has come and its length is known.

        Returns:
            Where it ends, or what the long way has to see begins.
        """
        end = data.find(_BLANK_LINE) + len(_BLANK_LINE)
        if not len(_BLANK_LINE) < end <= self._max_head_bytes:
            return 0
        try:
            self._parse_piece(data[:end], parsed)
            if 0 < self._body_left <= min(len(data) - end, MAX_PIECE_BYTES):
                begin, end = end, end + self._body_left
                self._feed_counted(data[begin:end])
        except (HttpProcessingError, ValueError) as error:
            self._fail(error, parsed)
        self._is_between = not (self._body_left or self._chunks is not None or self._stopped)
        return end

    def _has_room(self) -> bool:
        return not (self._stopped or self._paused) and self._queued < MAX_MSG_QUEUE_SIZE

    def _find_end(self, data: bytes, at: int) -> int:
        """The end of the piece that begins at ``at`` (rule 1)."""
        if self._chunks is not None:
            return self._chunks.find_end(data, at, min(len(data), at + MAX_PIECE_BYTES))
        begun = len(self._ending)
        found = (self._ending + data[at : at + len(_BLANK_LINE) - 1]).find(_BLANK_LINE)
        if begun and found >= 0:
            return at + found + len(_BLANK_LINE) - begun
        # Blank lines before a request are none of its own (RFC 9112 section 2.2).
        line_ends = None if begun else _LINE_ENDS(data, at)
        found = data.find(_BLANK_LINE, line_ends.end() if line_ends else at)
        return len(data) if found < 0 else found + len(_BLANK_LINE)

    def _feed_counted(self, piece: bytes) -> None:
        """Feed a body whose length is known."""
        self._parser.feed_data(piece)
        self._body_left -= len(piece)
        if not self._body_left:
            self._paused = False

    def _feed_piece(self, piece: bytes, parsed: list[_Parsed]) -> None:
        in_head = self._chunks is None
        ends = not in_head or (self._ending + piece[-len(_BLANK_LINE) :]).endswith(_BLANK_LINE)
        if in_head:
            self._count_head(piece, ends=ends)
        self._parse_piece(piece, parsed)
        self._ending = b"" if ends else (self._ending + piece)[1 - len(_BLANK_LINE) :]
        if self._body.is_eof():
            self._paused = False
            if self._chunks is not None:
                self._parser, self._chunks = self._make_parser(), None

    def _parse_piece(self, piece: bytes, parsed: list[_Parsed]) -> None:
        """Let the parser have a piece, and note what it finds of a head."""
        messages, upgraded, _ = self._parser.feed_data(piece)
        for message, body in messages:
            parsed.append((message, body))
            self._queued += 1
            self._body = body
            if message.chunked:
                self._chunks = _ChunkedBody(self._max_head_bytes)
            elif not body.is_eof():
                self._body_left = int(message.headers.get(hdrs.CONTENT_LENGTH, "0"))
        if upgraded:
            self._stopped = True

    def _count_head(self, piece: bytes, *, ends: bool) -> None:
        """Note how much of a head there is (rule 5)."""
        blank = None if self.head_begun else _LINE_ENDS(piece)
        if blank is not None and blank.end() == len(piece):
            return
        self._head_bytes += len(piece)
        if self._head_bytes > self._max_head_bytes:
            message = f"The request's head is longer than {self._max_head_bytes} bytes."
            raise _Refused(431, message)
        self.head_begun = not ends
        if ends:
            self._head_bytes = 0

    def _fail(self, error: Exception, parsed: list[_Parsed]) -> None:
        self._stopped = True
        self.head_begun = False
        if isinstance(error, _Refused):
            status, message = error.status, error.message
        else:
            status, message = explain_fault(error, self._max_header_bytes)
        if not self._body.is_eof():
            if not parsed or parsed[-1][1] is not self._body:
                broken = RequestPayloadError(message)
                self._body.set_exception(broken)
                # Once more: the end of a chunk in the same piece may have woken the reader, which
                # looks for data alone and waits again.
                self._loop.call_soon(self._body.set_exception, broken)
                self._on_broken_body(message)
                return
            parsed.pop()
            self._queued -= 1
        parsed.append((_ErrInfo(status=status, exc=error, message=message), EMPTY_PAYLOAD))
        self._queued += 1

    def expire(self) -> None:
        """The head that has begun took too long; the next :meth:`feed_data` says so."""
        self._expired = True
        self._is_between = False

    def message_consumed(self) -> None:
        """One of the requests handed out is being handled."""
        self._queued -= 1

    def pause_reading(self) -> None:
        """The reader of a body has enough; :meth:`feed_data` is called when it wants more."""
        self._paused = True


class _ChunkedBody:
    """Finds where a chunked body ends, and leaves decoding and judging it to the parser.

    Args:
        max_framing_bytes: of a chunk's size with its extensions, and of all trailers (rule 5).
    """

    def __init__(self, max_framing_bytes: int) -> None:
        self._max_framing_bytes = max_framing_bytes
        self._framing_bytes = 0
        self._left = 0
        self._line = b""
        self._in_trailers = False

    def find_end(self, data: bytes, at: int, limit: int) -> int:
        """The end of the body in ``data`` between ``at`` and ``limit``, else that of the piece.

        Raises:
            ValueError: a chunk has no size.
            _Refused: an extension or trailer does not end.
        """
        left_chunks = MAX_PIECE_CHUNKS
        while at < limit and left_chunks > 0:
            left_chunks -= 1
            if not (self._left or self._line or self._in_trailers):
                at, skipped = self._skip_chunks(data, at, limit, left_chunks)
                left_chunks -= skipped
            if self._left:
                step = min(self._left, limit - at)
                self._left -= step
                at += step
                continue
            line_feed = data.find(b"\n", at, limit)
            stop = limit if line_feed < 0 else line_feed + 1
            # What is longer is an extension or a trailer, of which the end alone matters.
            begin = data[at : min(stop, at + MAX_SIZE_DIGITS + 1)]
            self._line = (self._line + begin)[: MAX_SIZE_DIGITS + 1]
            self._framing_bytes += stop - at
            if self._framing_bytes > self._max_framing_bytes:
                limit_text = f"{self._max_framing_bytes} bytes"
                raise _Refused(400, f"A chunk's extensions or trailers exceed {limit_text}.")
            at = stop
            if line_feed >= 0 and self._end_line():
                break
        return at

    def _skip_chunks(self, data: bytes, at: int, limit: int, most: int) -> tuple[int, int]:
        """Past the chunks that are whole, and how many: a read may hold many tiny ones."""
        count = 0
        while count < most and (size := _PLAIN_SIZE(data, at)) is not None:
            end = size.end() + int(size[1], 16) + len(b"\r\n")
            if end > limit or end == size.end() + len(b"\r\n"):
                break
            at = end
            count += 1
        return at, count

    def _end_line(self) -> bool:
        """Whether the line that is whole now ends the body."""
        line, self._line = self._line, b""
        if self._in_trailers:
            return line in {b"\r\n", b"\n"}
        size = _SIZE(line)
        if size is None:
            raise BadHttpMessage("Invalid character in chunk size")
        digits = int(size[1], 16)
        self._in_trailers = digits == 0
        self._left = digits + len(b"\r\n") if digits else 0
        self._framing_bytes = 0
        return False
