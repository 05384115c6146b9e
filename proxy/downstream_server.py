"""The listening side, on aiohttp's low-level server: it parses requests and keeps connections.

The rules are those of :mod:`proxy.downstream`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

from aiohttp.web_protocol import RequestHandler, RequestPayloadError
from aiohttp.web_server import Server

from proxy.clock import Clock, SystemClock
from proxy.downstream import Answered, Downstream, LastAnswer, half_close, reset
from proxy.errors import encode_error
from proxy.headers import Head
from proxy.limits import DownstreamLimits
from proxy.logs import limit_lines
from proxy.overflow import MAX_TURNED_AWAY, Overflow
from proxy.readable import has_unread
from proxy.request_faults import find_http_fault
from proxy.request_parser import RequestParser
from proxy.stall_watch import StallWatch, count_buffered

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web

    from telemetry.rate_limit import RateLimit

__all__ = ("DownstreamServer",)

_log = logging.getLogger("spantap.downstream")

MAX_LINGER_SECONDS = 10.0
"""How long the rest of a request is read and dropped after its answer (rule 5)."""

MAX_HEADER_FIELDS = 256
"""More than any real client sends; bounds the work that a head can cause."""

READ_BUFFER_BYTES = 64 * 1024
"""The most that is read ahead of a request's body; past it the client waits."""

CLOSING_POLL_SECONDS = 0.02
"""How often connections that became idle are closed while we wait for the last one to end."""


class _Connection(RequestHandler):
    """One client connection.

    Attributes:
        stalled: we cut it because the client took nothing of its answer (rule 7).
    """

    __slots__ = (
        "_end_delimits",
        "_head_timer",
        "_lingers",
        "_requests",
        "_server",
        "_stall_watch",
        "stalled",
    )

    def __init__(
        self, server: DownstreamServer, loop: asyncio.AbstractEventLoop, **options: Any
    ) -> None:
        super().__init__(server, loop=loop, **options)
        self._server = server
        self._lingers = False
        self._end_delimits = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._stall_watch: StallWatch | None = None
        self.stalled = False
        self._requests: RequestParser | None = RequestParser(
            self,
            loop,
            max_header_bytes=self.max_field_size,
            max_fields=self.max_headers,
            read_buffer_bytes=READ_BUFFER_BYTES,
            on_broken_body=server.count_refused,
        )
        # Takes the place of the one that the base class made, which is fed whole reads.
        self._parser = self._requests  # type: ignore[assignment]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve the connection, or turn it away (rule 7)."""
        stream = cast("asyncio.Transport", transport)
        if not self._server.has_room():
            self._requests = self._parser = None
            self._server.turn_away(stream)
            return
        limits = self._server.limits
        self._stall_watch = StallWatch(limits.stall_seconds, lambda: self._cut_stalled(stream))
        self._watch_head()
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop all timers."""
        if self._head_timer is not None:
            self._head_timer.cancel()
        if self._stall_watch is not None:
            self._stall_watch.stop()
        self._requests = self._stall_watch = None
        super().connection_lost(exc)

    def _watch_head(self) -> None:
        if (seconds := self._server.limits.header_seconds) and self._head_timer is None:
            self._head_timer = asyncio.get_running_loop().call_later(seconds, self._look_for_head)

    def _look_for_head(self) -> None:
        """The time for a head is over; but the requests before it come first (rule 7)."""
        self._head_timer = None
        if self._requests is None:
            return
        if self._waiter is None or self._waiter.done():
            self._watch_head()
        elif self._requests.head_begun:
            self._requests.expire()
            super().data_received(b"")
        else:
            self.force_close()

    def pause_writing(self) -> None:
        """The client is slower than its answer: see that it takes some of it (rule 7)."""
        super().pause_writing()
        self._watch_taking()

    def _watch_taking(self) -> None:
        """Watch while bytes wait here, past the end of an answer and of the connection too."""
        transport = self.transport
        watch = self._stall_watch
        if watch is not None and transport is not None and count_buffered(transport):
            watch.begin(transport)

    def _cut_stalled(self, transport: asyncio.Transport) -> None:
        self.stalled = True
        self._server.count_stalled()
        reset(transport)

    def log_exception(self, *args: Any, **kwargs: Any) -> None:
        """A body that breaks while it is dropped after its answer was told already (rule 4)."""
        if not isinstance(kwargs.get("exc_info"), RequestPayloadError):
            super().log_exception(*args, **kwargs)

    def data_received(self, data: bytes) -> None:
        """Parse what came, or drop it after our last answer (rule 5)."""
        if self._lingers:
            return
        super().data_received(data)
        if self._requests is not None and self._requests.head_begun:
            self._watch_head()
        elif self._head_timer is not None and (self._waiter is None or self._waiter.done()):
            # A head is whole; blank lines before the first one are none.
            self._head_timer.cancel()
            self._head_timer = None

    def eof_received(self) -> None:
        """A half-close counts as leaving, even while bytes wait to be written (rule 2)."""
        if self._current_request is not None and self.transport is not None:
            # Closing would first wait for these bytes to be read.
            self.transport.abort()

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002 - aiohttp's
        """Called by aiohttp after each read of a body: nothing to do unless reading was paused."""
        if self._reading_paused or self._buffer_paused:
            super().resume_reading(resume_parser)

    def close_if_idle(self) -> None:
        """End the connection unless a request is being served, or comes (rule 6).

        The base class's ``close`` would drop the rest of that request's body.
        """
        waits = self._waiter is not None and not self._waiter.done()
        begun = self._requests is not None and self._requests.head_begun
        if waits and not begun and not has_unread(self.transport):
            self.force_close()

    async def shutdown(self, timeout: float | None = 15.0) -> None:  # noqa: ASYNC109 - inherited
        """End it now; an answer that nobody took whole must not seem to end (rule 3)."""
        transport = self.transport
        if self._end_delimits and transport is not None and count_buffered(transport):
            reset(transport)
        await super().shutdown(timeout)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """End the answer; the second of the pair tells that the client is gone."""
        resp, is_gone = await super().finish_response(request, resp, start_time)
        self._watch_taking()
        if isinstance(resp, Answered):
            self._end_delimits = resp.end_delimits
        if isinstance(resp, LastAnswer) and not is_gone:
            await self._linger()
        return resp, is_gone

    async def _linger(self) -> None:
        """Close our side, and drop what comes until the client has closed its own (rule 5)."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        self._lingers = True
        half_close(transport)
        transport.resume_reading()
        # The client's close ends the connection, and with it this task.
        await asyncio.sleep(MAX_LINGER_SECONDS)
        self.force_close()

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
            code = "request_timeout" if status == 408 else "invalid_http_request"
            return self.refuse(request, status, code, message or "Bad request.")
        _log.error("a request could not be handled", exc_info=exc)
        return _encode_last(request, status, "internal_error", "spantap failed; see its log.")

    def refuse(
        self, request: web.BaseRequest, status: int, code: str, message: str
    ) -> web.StreamResponse:
        """Count and log a request that never becomes an exchange, and answer it."""
        self._server.count_refused(message)
        return _encode_last(request, status, code, message)


def _encode_last(request: web.BaseRequest, status: int, code: str, message: str) -> LastAnswer:
    return LastAnswer(encode_error(status, code, message, has_body=request.method != "HEAD"))


class DownstreamServer(Server):
    """The listening side: ``loop.create_server(DownstreamServer(handler, ...))``.

    Args:
        handler: called for each valid request.
        max_header_bytes: largest field and request line.
        refusals: rate limit of the log line about invalid requests.
        limits: of connections, and of how slow clients may be.
        clock: for the rate limits of other log lines.

    Attributes:
        limits: as given.
        refused_count: requests that never became an exchange.
        turned_away_count: connections past the limit.
        stalled_count: connections that were cut because the client took nothing of its answer.
        closing: we go down, and each answer says that its connection ends (rule 6).
    """

    def __init__(
        self,
        handler: Callable[[Downstream], Awaitable[web.StreamResponse]],
        *,
        max_header_bytes: int,
        refusals: RateLimit,
        limits: DownstreamLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._connection_options: dict[str, Any] = {
            "access_log": None,
            "auto_decompress": False,
            "keepalive_timeout": 75.0,
            "lingering_time": MAX_LINGER_SECONDS,
            "max_field_size": max_header_bytes,
            "max_headers": MAX_HEADER_FIELDS,
            "max_line_size": max_header_bytes,
            "read_bufsize": READ_BUFFER_BYTES,
        }
        super().__init__(self._serve, handler_cancellation=True)
        self._handler = handler
        self._refusals = refusals
        self._full_lines = limit_lines(clock or SystemClock())
        self._stalled_lines = limit_lines(clock or SystemClock())
        self._turned_away: set[Overflow] = set()  # of them those that are open still
        self.limits = limits or DownstreamLimits()
        self.refused_count = 0
        self.turned_away_count = 0
        self.stalled_count = 0
        self.closing = False

    def __call__(self) -> RequestHandler:
        """One protocol for one new connection."""
        loop = asyncio.get_running_loop()
        return _Connection(self, loop=loop, **self._connection_options)

    def count_refused(self, message: str) -> None:
        """Note a request that was refused before it became an exchange."""
        self.refused_count += 1
        _tell(self._refusals, f"refused a request: {message}")

    def count_stalled(self) -> None:
        """Note a client that was cut because it took nothing of its answer."""
        self.stalled_count += 1
        seconds = self.limits.stall_seconds
        _tell(
            self._stalled_lines, f"cut a client that took nothing of its answer for {seconds:g} s"
        )

    def count_turned_away(self) -> None:
        """Note a connection past the limit."""
        self.turned_away_count += 1
        count = self.limits.max_connections
        _tell(
            self._full_lines,
            f"turned a client away: {count} connections are open (max_connections)",
        )

    def has_room(self) -> bool:
        """Whether one more connection can be served."""
        return len(self.connections) < self.limits.max_connections

    def turn_away(self, transport: asyncio.Transport) -> None:
        """Tell a client that there are too many, where not too many are being told already."""
        self.count_turned_away()
        if len(self._turned_away) >= MAX_TURNED_AWAY:
            transport.abort()
            return
        count = self.limits.max_connections
        message = f"spantap serves {count} connections at once, and has them; try again shortly."
        self._turned_away.add(Overflow(transport, message, self._turned_away.discard))

    def pre_shutdown(self) -> None:
        """Close the idle connections (rule 6)."""
        for connection in self.connections:
            if isinstance(connection, _Connection):
                connection.close_if_idle()

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - inherited
        """End all connections now, those that were turned away too."""
        for overflow in tuple(self._turned_away):
            overflow.abort()
        await super().shutdown(timeout)

    async def wait_until_unconnected(self, timeout_seconds: float) -> bool:
        """Close what is idle until no connection is left, each answer sent to its last byte.

        Returns:
            False if some connections are left after the time-out.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                while self.connections:
                    self.pre_shutdown()
                    await asyncio.sleep(CLOSING_POLL_SECONDS)
        except TimeoutError:
            return False
        return True

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = _connection_of(request)
        head = Head(request.raw_headers)
        fault = find_http_fault(request.method, request.raw_path, request.version, head)
        if fault is not None:
            return connection.refuse(request, *fault)
        downstream = Downstream(
            request,
            head,
            body_idle_seconds=self.limits.body_idle_seconds,
            is_closing=lambda: self.closing,
            has_stalled=lambda: connection.stalled,
        )
        try:
            return await self._handler(downstream)
        except ConnectionError:
            raise
        except Exception as error:
            if not downstream.head_sent:
                raise
            _log.exception("a request could not be handled to its end")
            reset(request.transport)
            raise ConnectionError("the answer has begun already") from error


def _connection_of(request: web.BaseRequest) -> _Connection:
    connection = request.protocol
    if isinstance(connection, _Connection):
        return connection
    raise AssertionError("the server makes no other")


def _tell(lines: RateLimit, text: str) -> None:
    if (suppressed := lines.admit()) is not None:
        more = f" ({suppressed} more since the last such line)" if suppressed else ""
        _log.warning("%s%s", text, more)
