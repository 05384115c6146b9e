"""One client connection: requests in, one at a time to the handler, answers out.

It is aiohttp's connection with a parser and a loop over requests of ours. The rules are those of
:mod:`proxy.downstream.downstream`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, cast

from aiohttp.web_protocol import (
    MAX_MSG_QUEUE_SIZE,
    RequestHandler,
    RequestPayloadError,
    _ErrInfo,
)

from proxy.downstream.downstream import Answered, Downstream, LastAnswer, half_close, reset
from proxy.downstream.request_faults import find_http_fault
from proxy.downstream.request_parser import RequestParser
from proxy.errors import encode_error
from proxy.headers import Head
from proxy.readable import has_unread
from proxy.stall_watch import StallWatch, count_buffered

if TYPE_CHECKING:
    from aiohttp.http import RawRequestMessage
    from aiohttp.streams import StreamReader

    from proxy.downstream.server import DownstreamServer

__all__ = ("MAX_LINGER_SECONDS", "READ_BUFFER_BYTES", "DownstreamConnection")

_log = logging.getLogger("spantap.downstream")

MAX_LINGER_SECONDS = 10.0
"""How long the rest of a request is read and dropped after its answer (rule 5)."""

READ_BUFFER_BYTES = 16 * 1024
"""The most that is read ahead of a request's body, or 1,024 chunks; past it the client waits."""


class DownstreamConnection(RequestHandler):
    """One client connection.

    Attributes:
        stalled: we cut it because the client took nothing of its answer (rule 7).
    """

    __slots__ = (
        "_body",
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
        self._body: StreamReader | None = None  # of the request that is with the handler
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
        """Stop all timers, and whoever reads of this client."""
        if self._head_timer is not None:
            self._head_timer.cancel()
        if self._stall_watch is not None:
            self._stall_watch.stop()
        self._requests = self._stall_watch = None
        if self._body is not None:
            self._body.set_exception(exc or ConnectionResetError("the client is gone"))
        super().connection_lost(exc)

    @property
    def closing(self) -> bool:
        """We go down, and each answer says that its connection ends (rule 6)."""
        return self._server.closing

    async def drain(self) -> None:
        """Wait until the client has taken enough of what waits for it (rule 8)."""
        if self.transport is not None:
            await self._drain_helper()

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
            self.data_received(b"")
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
        requests = self._requests
        if self._lingers or self._close or self._force_close or requests is None:
            return
        parsed, _, _ = requests.feed_data(data)
        waiter = self._waiter
        if parsed:
            self._messages.extend(parsed)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)
            if not self._buffer_paused and len(self._messages) >= MAX_MSG_QUEUE_SIZE:
                self._pause_reading_for_buffer()
        if requests.head_begun:
            self._watch_head()
            # Not idle any more: it is the head's time that counts.
            self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        elif self._head_timer is not None and (waiter is None or waiter.done()):
            # A head is whole; blank lines before the first one are none.
            self._head_timer.cancel()
            self._head_timer = None

    def eof_received(self) -> None:
        """A half-close counts as leaving, even while bytes wait to be written (rule 2)."""
        if self._body is not None and self.transport is not None:
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

    async def start(self) -> None:
        """Serve one request after the other until the connection ends.

        All in one task: the base class makes another for each request, which takes two turns of
        the loop more. A task that is cancelled ends the connection.
        """
        try:
            while not self._force_close and await self._serve_next():
                pass
        except ConnectionError:
            pass  # the client is gone
        except Exception as error:  # noqa: BLE001 - whatever it is, others are served
            self.log_exception("a connection failed", exc_info=error)
            self.force_close()
        except BaseException:
            self.force_close()
            raise
        if not self._force_close:
            self._task_handler = None
            if self.transport is not None:
                self.transport.close()

    async def _serve_next(self) -> bool:
        """Wait for a request and answer it; whether the connection serves another.

        Raises:
            ConnectionError: the client is gone.
        """
        if not self._messages:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._server.is_orphaned():
            return False
        message, body = self._messages.popleft()
        if self._requests is not None:
            self._requests.message_consumed()
        if self._buffer_paused and len(self._messages) <= MAX_MSG_QUEUE_SIZE // 2:
            self._resume_reading_if_drained()
        self._server.requests_count += 1
        self._request_in_progress = True
        try:
            answered = await self._answer(message, body)
            await self._end(answered)
        finally:
            self._request_in_progress = False
            if self._handler_waiter is not None and not self._handler_waiter.done():
                self._handler_waiter.set_result(None)  # a shutdown waits for it
        if not (body.is_eof() or self._force_close):
            await self._drop(body)
        if self._close or self._force_close:
            return False
        if not answered.keep_alive:
            if (self._messages or has_unread(self.transport)) and not answered.end_delimits:
                await self._linger()  # a client that sends on has not read its answer perhaps
            return False
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(
                self._next_keepalive_close_time, self._process_keepalive
            )
        return True

    async def _answer(self, message: RawRequestMessage | _ErrInfo, body: StreamReader) -> Answered:
        """Let the handler answer what is valid; what is not, and its faults, are answered here."""
        if isinstance(message, _ErrInfo):
            status = message.status
            code = "request_timeout" if status == 408 else "invalid_http_request"
            return self._refuse("", status, code, message.message)
        method, head = message.method, Head(message.raw_headers)
        fault = find_http_fault(method, message.path, message.version, head)
        if fault is not None:
            return self._refuse(method, *fault)
        idle_seconds = self._server.limits.body_idle_seconds
        downstream = Downstream(self, message, body, head, body_idle_seconds=idle_seconds)
        self._body = body
        try:
            answered = await self._server.handler(downstream)
        except ConnectionError:
            raise
        except Exception as error:
            if downstream.head_sent:
                _log.exception("a request could not be handled to its end")
                reset(self.transport)
                raise ConnectionError("the answer has begun already") from error
            _log.exception("a request could not be handled")
            status = 504 if isinstance(error, TimeoutError) else 500
            return _encode_last(method, status, "internal_error", "spantap failed; see its log.")
        finally:
            self._body = None
        if isinstance(answered, Answered):
            return answered
        raise AssertionError("handlers answer by their Downstream")

    def _refuse(self, method: str, status: int, code: str, message: str) -> LastAnswer:
        """Count and log a request that never becomes an exchange (rule 4), and answer it."""
        self._server.count_refused(message)
        return _encode_last(method, status, code, message)

    async def _end(self, answered: Answered) -> None:
        """Write what is left of an answer, and see that the client takes it.

        Raises:
            ConnectionError: the client is gone.
        """
        self._end_delimits = answered.end_delimits
        if isinstance(answered, LastAnswer):
            if self.transport is None or self.transport.is_closing():
                raise ConnectionResetError("the client is gone")
            self.transport.write(answered.unwritten)
            self._watch_taking()
            await self._linger()
        else:
            self._watch_taking()

    async def _drop(self, body: StreamReader) -> None:
        """Read on for a while what nobody wants: the next request is behind it."""
        await asyncio.sleep(0)  # an upload that was broken off lets go of it
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MAX_LINGER_SECONDS):
                while not body.is_eof():
                    await body.readany()
        if not body.is_eof():
            self.close()

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


def _encode_last(method: str, status: int, code: str, message: str) -> LastAnswer:
    return LastAnswer(encode_error(status, code, message, has_body=method != "HEAD"))
