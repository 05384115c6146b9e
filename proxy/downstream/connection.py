"""One client connection: requests in, one at a time to the handler, answers out.

:mod:`proxy.downstream.downstream` has what a client can rely on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, cast

from proxy.downstream.client_stream import ClientStream
from proxy.downstream.downstream import Answered, Downstream
from proxy.downstream.request_faults import BadRequest
from proxy.downstream.request_parser import RequestParser
from proxy.errors import GatewayError, encode_error
from proxy.sockets import count_buffered, half_close, has_unread, reset, set_up

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from proxy.downstream.port_state import PortState
    from proxy.downstream.request_parser import Request
    from proxy.request_body import RequestBody

_log = logging.getLogger("spantap.downstream")

MAX_LINGER_SECONDS = 10.0
"""How long the rest of a request is read and dropped after its answer."""

IDLE_SECONDS = 75.0
"""How long a connection is kept for its next request: as nginx does."""


class DownstreamConnection(asyncio.Protocol):
    """One client connection.

    Args:
        handler: called for each valid request.
        state: shared by all connections.
        admit: called with this object and its transport; false if another protocol serves it.
        forget: called when the connection is gone and its last request is over.
    """

    stream: ClientStream
    _parser: RequestParser
    _task: asyncio.Task[None]  # serves it

    def __init__(
        self,
        handler: Callable[[Downstream], Awaitable[Answered]],
        state: PortState,
        *,
        admit: Callable[[DownstreamConnection, asyncio.Transport], bool],
        forget: Callable[[DownstreamConnection], None],
    ) -> None:
        self._handler = handler
        self._state = state
        self._admit = admit
        self._forget = forget
        self._is_served = False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._waiter: asyncio.Future[None] | None = None  # while no request is served
        self._body: RequestBody | None = None  # of the request that is with the handler
        self._head_is_timed = True
        self._reading_paused = False
        self._ends = False  # nothing more is read or served
        self._end_delimits = False

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve the connection, unless it is one too many."""
        stream = cast("asyncio.Transport", transport)
        if not self._admit(self, stream):
            return
        self._is_served = True
        set_up(stream)
        self.stream = ClientStream(stream, self._state)
        self._parser = RequestParser(
            max_header_bytes=self._state.max_header_bytes,
            body_idle_seconds=self._state.limits.body_idle_seconds,
            on_room=self._continue_reading,
            on_broken_body=self._state.count_refused,
        )
        self._time(self._state.limits.header_seconds)
        self._task = self._loop.create_task(self._serve())

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop all timers and the task that serves this client."""
        if not self._is_served:
            return  # it was turned away
        if self._timer is not None:
            self._timer.cancel()
        self._parser.stop()
        self.stream.lose()
        self._ends = True
        if self._body is not None:
            self._body.fail(str(exc or "") or "the client is gone")
        self._task.cancel()
        self._task.add_done_callback(self._release)

    def _release(self, _: object) -> None:
        self._forget(self)
        del self._parser, self._task, self.stream  # which refer to this object, or to themselves

    def data_received(self, data: bytes) -> None:
        """Parse what came, or drop it after our last answer."""
        if self._ends:
            return
        parser = self._parser
        parser.feed(data)
        if parser.is_full and not self._reading_paused:
            self._reading_paused = True
            self.stream.transport.pause_reading()
        if parser.waiting:
            self._wake()
        elif parser.head_begun and self._is_idle:
            self._time_head()

    def eof_received(self) -> None:
        """Treat a half-close as leaving, even while bytes wait to be written."""
        if self._body is not None:
            # Closing would first wait for these bytes to be read.
            self.stream.transport.abort()

    def pause_writing(self) -> None:
        """Make writers wait, because the client is slower than its answer."""
        self.stream.pause()

    def resume_writing(self) -> None:
        """Let writers continue, because the client has read enough."""
        self.stream.resume()

    # Reading, and its time limits.

    def _continue_reading(self) -> None:
        """Continue to parse and to read, if the parser had too much."""
        if self._reading_paused and not self._ends:
            self.data_received(b"")
            if not self._parser.is_full:
                self._reading_paused = False
                self.stream.transport.resume_reading()

    def _time_next(self) -> None:
        """Start the time limit of the next head: to begin, or to be complete if it has begun."""
        self._head_is_timed = self._parser.head_begun
        self._time(self._state.limits.header_seconds if self._head_is_timed else 0)

    def _time_head(self) -> None:
        """Time a head from its first byte; without a limit for heads, from its last byte so far."""
        seconds = self._state.limits.header_seconds
        if not (self._head_is_timed and seconds):
            self._head_is_timed = True
            self._time(seconds)

    def _time(self, seconds: float) -> None:
        """Give the client some time; prolonging it moves no timer of the loop."""
        self._due = self._loop.time() + (seconds or IDLE_SECONDS)
        if self._timer is not None and self._timer.when() > self._due:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self._loop.call_at(self._due, self._give_up)

    def _give_up(self) -> None:
        """Close the connection, or answer 408: no whole head came in time."""
        self._timer = None
        if not self._is_idle:
            return
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._give_up)
        elif self._parser.head_begun:
            self._parser.expire()
            self._wake()
        else:
            self._close()

    @property
    def _is_idle(self) -> bool:
        """Whether no request is being served or waits."""
        return self._waiter is not None and not self._waiter.done()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _close(self) -> None:
        """End the connection, after what was written is sent."""
        self._ends = True
        self._wake()
        self.stream.transport.close()

    # Ending, from outside.

    def close_if_idle(self) -> None:
        """End the connection, unless a request is being served or is arriving."""
        begins = self._parser.head_begun or has_unread(self.stream.transport)
        if self._is_idle and not begins:
            self._close()

    def end(self) -> asyncio.Task[None]:
        """End the connection with its request; return the task that serves it until then.

        An answer that its client has not read whole must not seem to end.
        """
        if self._end_delimits and count_buffered(self.stream.transport):
            reset(self.stream.transport)
        self._ends = True
        self._wake()
        return self._task

    # Serving.

    async def _serve(self) -> None:
        """Serve one request after the other until the connection ends.

        One task does this, because a task for each request would take one more turn of the loop.
        The end of the connection cancels it.
        """
        try:
            while not self._ends and await self._serve_next():
                self._time_next()
        except ConnectionError:
            pass  # the client is gone
        except Exception:  # noqa: BLE001 - other connections must still be served
            _log.exception("a connection failed")
        finally:
            self._ends = True
            self.stream.transport.close()

    async def _serve_next(self) -> bool:
        """Wait for a request and answer it; return whether the connection serves another."""
        waiting = self._parser.waiting
        if not waiting:
            await self._wait()
        if not waiting or self._state.is_orphaned():
            return False
        request = waiting.pop(0)
        self._continue_reading()
        self._state.requests_count += 1
        if isinstance(request, BadRequest):
            self._refuse(request)
            return await self._linger()
        answered = await self._answer(request)
        self.stream.watch()
        self._end_delimits = answered is Answered.ENDS_BODY
        if answered is Answered.LINGERS:
            return await self._linger()
        if self._ends or not (request.body.is_whole or await self._drop(request.body)):
            return False
        if answered is Answered.CLOSES and (
            waiting or self._parser.has_rest or has_unread(self.stream.transport)
        ):
            return await self._linger()  # a client that still sends may not have read its answer
        return answered is Answered.KEEPS_ALIVE

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    async def _answer(self, request: Request) -> Answered:
        """Let the handler answer; if it fails, answer here."""
        downstream = Downstream(self.stream, request)
        self._body = request.body
        try:
            return await self._handler(downstream)
        except ConnectionError:
            raise
        except Exception as error:
            if downstream.head_sent:
                _log.exception("a request could not be handled to its end")
                reset(self.stream.transport)
                raise ConnectionError("the answer has begun already") from error
            _log.exception("a request could not be handled")
            status = 504 if isinstance(error, TimeoutError) else 500
            message = "spantap failed; see its log."
            return await downstream.answer_error(status, "internal_error", message)
        finally:
            self._body = None

    def _refuse(self, fault: BadRequest) -> None:
        """Count and log a request that never becomes an exchange, and answer it."""
        if fault.upgrade_target:
            self._state.count_upgrade(fault.upgrade_target)
        else:
            self._state.count_refused(fault.message)
        answer = encode_error(fault.status, fault.code, fault.message, has_body=fault.has_body)
        self.stream.write(answer)
        self.stream.watch()

    async def _drop(self, body: RequestBody) -> bool:
        """Read and drop the rest of a body for a while, because the next request is behind it."""
        await asyncio.sleep(0)  # lets an upload that was broken off release the body
        # What breaks now was reported already.
        with contextlib.suppress(TimeoutError, GatewayError):
            async with asyncio.timeout(MAX_LINGER_SECONDS):
                while not body.is_whole:
                    await body.read()
        return body.is_whole

    async def _linger(self) -> bool:
        """Close our side, and drop what comes until the client has closed its own."""
        transport = self.stream.transport
        if not transport.is_closing():
            self._ends = True
            half_close(transport)
            transport.resume_reading()
            # The client's close ends the connection, and with it this task.
            await asyncio.sleep(MAX_LINGER_SECONDS)
        return False
