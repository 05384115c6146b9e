"""The bytes of one answer, parsed by llhttp (httptools), sans-IO.

What came before a fault counts: head and body are handed out even if the same read has bytes that
are not valid HTTP. Bytes that follow the answer never become a part of it, and its connection is
not used again. Interim answers are skipped. A 101 is an answer if the request asked for a WebSocket
and the answer says that it follows; otherwise it is a fault. What follows its head is no HTTP.

Some servers send line feeds alone, folded fields, control characters other than NUL in values, and
spaces after the size of a chunk. We accept such an answer, because its meaning is clear.
"""

from __future__ import annotations

from typing import NamedTuple

import httptools

from proxy.headers import MAX_FIELDS, MAX_HEAD_FACTOR, Head
from proxy.upstream.errors import InvalidAnswerError

MAX_INTERIM_ANSWERS = 16
"""The most 1xx heads before the answer's head; real servers send one or two."""

_LEAST_HEAD_BYTES = len(b"HTTP/1.1 200 \r\n\r\n")
_LEAST_FIELD_BYTES = len(b": \r\n")


class AnswerHead(NamedTuple):
    """The head of an answer: see :class:`proxy.upstream.response.UpstreamResponse`."""

    status: int
    reason: str
    headers: Head
    has_body: bool
    is_framed: bool


class AnswerParser:
    """Parses one answer.

    Args:
        max_header_bytes: the largest field, its name and value together.
        head_only: the answer to the request has no body.
        may_switch: the request asks for a WebSocket.

    Attributes:
        early: if the answer is 101, what came with its head, of the other protocol.
        keeps_connection: another request may follow on the same connection.
        fault: why nothing more of the answer can be parsed.
    """

    def __init__(self, max_header_bytes: int, *, head_only: bool, may_switch: bool = False) -> None:
        self.head: AnswerHead | None = None
        self.early = b""
        self._may_switch = may_switch
        self.is_over = False
        self.keeps_connection = False
        self.fault: InvalidAnswerError | None = None
        self._max_header_bytes = max_header_bytes
        self._max_head_bytes = MAX_HEAD_FACTOR * max_header_bytes
        self._head_only = head_only
        self._interim_count = 0
        self._reason = b""
        self._fields: list[tuple[bytes, bytes]] = []
        self._bytes_without_body = 0
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )

    def feed(self, data: bytes) -> bytes:
        """Parse a read of an answer that is not over and has no fault; return its part of the body.

        Bytes without any of the body, such as trailers and extensions of chunks, are bounded too.
        """
        self._bytes_without_body += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as switch:
            self.early = data[int(switch.args[0]) :]
        except httptools.HttpParserError as error:
            self.keeps_connection = False
            if not self.is_over:
                self.fault = _explain(error)
        pieces = self._pieces
        if not pieces:
            is_much = self._bytes_without_body > self._max_head_bytes
            if is_much and self.fault is None and not self.is_over:
                self.fault = InvalidAnswerError("too much that is not in its body")
            return b""
        self._bytes_without_body = 0
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        if self.head is None or not self.head.has_body:
            self.keeps_connection = False  # no body was due: these bytes follow the answer
            return b""
        return body

    def close(self) -> None:
        """Drop llhttp, which refers to this object, so that both go without garbage collection."""
        del self._parser

    # The parser calls these.

    def on_message_begin(self) -> None:
        """Begin a head: of an interim answer, or of the answer."""
        if self.is_over:
            raise InvalidAnswerError("more than one answer")
        self._reason = b""
        self._fields = []

    def on_status(self, reason: bytes) -> None:
        """Add to the reason."""
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a field, of the head or of trailers, which are dropped."""
        self._fields.append((name, value))

    def _read_fields(self) -> Head:
        """Return the fields; a head is bounded as a whole, by their number, and field by field."""
        sizes = [len(name) + len(value) for name, value in self._fields]
        head_bytes = _LEAST_HEAD_BYTES + len(self._reason) + sum(sizes)
        head_bytes += len(sizes) * _LEAST_FIELD_BYTES
        if max(len(self._reason), *sizes, 0) > self._max_header_bytes:
            raise InvalidAnswerError("a field is too long")
        if len(sizes) > MAX_FIELDS:
            raise InvalidAnswerError("too many fields")
        if head_bytes > self._max_head_bytes:
            raise InvalidAnswerError("the head is too long")
        fields = [(name, value.rstrip(b" \t")) for name, value in self._fields]
        if b"\0" in b"".join([value for _, value in fields]):
            raise InvalidAnswerError("a NUL in a field")
        return Head(fields)

    def on_headers_complete(self) -> None:
        """End a head."""
        self._bytes_without_body = 0
        status, headers = self._parser.get_status_code(), self._read_fields()
        if status == 101 and self._may_switch:
            if not _names_websocket(headers):
                raise InvalidAnswerError("101 without the protocol that was asked for")
            reason = self._reason.decode("utf-8", "surrogateescape")
            self.head = AnswerHead(status, reason, headers, has_body=False, is_framed=True)
            self.is_over = True
            return
        if 100 <= status < 200:
            self._interim_count += 1
            if status == 101:
                raise InvalidAnswerError("101 without having been asked to upgrade")
            if self._interim_count > MAX_INTERIM_ANSWERS:
                raise InvalidAnswerError("too many interim answers")
            return
        is_chunked = _is_chunked(headers)
        has_body = not self._head_only and status not in {204, 304}
        self.head = AnswerHead(
            status,
            self._reason.decode("utf-8", "surrogateescape"),
            headers,
            has_body,
            is_framed=is_chunked or headers.has(b"content-length") or not has_body,
        )
        self.is_over = self._head_only
        # After a head without a body, the parser reports a body, but not the end of chunks.
        is_sure = not (self._head_only and is_chunked)
        self.keeps_connection = is_sure and self._parser.should_keep_alive()

    def on_message_complete(self) -> None:
        """End an answer, or drop the body of an interim one."""
        if self.head is None:
            self._pieces.clear()
        else:
            self.is_over = True


def _names_websocket(headers: Head) -> bool:
    """Tell whether a 101 says that a WebSocket follows, as it must (RFC 9110 section 15.2.2)."""
    is_upgrade = b"upgrade" in headers.options(b"connection")
    return is_upgrade and headers.options(b"upgrade") == {b"websocket"}


def _is_chunked(headers: Head) -> bool:
    """Tell whether the end of the chunks is the end of the body.

    If ``chunked`` is not the last coding, nobody can know which bytes are the body (RFC 9112
    section 6.3), and the client might see another body than we do: the answer is refused.
    """
    if not headers.has(b"transfer-encoding"):
        return False
    codings = (headers.join(b"transfer-encoding") or b"").lower()
    is_chunked = b"chunked" in codings
    if is_chunked and codings.rpartition(b",")[2].strip() != b"chunked":
        raise InvalidAnswerError("chunks are not its last transfer coding")
    return is_chunked


def _explain(error: httptools.HttpParserError) -> InvalidAnswerError:
    found = error.__context__
    return found if isinstance(found, InvalidAnswerError) else InvalidAnswerError(str(error))
