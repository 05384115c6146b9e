"""Parses requests with llhttp (by httptools), and sets the limits that llhttp does not have.

A valid request is handed out even if a later byte of the same read is wrong. After the first fault
nothing more is parsed, because nobody can know where the next request begins (RFC 9112 section
11.2). Trailers are dropped with the end of their message, and never reach a head.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from proxy.downstream.request_faults import (
    BadRequest,
    asks_for_websocket,
    explain_fault,
    find_fault,
)
from proxy.headers import FRAMING, MAX_FIELDS, MAX_HEAD_FACTOR, Head
from proxy.request_body import RequestBody

MAX_PIECE_BYTES = 4 * 1024
"""How many bytes are parsed before we check whether more is wanted; a body of known length may be
parsed at once. This bounds the work and the memory that a read can cause: 680 chunks of a byte take
some 0.3 ms, 170 of the shortest requests 0.1 MB."""

MAX_WAITING_REQUESTS = 32
"""The most pipelined requests that wait behind the one being served; while that many wait, nothing
more is parsed."""

MAX_EARLY_BYTES = 16 * 1024
"""How many bytes behind a handshake are read before it is answered, and one read more. Until then
we notice that the client leaves."""

CHUNK_FRAMING_BYTES = 128
"""Bytes of framing that each chunk may have without being counted: a size, and an extension as long
as a signature."""


class Request(msgspec.Struct, frozen=True):
    """A request whose head is complete, of HTTP ``1.0`` or ``1.1``; its body is fed as it comes.

    Attributes:
        keeps_alive: another request may follow; none does behind a handshake.
        take_rest: takes what has come behind the handshake of a WebSocket; ``None`` for other
            requests. Nothing more is parsed behind a handshake.
    """

    method: str
    target: str
    version: str
    keeps_alive: bool
    head: Head
    body: RequestBody
    take_rest: Callable[[], bytes] | None = None


class RequestParser:
    """Parses one connection's requests.

    Args:
        max_header_bytes: largest field and request target.
        body_idle_seconds: see :class:`proxy.request_body.RequestBody`.
        on_room: called when a body that was full has been read.
        on_broken_body: called with a sentence when the body of a request that was already handed
            out breaks its framing.

    Attributes:
        waiting: requests and faults, the next one first.
        head_begun: some of a head has come, but not all of it.
    """

    def __init__(
        self,
        *,
        max_header_bytes: int,
        body_idle_seconds: float,
        on_room: Callable[[], None],
        on_broken_body: Callable[[str], None],
    ) -> None:
        self._max_header_bytes = max_header_bytes
        self._body_idle_seconds = body_idle_seconds
        self._on_room = on_room
        self._on_broken_body = on_broken_body
        self._parser = HttpRequestParser(self)
        self._is_stopped = False
        self._unparsed = b""
        self._target = b""
        self._fields: list[tuple[bytes, bytes]] = []
        self._head_bytes = 0  # of this head, in earlier pieces
        self._framing_bytes = 0  # of the chunked body, beyond what its chunks need
        self._body_bytes = 0  # of the body in this piece, with what its chunks need
        self._body: RequestBody | None = None  # of the last request
        self._body_left = 0  # of a body whose length is known; negative for others
        self._is_chunked = False
        self._is_fresh = False  # its head came in this read
        self._switches = False  # llhttp takes what follows its head for another protocol
        self._has_switched = False  # and so do we
        self.waiting: list[Request | BadRequest] = []
        self.head_begun = False

    @property
    def is_full(self) -> bool:
        """Whether nothing more is wanted for now."""
        body = self._body
        if self._has_switched:
            return len(self._unparsed) >= MAX_EARLY_BYTES
        if len(self.waiting) >= MAX_WAITING_REQUESTS:
            return True
        return body is not None and not body.is_whole and body.is_full

    @property
    def has_rest(self) -> bool:
        """Whether something has come that is not parsed."""
        return bool(self._unparsed)

    def feed(self, data: bytes) -> None:
        """Parse a read in pieces, as far as it is wanted; keep the rest unparsed.

        Without bytes, parse what was kept of the last read.
        """
        rest: memoryview | bytes = self._unparsed + data if self._unparsed else data
        self._is_fresh = False
        while rest and not (self._is_stopped or self._has_switched or self.is_full):
            most = max(MAX_PIECE_BYTES, self._body_left)
            if len(rest) > most:
                rest = memoryview(rest)
            rest = rest[self._feed_piece(rest[:most]) :]
        self._unparsed = b"" if self._is_stopped else bytes(rest)

    def _feed_piece(self, piece: memoryview | bytes) -> int:
        """Parse a piece; return how many of its bytes were parsed."""
        body = self._body
        was_in_chunks = self._is_chunked and body is not None and not body.is_whole
        self._body_bytes = 0
        try:
            self._parser.feed_data(piece)
        except HttpParserUpgrade as switch:
            if not self._has_switched:
                self._stay()
            return int(switch.args[0])
        except HttpParserError as error:
            ours = error.__context__  # the error that a callback raised
            fault = ours if isinstance(ours, BadRequest) else explain_fault(error, bytes(piece[:2]))
            self._fail(fault)
            return len(piece)
        if self.head_begun:
            self._head_bytes += len(piece)
            if too_much := self._check_head():
                self._fail(too_much)
        elif was_in_chunks and self._body is body:
            self._check_framing(len(piece))
        return len(piece)

    def take_rest(self) -> bytes:
        """Take what has come behind a handshake."""
        rest, self._unparsed = self._unparsed, b""
        return rest

    def expire(self) -> None:
        """Give up the head that has begun, because it took too long."""
        message = "The request's head did not come within the header timeout."
        self._fail(BadRequest(408, message, "request_timeout"))

    def stop(self) -> None:
        """Parse nothing more."""
        if not self._is_stopped:
            del self._parser  # which refers to this object
        self._is_stopped = True
        self._unparsed = b""
        self.head_begun = False

    def _fail(self, fault: BadRequest, *, breaks_body: bool = False) -> None:
        """Stop at a fault, which takes the place of the request that has it.

        A body that breaks its framing fails its reader. But if its head came in the same read, it
        never becomes a request.
        """
        self.stop()
        if self._body is not None and (breaks_body or not self._body.is_whole):
            if not self._is_fresh:
                self._body.fail(fault.message)
                self._on_broken_body(fault.message)
                return
            self.waiting.pop()
        self.waiting.append(fault)

    def _stay(self) -> None:
        """Stay with HTTP/1.1 after a request that asked for another protocol.

        We refuse or ignore the change of protocol, so that the request's body follows, and then
        another request.
        """
        lines = [b"%b: %b\r\n" % field for field in self._fields if field[0].lower() in FRAMING]
        self._parser = parser = HttpRequestParser(self)
        parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(lines))

    def _check_head(self, piece_bytes: int = 0) -> BadRequest | None:
        """Find out what a head, whole or partial, has too much of; small heads are not measured."""
        come = self._head_bytes + piece_bytes
        if come <= self._max_header_bytes and len(self._fields) <= MAX_FIELDS:
            return None
        largest = len(self._target)
        total = len(self._target) + len(self._parser.get_method()) + len(b"  HTTP/1.1\r\n\r\n")
        for name, value in self._fields:
            largest = max(largest, len(name), len(value))
            total += len(name) + len(value) + len(b": \r\n")
        if largest > (limit := self._max_header_bytes):
            return BadRequest(431, f"A header field or the target is longer than {limit} bytes.")
        if len(self._fields) > MAX_FIELDS:
            return BadRequest(431, "The request has too many header fields.")
        limit = MAX_HEAD_FACTOR * self._max_header_bytes
        # Only the second number includes an unfinished field, and the space around values.
        if total > limit or self._head_bytes > limit + MAX_PIECE_BYTES:
            return BadRequest(431, f"The request's head is longer than {limit} bytes.")
        return None

    def _check_framing(self, piece_bytes: int) -> None:
        """Check that extensions of chunks, and trailers, are not much more than the body itself."""
        surplus = self._framing_bytes + piece_bytes - self._body_bytes
        self._framing_bytes = max(0, surplus)
        if surplus > (limit := self._max_header_bytes):
            message = f"A chunk's extensions or trailers exceed {limit} bytes."
            self._fail(BadRequest(400, message), breaks_body=True)

    # httptools calls these. An error that is raised here ends its parsing.

    def on_message_begin(self) -> None:
        """Begin a head."""
        self.head_begun = True
        self._head_bytes = 0
        self._target = b""
        self._fields = []

    def on_url(self, data: bytes) -> None:
        """Add to the target."""
        self._target += data

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a field, of the head or of trailers, which are dropped."""
        self._fields.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """Hand out the request."""
        self.head_begun = False
        if self._switches:  # it has been handed out
            self._switches = False
            return
        if fault := self._check_head(MAX_PIECE_BYTES):
            raise fault
        parser = self._parser
        method = parser.get_method().decode("ascii")
        target, head = self._target.decode("ascii"), Head(self._fields)
        version = parser.get_http_version()
        if fault := find_fault(method, target, version, head):
            fault.has_body = method != "HEAD"
            raise fault
        body = RequestBody(idle_seconds=self._body_idle_seconds, on_room=self._on_room)
        self._body = body
        self._is_fresh = True
        self._framing_bytes = 0
        self._is_chunked = head.has(b"transfer-encoding")
        self._body_left = int(head.find(b"content-length") or 0)
        self._switches = parser.should_upgrade()
        keeps_alive = parser.should_keep_alive()
        take_rest = None
        if self._switches and asks_for_websocket(method, version, head):
            self._has_switched = True
            take_rest, keeps_alive = self.take_rest, False
            body.end()
        self.waiting.append(Request(method, target, version, keeps_alive, head, body, take_rest))

    def on_body(self, data: bytes) -> None:
        """Add to the body."""
        if self._body is not None:
            self._body.feed(data)
            self._body_bytes += len(data) + CHUNK_FRAMING_BYTES
            self._body_left -= len(data)

    def on_message_complete(self) -> None:
        """End the body, unless llhttp did not look for one."""
        if self._body is not None and not self._switches:
            self._body.end()
