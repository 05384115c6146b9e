"""The listening side, on aiohttp's low-level server: it parses requests and keeps connections.

The rules are those of :mod:`proxy.downstream`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler, RequestPayloadError

from proxy.downstream import Answered, Downstream, LastAnswer, reset
from proxy.errors import encode_error
from proxy.request_faults import find_http_fault
from proxy.request_parser import RequestParser

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

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
    """One client connection."""

    __slots__ = ("_end_delimits", "_lingers", "_server")

    def __init__(
        self, server: DownstreamServer, loop: asyncio.AbstractEventLoop, **options: Any
    ) -> None:
        super().__init__(server, loop=loop, **options)
        self._server = server
        self._lingers = False
        self._end_delimits = False
        # Takes the place of the one that the base class made, which is fed whole reads.
        self._parser = RequestParser(  # type: ignore[assignment]
            self,
            loop,
            max_header_bytes=self.max_field_size,
            max_fields=self.max_headers,
            read_buffer_bytes=READ_BUFFER_BYTES,
            on_broken_body=server.count_refused,
        )

    def log_exception(self, *args: Any, **kwargs: Any) -> None:
        """A body that breaks while it is dropped after its answer was told already (rule 4)."""
        if not isinstance(kwargs.get("exc_info"), RequestPayloadError):
            super().log_exception(*args, **kwargs)

    def data_received(self, data: bytes) -> None:
        """Parse what came, or drop it after our last answer (rule 5)."""
        if not self._lingers:
            super().data_received(data)

    def eof_received(self) -> None:
        """A half-close counts as leaving, even while bytes wait to be written (rule 2)."""
        if self._current_request is not None and self.transport is not None:
            # Closing would first wait for these bytes to be read.
            self.transport.abort()

    def close_if_idle(self) -> None:
        """End the connection unless a request is being served (rule 6).

        The base class's ``close`` would drop the rest of that request's body.
        """
        if self._waiter is not None and not self._waiter.done():
            self.force_close()

    async def shutdown(self, timeout: float | None = 15.0) -> None:  # noqa: ASYNC109 - inherited
        """End it now; an answer that nobody took whole must not seem to end (rule 3)."""
        transport = self.transport
        if self._end_delimits and transport is not None and transport.get_write_buffer_size():
            reset(transport)
        await super().shutdown(timeout)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """End the answer; the second of the pair tells that the client is gone."""
        resp, is_gone = await super().finish_response(request, resp, start_time)
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
        transport.write_eof()
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
            return self.refuse(request, status, "invalid_http_request", message or "Bad request.")
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


class DownstreamServer(web.Server):
    """The listening side: ``loop.create_server(DownstreamServer(handler, ...))``.

    Args:
        handler: called for each valid request.
        max_header_bytes: largest field and request line.
        refusals: rate limit of the log line about invalid requests.

    Attributes:
        refused_count: requests that never became an exchange.
        closing: we go down, and no connection serves another request (rule 6).
    """

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
            "max_headers": MAX_HEADER_FIELDS,
            "max_line_size": max_header_bytes,
            "read_bufsize": READ_BUFFER_BYTES,
        }
        super().__init__(self._serve, handler_cancellation=True)
        self._handler = handler
        self._refusals = refusals
        self.refused_count = 0
        self.closing = False

    def __call__(self) -> RequestHandler:
        """One protocol for one new connection."""
        loop = asyncio.get_running_loop()
        return _Connection(self, loop=loop, **self._connection_options)

    def count_refused(self, message: str) -> None:
        """Note a request that was refused before it became an exchange."""
        self.refused_count += 1
        if (suppressed := self._refusals.admit()) is not None:
            more = f" ({suppressed} more since the last such line)" if suppressed else ""
            _log.warning("refused a request: %s%s", message, more)

    def pre_shutdown(self) -> None:
        """Close the idle connections (rule 6)."""
        for connection in self.connections:
            if isinstance(connection, _Connection):
                connection.close_if_idle()

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
        fault = find_http_fault(
            request.method, request.raw_path, request.version, request.raw_headers
        )
        if fault is not None:
            connection = request.protocol
            if not isinstance(connection, _Connection):
                raise AssertionError("__call__ makes no other")
            return connection.refuse(request, *fault)
        downstream = Downstream(request, is_closing=lambda: self.closing)
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
