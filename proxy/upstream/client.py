"""The upstream's side of an exchange, up to the head of the answer.

aiohttp's connector makes connections (names, TLS, forward proxies) and keeps idle ones; requests
are written here as bytes and nothing is added, followed, retried or decompressed (R1).

Rules:

1. A request is written once. It is never sent again behind the caller's back: a connection that
   the upstream had dropped is an error that says so (``design.md`` section 6).
2. A connection that a request did not go over whole is never used again: the next request would
   be taken for the rest of this one.
3. The time to the first byte counts from the request's last byte, and interim answers, of which
   there may be :data:`MAX_INTERIM_ANSWERS`, do not extend it. While the request is on its way,
   the upstream may take its time over it, but not take nothing for ever.
4. A large body keeps nobody waiting: after :data:`TURN_BYTES` the loop has its turn, and no copy
   of the whole is made.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import aiohttp
import msgspec
from aiohttp.http import HttpProcessingError, RawResponseMessage, StreamWriter

from proxy.clock import Clock, SystemClock
from proxy.errors import GatewayError
from proxy.logging.logs import limit_lines, log_limited
from proxy.request_body import RequestBody
from proxy.tasks import spawn
from proxy.upstream.connection import UpstreamConnector, get_protocol
from proxy.upstream.errors import UPSTREAM_ERRORS, ForwardProxyError, explain_upstream_error
from proxy.upstream.idle_connections import abort_connection
from proxy.upstream.response import UpstreamResponse
from proxy.upstream.routes import Upstream

if TYPE_CHECKING:
    import ssl

    from aiohttp.connector import Connection
    from aiohttp.streams import StreamReader

    from proxy.upstream.forward_proxy import ForwardProxy
    from telemetry.rate_limit import RateLimit

__all__ = (
    "UpstreamClient",
    "UpstreamRequest",
    "UpstreamTimeouts",
)

_log = logging.getLogger("spantap.upstream")

READ_BUFFER_BYTES = 64 * 1024
"""The most that is read ahead of a slow client; past twice of it the upstream waits."""

WRITE_BYTES = 64 * 1024
"""A body is written in pieces of this size, so that its copy in the transport stays small; a
body of one piece is written before the answer is awaited, a longer one beside it, because an
upstream may refuse it half-way."""

TURN_BYTES = 4 * WRITE_BYTES
"""Of a body written before others have their turn, some 0.2 ms: a kernel that has room takes 20 MB
without ever making us wait."""

MAX_INTERIM_ANSWERS = 16
"""1xx heads before the answer's; real servers send one or two."""

MAX_HEADER_FIELDS = 256
"""Fields of an answer; bounds the work that a head can cause."""

MAX_HEAD_FACTOR = 4
"""Largest head of an answer as a whole, in largest fields; as much as we take of a client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTimeouts:
    """Limits in seconds; 0 means none.

    Attributes:
        connect_seconds: names, TCP, TLS and forward proxy together.
        first_byte_seconds: from the request's last byte to the answer's head.
        idle_seconds: between two reads of the body.
        stall_seconds: how long the upstream may take nothing of the request.
    """

    connect_seconds: float = 10.0
    first_byte_seconds: float = 900.0
    idle_seconds: float = 900.0
    stall_seconds: float = 900.0


class UpstreamRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it goes on the wire.

    Attributes:
        target: raw path and query.
        headers: all fields, ``Host`` and framing included.
        body: the whole body, or what was read of it so far.
        more: parts that follow ``body``.
        rest: reader of what follows them, ``None`` where that is all.
        chunked: the body is sent in chunks.
    """

    upstream: Upstream
    method: str
    target: str
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""
    more: tuple[bytes | memoryview, ...] = ()
    rest: RequestBody | None = None
    chunked: bool = False

    def encode_head(self, proxied: bytes | None) -> bytes:
        """The head; ``proxied`` is the authorization for a forward proxy of plain HTTP."""
        target = self.target
        if proxied is not None:
            target = f"{self.upstream.origin}{target}"
        lines = [f"{self.method} {target} HTTP/1.1".encode("utf-8", "surrogateescape")]
        lines += map(b": ".join, self.headers)
        if proxied:
            lines.append(b"Proxy-Authorization: " + proxied)
        return b"\r\n".join(lines) + b"\r\n\r\n"


class UpstreamClient:
    """Opens exchanges with upstreams over kept connections."""

    def __init__(
        self,
        *,
        tls: ssl.SSLContext,
        timeouts: UpstreamTimeouts,
        forward_proxy: ForwardProxy,
        max_header_bytes: int,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._failure_lines: dict[str, RateLimit] = {}
        self.failure_count = 0
        self._tls = tls
        self._timeouts = timeouts
        self._forward_proxy = forward_proxy
        self._answer_limits: dict[str, int] = {
            "max_head_bytes": MAX_HEAD_FACTOR * max_header_bytes,
            "read_bufsize": READ_BUFFER_BYTES,
            "max_line_size": max_header_bytes,
            "max_field_size": max_header_bytes,
            "max_headers": MAX_HEADER_FIELDS,
        }
        self._ways: dict[str, _Way] = {}  # by the name of the upstream
        self._connector = UpstreamConnector(tls=tls, connect_seconds=timeouts.connect_seconds)

    async def close(self) -> None:
        """Drop all connections."""
        await self._connector.close()

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        """Send a request and read the answer's head.

        Raises:
            GatewayError: no connection, no answer, an invalid one, or none in time; or the
                client's body broke off, or did not go on, while it was relayed.
        """
        way = self._ways.get(request.upstream.name) or self._find_way(request.upstream)
        try:
            connection = await self._connect(way)
            sending = _Sending(connection, request, self._timeouts, way.authorization)
            try:
                return await sending.run(self._answer_limits)
            except BaseException:
                sending.abort()
                if sending.client_fault is not None:
                    raise sending.client_fault from None
                raise
        except GatewayError:
            raise  # it is the client's failure
        except UPSTREAM_ERRORS as error:
            told = explain_upstream_error(request.upstream, error)
            self._note_failure(request.upstream, told)
            raise told from error

    def _find_way(self, upstream: Upstream) -> _Way:
        proxy, origin = self._forward_proxy, upstream.origin
        way = _Way(proxy.connection_key(origin, self._tls), proxy.authorization(origin))
        self._ways[upstream.name] = way
        return way

    def _note_failure(self, upstream: Upstream, error: GatewayError) -> None:
        self.failure_count += 1
        lines = self._failure_lines.setdefault(upstream.name, limit_lines(self._clock))
        log_limited(_log, lines, error.message)

    async def _connect(self, way: _Way) -> Connection:
        try:
            return await self._connector.open(way.key)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            # Nobody else is talked to before there is a connection.
            raise ForwardProxyError from error


class _Way(NamedTuple):
    """To an upstream.

    Attributes:
        key: what the connector knows it by.
        authorization: see :meth:`proxy.upstream.forward_proxy.ForwardProxy.authorization`.
    """

    key: aiohttp.ClientRequest
    authorization: bytes | None


class _Sending:
    """One request on its way, up to the head of its answer."""

    def __init__(
        self,
        connection: Connection,
        request: UpstreamRequest,
        timeouts: UpstreamTimeouts,
        authorization: bytes | None,
    ) -> None:
        self._connection = connection
        self._protocol = get_protocol(connection)
        self._request = request
        self._timeouts = timeouts
        self._head = request.encode_head(authorization)
        self._upload: asyncio.Task[None] | None = None
        self._head_read = False
        self.client_fault: GatewayError | None = None

    async def run(self, limits: dict[str, int]) -> UpstreamResponse:
        """Write the request and read the head."""
        request = self._request
        head_only = request.method == "HEAD"
        self._protocol.begin(
            stall_seconds=self._timeouts.stall_seconds,
            skip_payload=head_only,
            read_until_eof=True,
            auto_decompress=False,
            **limits,
        )
        is_large = request.more or len(request.body) > WRITE_BYTES
        if request.rest is None and not is_large and not request.chunked:
            self._write_whole()
        else:
            self._upload = spawn(self._write(), name="upload")
        message, payload = await self._protocol.read()
        if 100 <= message.code < 200:
            message, payload = await self._pass_interim(message)
        self._head_read = True
        self._protocol.watch(0 if payload.is_eof() else self._timeouts.idle_seconds, extends=True)
        return UpstreamResponse(
            self._connection,
            message,
            payload,
            has_body=not head_only and message.code not in {204, 304},
            upload=self._upload,
        )

    async def _pass_interim(
        self, message: RawResponseMessage
    ) -> tuple[RawResponseMessage, StreamReader]:
        """The head of the answer, after the interim ones, of which there is one (rule 3)."""
        for _ in range(MAX_INTERIM_ANSWERS):
            if message.code == 101:
                raise HttpProcessingError(message="101 without having been asked to upgrade")
            message, payload = await self._protocol.read()
            if not 100 <= message.code < 200:
                return message, payload
        raise HttpProcessingError(message="too many interim answers")

    def _write_whole(self) -> None:
        """Write head and body at once; never raises, as :meth:`_write`."""
        transport = self._protocol.transport
        if transport is None or transport.is_closing():
            self._protocol.force_close()  # rule 2
            return
        transport.write(self._head + self._request.body)
        self._protocol.watch(self._timeouts.first_byte_seconds)

    async def _write(self) -> None:
        """Write head and body; never raises but cancellation.

        An upstream that stops listening may have answered before: the reader finds out.
        """
        request = self._request
        try:
            await self._write_body(request)
        except GatewayError as error:
            self.client_fault = error
            # An answer that has begun already breaks off, too.
            self._protocol.set_exception(aiohttp.ClientError("the request's body broke off"))
            self._protocol.abort()
        except OSError:
            self._protocol.force_close()  # rule 2
            return
        if not self._head_read:
            self._protocol.watch(self._timeouts.first_byte_seconds)

    async def _write_body(self, request: UpstreamRequest) -> None:
        writer = StreamWriter(self._protocol, asyncio.get_running_loop())
        await writer.write(self._head)
        if request.chunked:
            writer.enable_chunking()
        written_bytes = 0
        for part in (request.body, *request.more):
            view = memoryview(part)
            for start in range(0, len(view), WRITE_BYTES):
                if written_bytes >= TURN_BYTES:
                    await asyncio.sleep(0)  # rule 4
                    written_bytes = 0
                piece = view[start : start + WRITE_BYTES]
                await writer.write(piece)
                written_bytes += len(piece)
        if request.rest is not None:
            while data := await request.rest.readany():
                await writer.write(data)
        await writer.write_eof()

    def abort(self) -> None:
        """Stop at once."""
        if self._upload is not None:
            self._upload.cancel()
        abort_connection(self._connection)
