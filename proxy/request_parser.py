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
5. What was sent is never quoted in the words about a fault: it may hold a key (R7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp.http import HttpProcessingError, HttpRequestParser, RawRequestMessage
from aiohttp.http_exceptions import (
    BadHttpMethod,
    BadStatusLine,
    InvalidHeader,
    InvalidURLError,
    LineTooLong,
)
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import MAX_MSG_QUEUE_SIZE, RequestPayloadError, _ErrInfo

from proxy.headers import find_header

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from aiohttp.base_protocol import BaseProtocol

__all__ = ("RequestParser", "explain_fault")

_BLANK_LINE = b"\r\n\r\n"

_Parsed = tuple[RawRequestMessage | _ErrInfo, StreamReader]


class RequestParser:
    """What aiohttp's connection wants of a parser, by the rules of this module.

    Args:
        protocol: the connection, for backpressure from bodies.
        max_header_bytes: largest field and request target.
        max_fields: most fields of a head.
        read_buffer_bytes: how much is read ahead of a body.
        on_broken_body: called with a sentence when the body of a request that was already handed
            out breaks its framing.
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
        self._max_fields = max_fields
        self._read_buffer_bytes = read_buffer_bytes
        self._on_broken_body = on_broken_body
        self._parser = self._make_parser()
        self._unparsed = b""
        self._ending = b""
        self._body: StreamReader = EMPTY_PAYLOAD
        self._body_left = 0
        self._chunked = False
        self._queued = 0
        self._stopped = False

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

        Never raises. Bytes past :data:`aiohttp.web_protocol.MAX_MSG_QUEUE_SIZE` waiting requests
        stay here until :meth:`message_consumed` has made room and it is called again. The other
        two members of the result are for upgrades, which do not happen.
        """
        if self._unparsed:
            data = self._unparsed + data
        at = 0
        parsed: list[_Parsed] = []
        while at < len(data) and not self._stopped and self._queued < MAX_MSG_QUEUE_SIZE:
            end = self._find_end(data, at)
            self._feed_piece(data[at:end], parsed)
            at = end
        self._unparsed = b"" if self._stopped else data[at:]
        return parsed, False, b""

    def _find_end(self, data: bytes, at: int) -> int:
        """Where the piece that begins at ``at`` ends (rule 1)."""
        if self._body_left:
            return min(at + self._body_left, len(data))
        begun = len(self._ending)
        found = (self._ending + data[at : at + len(_BLANK_LINE) - 1]).find(_BLANK_LINE)
        if begun and found >= 0:
            return at + found + len(_BLANK_LINE) - begun
        found = data.find(_BLANK_LINE, at)
        return len(data) if found < 0 else found + len(_BLANK_LINE)

    def _feed_piece(self, piece: bytes, parsed: list[_Parsed]) -> None:
        try:
            messages, upgraded, _ = self._parser.feed_data(piece)
        except (HttpProcessingError, ValueError) as error:
            self._fail(error, parsed)
            return
        ended = self._body_left > 0 or piece.endswith(_BLANK_LINE)
        self._ending = b"" if ended else (self._ending + piece)[1 - len(_BLANK_LINE) :]
        self._body_left -= min(self._body_left, len(piece))
        for message, body in messages:
            parsed.append((message, body))
            self._queued += 1
            self._body, self._chunked = body, bool(message.chunked)
            if not body.is_eof() and not self._chunked:
                self._body_left = int(find_header(message.raw_headers, b"content-length") or b"0")
        if upgraded:
            self._stopped = True
        elif self._chunked and self._body.is_eof():
            self._parser, self._chunked = self._make_parser(), False

    def _fail(self, error: Exception, parsed: list[_Parsed]) -> None:
        self._stopped = True
        status, message = explain_fault(error, self._max_header_bytes)
        if not self._body.is_eof():
            if not parsed or parsed[-1][1] is not self._body:
                self._body.set_exception(RequestPayloadError(message))
                self._on_broken_body(message)
                return
            parsed.pop()
            self._queued -= 1
        parsed.append((_ErrInfo(status=status, exc=error, message=message), EMPTY_PAYLOAD))
        self._queued += 1

    def message_consumed(self) -> None:
        """One of the requests handed out is being handled."""
        self._queued -= 1

    def pause_reading(self) -> None:
        """Nothing: the connection stops reading, and one read is parsed to its end."""


def explain_fault(error: Exception, max_header_bytes: int) -> tuple[int, str]:
    """Status and sentence for what the parser raised (rule 5)."""
    message = getattr(error, "message", "")
    if isinstance(error, LineTooLong):
        return 431, f"A header field or the target is longer than {max_header_bytes} bytes."
    if isinstance(error, BadHttpMethod):
        if message.startswith("Received HTTPS"):
            return 400, "TLS was sent to a port that speaks plain HTTP; use an http:// base URL."
        return 400, "The request does not begin with a known method."
    if isinstance(error, BadStatusLine):
        return 400, "The request line is not that of HTTP/1.1."
    if isinstance(error, InvalidURLError):
        return 400, "The request target holds what no target may hold."
    if isinstance(error, InvalidHeader) or not isinstance(error, HttpProcessingError):
        return 400, "The request's head is not valid."
    if message == "Too many headers received":
        return 431, "The request has too many header fields."
    # The parser's own words; the bytes that it points at come after a colon and a line end.
    words, _, _ = message.partition(":\n")
    return 400, f"{words.rstrip('.')}."
