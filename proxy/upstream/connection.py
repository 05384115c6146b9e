"""One connection to an upstream: requests out, answers in, one after the other.

Bytes that an upstream sends unasked are never taken for an answer: they end the connection. If an
upstream reads nothing of a request and has not begun to answer, the request fails.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from proxy.stall_watch import StallWatch
from proxy.upstream.answer_parser import AnswerParser
from proxy.upstream.client_certificate import wants_certificate
from proxy.upstream.errors import (
    UpstreamClosedError,
    UpstreamSilentError,
    UpstreamStalledError,
    UpstreamWantsCertificateError,
)
from proxy.upstream.response import UpstreamResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.errors import GatewayError
    from proxy.upstream.errors import UpstreamError


class UpstreamConnection(asyncio.Protocol):
    """Sends one request at a time, and reads its answer.

    Args:
        keep: keeps this connection between two exchanges.
        open_connections: the set that it is in as long as it is open.
        max_header_bytes: the largest field of an answer.
        stall_seconds: how long the upstream may read nothing of a request (0: for ever).
    """

    transport: asyncio.Transport

    def __init__(
        self,
        keep: Callable[[UpstreamConnection], None],
        open_connections: set[UpstreamConnection],
        *,
        max_header_bytes: int,
        stall_seconds: float,
    ) -> None:
        self._keep = keep
        self._open_connections = open_connections
        self._max_header_bytes = max_header_bytes
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._parser: AnswerParser | None = None  # while an answer is on its way
        self._head: asyncio.Future[UpstreamResponse] | None = None  # while its head is awaited
        self._response: UpstreamResponse | None = None  # while its body is read
        self._keeps = False
        self._early: bytearray | None = None  # of another protocol, once the upstream has switched
        self._writable: asyncio.Future[None] | None = None  # while too much waits to be sent
        self._is_paused = False
        self._limit_seconds = 0.0
        self._last_read = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self._stall_watch = StallWatch(stall_seconds, self._give_up_stalled)

    # The exchange.

    def begin(
        self, *, head_only: bool, may_switch: bool = False
    ) -> asyncio.Future[UpstreamResponse]:
        """Return a future: the answer to the request that is written next, once its head has come.

        `may_switch` means that the request asks for another protocol.

        Raises:
            UpstreamClosedError: the connection is gone already.
        """
        if self.transport.is_closing():
            raise UpstreamClosedError
        self._parser = AnswerParser(
            self._max_header_bytes, head_only=head_only, may_switch=may_switch
        )
        self._keeps = False
        self._head = self._loop.create_future()
        return self._head

    def end(self, *, is_whole: bool) -> None:
        """End the exchange; keep the connection if both bodies went over it whole."""
        self._head = self._response = None
        self._limit_seconds = 0.0
        if not is_whole:
            self.abort()
        elif self._keeps:
            self.resume_reading()
            self._keep(self)
        else:
            self.transport.close()

    async def switch(self) -> tuple[asyncio.Transport, bytes]:
        """Hand the connection over after a 101, with what has come of the other protocol.

        Its reading is paused, and its buffer has room: asyncio says only once that it is full.
        Whoever takes it passes on that it is full, or gone.
        """
        if self._writable is not None:
            await self._writable
        early, self._early = self._early or bytearray(), bytearray()
        self._head = self._response = None
        return self.transport, bytes(early)

    def abort(self) -> None:
        """Drop the connection at once, with everything that has not been sent."""
        self._parser = None
        self.transport.abort()

    def fail(self, error: UpstreamError | GatewayError) -> None:
        """Fail the wait for the head, or the body; bytes that come after this are dropped.

        A `GatewayError` means that the client's request could not be sent whole.
        """
        self._parser = None
        if self._response is not None:
            self._response.end(error)
        elif self._head is not None and not self._head.done():
            self._head.set_exception(error)

    # Time.

    def watch(self, limit_seconds: float) -> None:
        """Fail after some seconds (0: never) without any of the body.

        An upstream that sends bytes, but no body (endless extensions of a chunk, trailers),
        counts as silent.
        """
        self._limit_seconds = limit_seconds
        if limit_seconds and self._parser is not None:
            self._last_read = self._now()
            until = self._last_read + limit_seconds
            if self._watch is not None and self._watch.when() > until:
                self._stop_watch()
            if self._watch is None:
                self._watch = self._loop.call_at(until, self._look)

    def _stop_watch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _look(self) -> None:
        """Fail if the last read was too long ago, else look again later.

        There is one timer, which is not set again at every read or for every request. While we hold
        the upstream back for a slow client, it does not count as silent.
        """
        self._watch = None
        if not self._limit_seconds or self._parser is None:
            return
        now = self._now()
        if self._is_paused:
            self._last_read = now
        left = self._last_read + self._limit_seconds - now
        if left > 0:
            self._watch = self._loop.call_later(left, self._look)
        else:
            self.fail(UpstreamSilentError())

    def _give_up_stalled(self) -> None:
        if self._early is not None:
            self.transport.abort()
        elif self._response is None:
            self.fail(UpstreamStalledError())

    # Writing.

    async def write(self, data: bytes | memoryview) -> None:
        """Write, and wait while the buffer has more than it should.

        Raises:
            UpstreamClosedError: the connection is gone.
        """
        if self.transport.is_closing():
            raise UpstreamClosedError
        self.transport.write(data)
        if self._writable is not None:
            await self._writable

    def pause_writing(self) -> None:
        """Stop writing, because the buffer has more of the request than it should."""
        self._writable = self._loop.create_future()
        self._stall_watch.begin(self.transport)

    def resume_writing(self) -> None:
        """Continue to write, because there is room again."""
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    # Reading.

    def pause_reading(self) -> None:
        """Stop reading, because the body's reader has enough.

        The parser is not paused: what was read already, 256 KiB at most, is parsed.
        """
        if not (self._is_paused or self.transport.is_closing()):
            self._is_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Continue to read, because the body's reader wants more."""
        if self._is_paused and not self.transport.is_closing():
            self._is_paused = False
            self._last_read = self._now()
            self.transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast("asyncio.Transport", transport)  # TCP sockets have this kind
        self._open_connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Parse a read, which usually is an event of a stream."""
        parser = self._parser
        if parser is None:
            if self._early is None:
                self.abort()  # nobody asked
            else:
                self._early += data
            return
        body = parser.feed(data)
        response = self._response
        if response is None and parser.head is not None:
            response = self._response = UpstreamResponse(self, parser.head)
            if self._head is not None and not self._head.done():
                self._head.set_result(response)
        if body and response is not None:
            self._last_read = self._now()
            response.feed(body)
        if parser.fault is not None:
            self.fail(parser.fault)
        elif parser.is_over and response is not None:
            self._parser = None
            if response.status == 101:
                self._early = bytearray(parser.early)
                self.pause_reading()
            self._keeps = parser.keeps_connection
            parser.close()
            response.end()

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the answer, or fail it: a reset does not end a body that has no length."""
        self._open_connections.discard(self)
        self._stop_watch()
        self._stall_watch.stop()
        self.resume_writing()
        parser, self._parser = self._parser, None
        if parser is None:
            return
        is_framed = parser.head is None or parser.head.is_framed
        if exc is None and not is_framed and self._response is not None:
            self._response.end()
        elif wants_certificate(exc):
            self.fail(UpstreamWantsCertificateError(str(exc)))
        elif exc is None or is_framed:
            self.fail(UpstreamClosedError())
        else:
            self.fail(UpstreamClosedError(str(exc) or type(exc).__name__))
