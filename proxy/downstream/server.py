"""The listening side, on aiohttp's low-level server, which keeps the connections.

The rules are those of :mod:`proxy.downstream.downstream`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from aiohttp.web_server import Server

from proxy.clock import Clock, SystemClock
from proxy.downstream.connection import READ_BUFFER_BYTES, DownstreamConnection
from proxy.downstream.overflow import MAX_TURNED_AWAY, Overflow
from proxy.limits import DownstreamLimits
from proxy.logging.logs import limit_lines, log_limited

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web
    from aiohttp.web_protocol import RequestHandler

    from proxy.downstream.downstream import Downstream
    from telemetry.rate_limit import RateLimit

__all__ = ("DownstreamServer",)

_log = logging.getLogger("spantap.downstream")

MAX_HEADER_FIELDS = 256
"""More than any real client sends; bounds the work that a head can cause."""

CLOSING_POLL_SECONDS = 0.02
"""How often connections that became idle are closed while we wait for the last one to end."""


class DownstreamServer(Server):
    """The listening side: ``loop.create_server(DownstreamServer(handler, ...))``.

    Args:
        handler: called for each valid request.
        max_header_bytes: largest field and request line.
        refusals: rate limit of the log line about invalid requests.
        limits: of connections, and of how slow clients may be.
        clock: for the rate limits of other log lines.
        is_orphaned: whether the supervisor is gone; asked before each request (rule 9).

    Attributes:
        handler: as given.
        limits: as given.
        is_orphaned: as given.
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
        is_orphaned: Callable[[], bool] = lambda: False,
    ) -> None:
        self._connection_options: dict[str, Any] = {
            "access_log": None,
            "auto_decompress": False,
            "keepalive_timeout": 75.0,
            "max_field_size": max_header_bytes,
            "max_headers": MAX_HEADER_FIELDS,
            "max_line_size": max_header_bytes,
            "read_bufsize": READ_BUFFER_BYTES,
        }
        super().__init__(_refuse_request, handler_cancellation=True)
        self.handler = handler
        self._refusals = refusals
        self._full_lines = limit_lines(clock or SystemClock())
        self._stalled_lines = limit_lines(clock or SystemClock())
        self._turned_away: set[Overflow] = set()  # of them those that are open still
        self.limits = limits or DownstreamLimits()
        self.is_orphaned = is_orphaned
        self.refused_count = 0
        self.turned_away_count = 0
        self.stalled_count = 0
        self.closing = False

    def __call__(self) -> RequestHandler:
        """One protocol for one new connection."""
        loop = asyncio.get_running_loop()
        return DownstreamConnection(self, loop=loop, **self._connection_options)

    def count_refused(self, message: str) -> None:
        """Note a request that was refused before it became an exchange."""
        self.refused_count += 1
        log_limited(_log, self._refusals, f"refused a request: {message}")

    def count_stalled(self) -> None:
        """Note a client that was cut because it took nothing of its answer."""
        self.stalled_count += 1
        seconds = self.limits.stall_seconds
        text = f"cut a client that took nothing of its answer for {seconds:g} s"
        log_limited(_log, self._stalled_lines, text)

    def count_turned_away(self) -> None:
        """Note a connection past the limit."""
        self.turned_away_count += 1
        count = self.limits.max_connections
        text = f"turned a client away: {count} connections are open (max_connections)"
        log_limited(_log, self._full_lines, text)

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
            if isinstance(connection, DownstreamConnection):
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


async def _refuse_request(_: web.BaseRequest) -> web.StreamResponse:
    raise AssertionError("connections call the handler themselves")
