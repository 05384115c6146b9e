"""The client's side of an exchange, on aiohttp's low-level server.

aiohttp parses requests and keeps connections; heads and bodies of answers are written here, as
bytes, because aiohttp's own responses add, fold and re-encode fields (R1).

Rules:

1. Nothing is added to a relayed head but what frames this hop.
2. A client that closes, resets or half-closes its connection cancels the handler at once.
3. A broken end is never a clean one: chunked and counted bodies just stop; a body that only the
   end of the connection delimits is cut by a reset, after all its bytes were acknowledged.
4. What is no valid HTTP is answered with an OpenAI-shaped 4xx, closed, counted, and told in a
   rate-limited log line (R3); it never reaches a handler. A body that breaks its framing after
   its request did is answered by the handler, and counted and told likewise.
5. An answer after which we close is read by the client first: our side is closed, and what still
   comes is read and dropped for a while, as a reset would take the answer from the client.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import socket
import struct
import termios
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.http import HttpVersion11
from aiohttp.web_protocol import RequestHandler, RequestPayloadError

from proxy.errors import encode_error
from proxy.headers import RawHeaders, field_options, find_header, response_headers
from proxy.request_faults import find_request_fault
from proxy.request_parser import RequestParser

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp.streams import StreamReader

    from proxy.rate_limit import RateLimit

__all__ = ("Answered", "Downstream", "DownstreamServer")

_log = logging.getLogger("spantap.downstream")

MAX_RESET_WAIT_SECONDS = 2.0
"""How long a cut waits for the client to acknowledge what came before it (rule 3)."""

MAX_LINGER_SECONDS = 10.0
"""How long the rest of a request is read and dropped after its answer (rule 5)."""


class Answered(web.StreamResponse):
    """Tells aiohttp's connection loop that the answer is on the wire already."""

    def __init__(self, *, keeps_alive: bool) -> None:
        super().__init__()
        self._keeps_alive = keeps_alive

    @property
    def keep_alive(self) -> bool:
        """Whether the connection serves another request."""
        return self._keeps_alive

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write nothing."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Write nothing."""


class _LastAnswer(Answered):
    """An answer of ours after which the connection ends (rule 5)."""

    def __init__(self, data: bytes = b"") -> None:
        super().__init__(keeps_alive=False)
        self._data = data

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write what is not written yet, and linger."""
        if self._data:
            await request.writer.write(self._data)
        if isinstance(request.protocol, _Connection):
            await request.protocol.linger()


class _Connection(RequestHandler):
    """One client connection; see the rules of this module."""

    __slots__ = ("_server",)

    def __init__(
        self, server: DownstreamServer, loop: asyncio.AbstractEventLoop, **options: Any
    ) -> None:
        super().__init__(server, loop=loop, **options)
        self._server = server
        # Takes the place of the one that the base class made, which is fed whole reads.
        self._parser = RequestParser(  # type: ignore[assignment]
            self,
            loop,
            max_header_bytes=self.max_field_size,
            max_fields=self.max_headers,
            read_buffer_bytes=self._read_bufsize,
            on_broken_body=server.count_refused,
        )

    def log_exception(self, *args: Any, **kwargs: Any) -> None:
        """A body that breaks while it is dropped after its answer was told already (rule 4)."""
        if not isinstance(kwargs.get("exc_info"), RequestPayloadError):
            super().log_exception(*args, **kwargs)

    def eof_received(self) -> None:
        """A half-close counts as leaving, even while bytes wait to be written (rule 2)."""
        if self._current_request is not None and self.transport is not None:
            # Closing would first wait for these bytes to be read.
            self.transport.abort()

    def close(self) -> None:
        """Serve no further request; the base class would leave an idle connection open, unread."""
        is_idle = self._waiter is not None and not self._waiter.done()
        super().close()
        if is_idle and self.transport is not None:
            self.transport.close()

    async def linger(self) -> None:
        """Close our side, and drop what comes until the client has closed its own (rule 5)."""
        self._close = True  # from here on the base class drops what it reads
        self._lingering_time = 0.0
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        transport.write_eof()
        transport.resume_reading()
        # The client's close ends the connection, and with it this task.
        await asyncio.sleep(MAX_LINGER_SECONDS)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what is no valid HTTP (rule 4), or to a fault of the handler's."""
        if isinstance(exc, ConnectionError):
            raise exc
        if status < 500:
            return self.refuse(request, status, "invalid_http_request", message or "Bad request.")
        _log.error("a request could not be handled", exc_info=exc)
        if request.writer.output_size > 0:
            _reset(request.transport)
            raise ConnectionError("the answer has begun already")
        return _LastAnswer(encode_error(status, "internal_error", "spantap failed; see its log."))

    def refuse(
        self, request: web.BaseRequest, status: int, code: str, message: str
    ) -> web.StreamResponse:
        """Count and log a request that never becomes an exchange, and answer it."""
        self._server.count_refused(message)
        has_body = request.method != "HEAD"
        return _LastAnswer(encode_error(status, code, message, has_body=has_body))


class DownstreamServer(web.Server):
    """The listening side: ``loop.create_server(DownstreamServer(handler, ...))``.

    Args:
        handler: called for each valid request.
        max_header_bytes: largest field and request line.
        refusals: rate limit of the log line about invalid requests.
    """

    MAX_HEADER_FIELDS = 256
    """More than any real client sends; bounds the work that a head can cause."""

    READ_BUFFER_BYTES = 64 * 1024
    """The most that is read ahead of a request's body; past it the client waits."""

    def __init__(
        self,
        handler: Callable[[Downstream], Awaitable[web.StreamResponse]],
        *,
        max_header_bytes: int,
        refusals: RateLimit,
    ) -> None:
        self._connection_options: dict[str, Any] = {
            "access_log": None,
            "auto_decompress": False,
            "keepalive_timeout": 75.0,
            "lingering_time": MAX_LINGER_SECONDS,
            "max_field_size": max_header_bytes,
            "max_headers": self.MAX_HEADER_FIELDS,
            "max_line_size": max_header_bytes,
            "read_bufsize": self.READ_BUFFER_BYTES,
        }
        super().__init__(self._serve, handler_cancellation=True)
        self._handler = handler
        self._refusals = refusals
        self.refused_count = 0
        self.closing = False

    def __call__(self) -> RequestHandler:
        """One protocol for one new connection."""
        return _Connection(self, loop=self._loop, **self._connection_options)

    def count_refused(self, message: str) -> None:
        """Note a request that was refused before it became an exchange."""
        self.refused_count += 1
        if (suppressed := self._refusals.admit()) is not None:
            more = f" ({suppressed} more since the last such line)" if suppressed else ""
            _log.warning("refused a request: %s%s", message, more)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        fault = find_request_fault(
            request.method, request.raw_path, request.version, request.raw_headers
        )
        if fault is not None:
            connection = request.protocol
            if not isinstance(connection, _Connection):
                raise AssertionError("__call__ makes no other")
            return connection.refuse(request, *fault)
        return await self._handler(Downstream(request, closing=self.closing))


class Downstream:
    """One request's client: what it sent, and how it is answered.

    Attributes:
        method: as sent.
        target: raw path and query, undecodable bytes as surrogates.
        headers: raw fields.
        body: reader of the request's body.
    """

    def __init__(self, request: web.BaseRequest, *, closing: bool) -> None:
        self._request = request
        self._writer = request.writer
        self._closing = closing
        self._must_reset = False
        self._head_sent = False
        self._keeps_alive = request.keep_alive and not closing
        self.method = request.method
        self.target = request.raw_path
        self.headers: RawHeaders = request.raw_headers
        self.body: StreamReader = request.content

    @property
    def head_sent(self) -> bool:
        """Whether the answer has begun."""
        return self._head_sent

    @property
    def path(self) -> str:
        """The raw path without the query."""
        return self.target.partition("?")[0]

    async def continue_if_expected(self) -> None:
        """Answer ``Expect: 100-continue``, as the body is read before it is relayed."""
        expect = find_header(self.headers, b"expect")
        if (
            expect is not None
            and expect.lower() == b"100-continue"
            and self._request.version >= HttpVersion11
        ):
            await self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def send_head(
        self,
        status: int,
        reason: str,
        headers: RawHeaders,
        *,
        has_body: bool,
        keeps_length: bool = True,
    ) -> None:
        """Relay an answer's head.

        Args:
            status: as received.
            reason: as received; undecodable bytes as surrogates.
            headers: the upstream's raw fields.
            has_body: a body follows (not for HEAD, 204 and 304).
            keeps_length: the upstream's ``Content-Length`` still holds.

        Raises:
            ConnectionError: the client is gone.
        """
        counted = keeps_length and find_header(headers, b"content-length") is not None
        chunked = has_body and not counted and self._request.version >= HttpVersion11
        if has_body and not counted and not chunked:
            self._must_reset = True
            self._keeps_alive = False
        was_chunked = b"chunked" in field_options(headers, b"transfer-encoding")
        keeps_chunked = chunked or not has_body
        fields = response_headers(headers, keeps_length=keeps_length, keeps_chunked=keeps_chunked)
        if chunked and not was_chunked:
            fields.append((b"Transfer-Encoding", b"chunked"))
        if not self._keeps_alive:
            fields.append((b"Connection", b"close"))
        elif self._request.version < HttpVersion11:
            fields.append((b"Connection", b"keep-alive"))
        head = [b"HTTP/1.1 %d %s" % (status, reason.encode("utf-8", "surrogateescape"))]
        head += [b"%s: %s" % pair for pair in fields]
        self._head_sent = True
        await self._writer.write(b"\r\n".join(head) + b"\r\n\r\n")
        if chunked:
            self._writer.enable_chunking()

    async def send(self, data: bytes) -> None:
        """Relay bytes of the body, and wait while the client is slow (backpressure).

        Raises:
            ConnectionError: the client is gone.
        """
        await self._writer.write(data)

    async def finish(self) -> web.StreamResponse:
        """End the answer cleanly."""
        await self._writer.write_eof()
        return Answered(keeps_alive=self._keeps_alive)

    async def answer_error(self, status: int, code: str, message: str) -> web.StreamResponse:
        """Send an answer of ours, whole.

        The connection ends after it: the request's body may not have been read.
        """
        self._head_sent = True
        has_body = self.method != "HEAD"
        await self._writer.write(encode_error(status, code, message, has_body=has_body))
        return _LastAnswer()

    async def cut(self) -> web.StreamResponse:
        """End the answer broken, after every byte of it was sent (rule 3)."""
        transport = self._request.transport
        if transport is not None:
            if self._must_reset:
                await self._reset_when_acknowledged(transport)
            transport.close()
        return Answered(keeps_alive=False)

    async def _reset_when_acknowledged(self, transport: asyncio.Transport) -> None:
        try:
            async with asyncio.timeout(MAX_RESET_WAIT_SECONDS):
                # Not by awaiting the writer: a cancelled write leaves it in a state that raises.
                while _has_unread(transport):  # noqa: ASYNC110 - the kernel tells nobody
                    await asyncio.sleep(0.005)
        except TimeoutError:
            pass  # the client does not read: nothing more can be done for it
        _reset(transport)


def _reset(transport: asyncio.Transport | None) -> None:
    """End a connection with RST, which no client takes for a clean end."""
    if transport is not None and not transport.is_closing():
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


def _has_unread(transport: asyncio.Transport) -> bool:
    """Whether bytes wait here or in the kernel's send queue (SIOCOUTQ of tcp(7))."""
    if transport.is_closing():
        return False
    if transport.get_write_buffer_size():
        return True
    sock = transport.get_extra_info("socket")
    answer = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
    return int(struct.unpack("i", answer)[0]) > 0
