"""The upstream's side of an exchange, on aiohttp's connector and response parser.

The connector makes connections (names, TLS, forward proxies) and keeps idle ones; requests are
written here as bytes and nothing is added, followed, retried or decompressed (R1).

Rules:

1. A request is written once. It is never sent again behind the caller's back: a connection that
   the upstream had dropped is an error that says so (``design.md`` section 6).
2. Idle connections are kept :data:`KEEP_IDLE_SECONDS` and looked at before use, so that rule 1
   bites rarely.
3. Every byte that arrived is handed out before the error that ended the body is raised.
"""

from __future__ import annotations

import asyncio
import select
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp
from aiohttp.http import HttpProcessingError, RawResponseMessage, StreamWriter
from aiohttp.web_protocol import RequestPayloadError

from proxy.errors import GatewayError
from proxy.tasks import spawn
from proxy.upstream_errors import map_upstream_errors
from telemetry.exchange import EndKind

if TYPE_CHECKING:
    import ssl

    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection
    from aiohttp.streams import StreamReader
    from yarl import URL

    from proxy.forward_proxy import ForwardProxy
    from proxy.headers import RawHeaders
    from proxy.upstreams import Upstream

__all__ = (
    "UpstreamBroken",
    "UpstreamClient",
    "UpstreamRequest",
    "UpstreamResponse",
    "UpstreamTimeouts",
)

KEEP_IDLE_SECONDS = 4.0
"""Shorter than the 5 s after which common servers (Node, uvicorn) drop idle connections."""

READ_BUFFER_BYTES = 64 * 1024
"""The most that is read ahead of a slow client; past twice of it the upstream waits."""

WRITE_BYTES = 64 * 1024
"""A body is written in pieces of this size, so that its copy in the transport stays small; a
body of one piece is written before the answer is awaited, a longer one beside it, because an
upstream may refuse it half-way."""

MAX_HEADER_FIELDS = 256
"""Fields of an answer; bounds the work that a head can cause."""


class UpstreamBroken(Exception):  # noqa: N818 - names what happened
    """The body broke off; every byte that arrived was handed out before.

    Attributes:
        end: ``UPSTREAM_BROKEN`` or ``TIMEOUT``.
    """

    def __init__(self, message: str, end: EndKind = EndKind.UPSTREAM_BROKEN) -> None:
        super().__init__(message)
        self.end = end


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTimeouts:
    """Limits in seconds; 0 means none.

    Attributes:
        connect_seconds: names, TCP, TLS and forward proxy together.
        first_byte_seconds: from the request's last byte to the answer's head.
        idle_seconds: between two reads of the body.
    """

    connect_seconds: float = 10.0
    first_byte_seconds: float = 900.0
    idle_seconds: float = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamRequest:
    """A request as it goes on the wire.

    Attributes:
        target: raw path and query.
        headers: all fields, ``Host`` and framing included.
        body: the whole body, or what was read of it so far.
        rest: reader of what follows ``body``, ``None`` where that is all.
        chunked: the body is sent in chunks.
    """

    upstream: Upstream
    method: str
    target: str
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""
    rest: StreamReader | None = None
    chunked: bool = False

    def encode_head(self, proxied: bytes | None) -> bytes:
        """The head; ``proxied`` is the authorization for a forward proxy of plain HTTP."""
        target = self.target
        if proxied is not None:
            target = f"{self.upstream.origin}{target}"
        lines = [f"{self.method} {target} HTTP/1.1".encode("utf-8", "surrogateescape")]
        lines += [b"%s: %s" % pair for pair in self.headers]
        if proxied:
            lines.append(b"Proxy-Authorization: " + proxied)
        return b"\r\n".join(lines) + b"\r\n\r\n"


class UpstreamResponse:
    """An answer whose head has been read.

    Attributes:
        status: as received.
        reason: as received; undecodable bytes as surrogates.
        headers: raw fields.
        has_body: a body follows.
    """

    def __init__(
        self,
        connection: Connection,
        message: RawResponseMessage,
        payload: StreamReader,
        *,
        has_body: bool,
        upload: asyncio.Task[None] | None,
    ) -> None:
        self._connection = connection
        self._payload = payload
        self._upload = upload
        self._pushed_back: list[bytes] = []
        self._broken: UpstreamBroken | None = None
        self.status = message.code
        self.reason = message.reason
        self.headers: RawHeaders = message.raw_headers
        self.has_body = has_body

    async def read(self) -> bytes:
        """The bytes that are there, or wait for some; empty at the end of the body.

        Raises:
            UpstreamBroken: the body broke off, after all that arrived was handed out.
        """
        if self._pushed_back:
            return self._pushed_back.pop(0)
        if self._broken is not None:
            raise self._broken
        try:
            return await self._payload.readany()
        except (aiohttp.ClientError, HttpProcessingError, OSError) as error:
            self._broken = _explain_break(error)
            if unread := _take_unread(self._payload):
                return unread
            raise self._broken from error

    async def peek(self, limit_bytes: int) -> bytes:
        """Up to ``limit_bytes`` of the body, which :meth:`read` will hand out all the same."""
        pieces: list[bytes] = []
        size = 0
        while size < limit_bytes:
            try:
                piece = await self.read()
            except UpstreamBroken:
                break
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
        self._pushed_back = [*pieces, *self._pushed_back]
        return b"".join(pieces)

    def close(self) -> None:
        """Keep the connection if both bodies went over it whole, else drop it at once."""
        uploaded = self._upload is None or self._upload.done()
        if not uploaded and self._upload is not None:
            self._upload.cancel()
        if uploaded and self._payload.is_eof() and self._broken is None:
            self._connection.release()
        else:
            _abort(self._connection)


def _explain_break(error: BaseException) -> UpstreamBroken:
    if isinstance(error, TimeoutError):
        return UpstreamBroken("no data from the upstream within the idle timeout", EndKind.TIMEOUT)
    text = str(error) or type(error).__name__
    return UpstreamBroken(f"the upstream's body broke off: {text}")


def _take_unread(payload: StreamReader) -> bytes:
    """What the reader holds: it raises its error before it hands this out (rule 3)."""
    payload._exception = None  # noqa: SLF001 - there is no public way; a test guards it
    return payload.read_nowait(-1)


class UpstreamClient:
    """Opens exchanges with upstreams over kept connections."""

    def __init__(
        self,
        *,
        tls: ssl.SSLContext,
        timeouts: UpstreamTimeouts,
        forward_proxy: ForwardProxy,
        max_header_bytes: int,
    ) -> None:
        self._tls = tls
        self._timeouts = timeouts
        self._forward_proxy = forward_proxy
        self._max_header_bytes = max_header_bytes
        self._keys: dict[URL, aiohttp.ClientRequest] = {}
        self._used: weakref.WeakSet[ResponseHandler] = weakref.WeakSet()
        # No limit of connections here: there is at most one per client connection, and those
        # are limited where they are accepted. Queueing here would be waiting nobody sees.
        self._connector = aiohttp.TCPConnector(
            limit=0, keepalive_timeout=KEEP_IDLE_SECONDS, ssl=tls
        )

    async def close(self) -> None:
        """Drop all connections."""
        await self._connector.close()

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        """Send a request and read the answer's head.

        Raises:
            GatewayError: no connection, no answer, an invalid one, or none in time; or the
                client's body broke off while it was relayed.
        """
        connection = await self._connect(request.upstream)
        sending = _Sending(connection, request, self._timeouts, self._forward_proxy)
        try:
            with map_upstream_errors(request.upstream):
                return await sending.run(self._max_header_bytes)
        except BaseException:
            sending.abort()
            if sending.client_fault is not None:
                raise sending.client_fault from None
            raise

    async def _connect(self, upstream: Upstream) -> Connection:
        key = self._keys.get(upstream.origin)
        if key is None:
            key = self._forward_proxy.connection_key(upstream.origin, self._tls)
            self._keys[upstream.origin] = key
        limit = self._timeouts.connect_seconds
        timeout = aiohttp.ClientTimeout(total=None, connect=limit, sock_connect=limit)
        with map_upstream_errors(upstream):
            while True:
                connection = await self._connector.connect(key, [], timeout)
                protocol = _protocol(connection)
                if protocol not in self._used:
                    self._used.add(protocol)
                    return connection
                if not _is_readable(connection):
                    return connection
                _abort(connection)


class _Sending:
    """One request on its way, up to the head of its answer."""

    def __init__(
        self,
        connection: Connection,
        request: UpstreamRequest,
        timeouts: UpstreamTimeouts,
        forward_proxy: ForwardProxy,
    ) -> None:
        self._connection = connection
        self._protocol = _protocol(connection)
        self._request = request
        self._timeouts = timeouts
        self._head = request.encode_head(forward_proxy.authorization(request.upstream.origin))
        self._writer = StreamWriter(self._protocol, asyncio.get_running_loop())
        self._upload: asyncio.Task[None] | None = None
        self._head_read = False
        self.client_fault: GatewayError | None = None

    async def run(self, max_header_bytes: int) -> UpstreamResponse:
        """Write the request and read the head."""
        request = self._request
        head_only = request.method == "HEAD"
        self._protocol.set_response_params(
            skip_payload=head_only,
            read_until_eof=True,
            auto_decompress=False,
            read_timeout=self._timeouts.first_byte_seconds or None,
            read_bufsize=READ_BUFFER_BYTES,
            max_line_size=max_header_bytes,
            max_field_size=max_header_bytes,
            max_headers=MAX_HEADER_FIELDS,
        )
        if request.rest is None and len(request.body) <= WRITE_BYTES:
            await self._write()
        else:
            self._upload = spawn(self._write(), name="upload")
        message, payload = await self._protocol.read()
        while 100 <= message.code < 200:
            if message.code == 101:
                raise HttpProcessingError(message="101 without having been asked to upgrade")
            message, payload = await self._protocol.read()
        self._head_read = True
        self._protocol.read_timeout = self._timeouts.idle_seconds or None
        if not payload.is_eof():
            self._protocol.start_timeout()
        return UpstreamResponse(
            self._connection,
            message,
            payload,
            has_body=not head_only and message.code not in {204, 304},
            upload=self._upload,
        )

    async def _write(self) -> None:
        """Write head and body; never raises but cancellation.

        An upstream that stops listening may have answered before: the reader finds out.
        """
        request = self._request
        try:
            await self._write_body(request)
        except RequestPayloadError as error:
            self.client_fault = GatewayError(
                400,
                "invalid_request_body",
                f"The request's body broke off or is not well framed: {error}",
                EndKind.CLIENT_GONE,
            )
            self._protocol.abort()
            self._protocol.set_exception(self.client_fault)
        except OSError:
            return
        if not self._head_read:
            self._protocol.start_timeout()

    async def _write_body(self, request: UpstreamRequest) -> None:
        writer = self._writer
        if not request.chunked and len(request.body) <= WRITE_BYTES:
            await writer.write(self._head + request.body)
        else:
            await writer.write(self._head)
            if request.chunked:
                writer.enable_chunking()
            view = memoryview(request.body)
            for start in range(0, len(view), WRITE_BYTES):
                await writer.write(view[start : start + WRITE_BYTES])
        if request.rest is not None:
            while data := await request.rest.readany():
                await writer.write(data)
        await writer.write_eof()

    def abort(self) -> None:
        """Stop at once."""
        if self._upload is not None:
            self._upload.cancel()
        _abort(self._connection)


def _protocol(connection: Connection) -> ResponseHandler:
    protocol = connection.protocol
    if protocol is None:
        raise AssertionError("only a released connection has none")
    return protocol


def _abort(connection: Connection) -> None:
    if connection.protocol is not None:
        connection.protocol.abort()
    connection.close()


def _is_readable(connection: Connection) -> bool:
    """An idle connection that can be read holds an end or junk: either way it is of no use."""
    transport = connection.transport
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None or sock.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLIN)
    return bool(poll.poll(0))
