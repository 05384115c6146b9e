"""The listening side: accepts, limits and ends connections.

A connection past the limit gets a 503 that the client can read, and is closed. We answer only after
the first bytes of a request, because many clients take earlier bytes for a broken connection. What
the client sends is not parsed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.downstream.connection import DownstreamConnection
from proxy.errors import encode_error
from proxy.sockets import half_close

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from proxy.downstream.downstream import Answered, Downstream
    from proxy.downstream.port_state import PortState

MAX_TURNED_AWAY = 64
"""How many connections past the limit get an answer at a time: each holds an open file until its
client has read the answer. More of them are closed without an answer."""

MAX_TURNED_AWAY_SECONDS = 5.0
"""How long such a client may take to send something, read its answer, and close."""


class _Overflow(asyncio.Protocol):
    """The protocol of a connection past the limit, in place of the one that would serve it."""

    def __init__(
        self, transport: asyncio.Transport, message: str, on_end: Callable[[_Overflow], None]
    ) -> None:
        self._transport = transport
        self._message = message
        self._on_end = on_end
        self._answered = False
        transport.set_protocol(self)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(MAX_TURNED_AWAY_SECONDS, self.abort)

    def abort(self) -> None:
        """End the connection now."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Answer the first bytes and drop the rest, because a reset would destroy the answer."""
        if self._answered:
            return
        self._answered = True
        has_body = not data.startswith(b"HEAD ")
        answer = encode_error(503, "too_many_connections", self._message, has_body=has_body)
        self._transport.write(answer)
        half_close(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's interface
        """Forget the client, which has closed or has used up its time."""
        self._timer.cancel()
        self._on_end(self)


CLOSING_POLL_SECONDS = 0.02
"""How often we close connections that have become idle, while we wait for all of them to end."""


class DownstreamServer:
    """The listening side: ``loop.create_server(DownstreamServer(handler, state))``.

    Attributes:
        handler: called for each valid request.
        state: shared by all connections.
        connections: the open ones, and those that are gone while their last request still runs.
        other_count: connections of other ports that count against the same limit.
    """

    def __init__(
        self, handler: Callable[[Downstream], Awaitable[Answered]], state: PortState
    ) -> None:
        self.handler = handler
        self.state = state
        self.connections: set[DownstreamConnection] = set()
        self.other_count = 0
        self._turned_away: set[_Overflow] = set()

    def __call__(self) -> DownstreamConnection:
        """Make the protocol of a new connection."""
        return DownstreamConnection(
            self.handler, self.state, admit=self.admit, forget=self.connections.discard
        )

    @property
    def connection_count(self) -> int:
        """How many connections count against the limit."""
        return len(self.connections) + self.other_count

    @property
    def is_full(self) -> bool:
        """Whether there may be no more connections."""
        return self.connection_count >= self.state.limits.max_connections

    def admit(self, connection: DownstreamConnection, transport: asyncio.Transport) -> bool:
        """Count a connection, or turn it away if there are too many."""
        if self.is_full:
            self.turn_away(transport)
            return False
        self.connections.add(connection)
        return True

    def turn_away(self, transport: asyncio.Transport) -> None:
        """Serve a connection no further than with an answer that there are too many."""
        self.state.count_turned_away()
        if len(self._turned_away) >= MAX_TURNED_AWAY:
            transport.abort()
            return
        count = self.state.limits.max_connections
        message = (
            f"spantap serves {count} connections at once, and all are in use; try again shortly."
        )
        self._turned_away.add(_Overflow(transport, message, self._turned_away.discard))

    def close_idle(self) -> None:
        """Close the idle connections."""
        for connection in tuple(self.connections):
            connection.close_if_idle()

    async def shutdown(self, timeout_seconds: float) -> None:
        """End all connections; those with a request get some time to finish it."""
        for overflow in tuple(self._turned_away):
            overflow.abort()
        serving = [connection.end() for connection in self.connections]
        if serving:
            await asyncio.wait(serving, timeout=timeout_seconds)
        for task in serving:
            task.cancel()

    async def wait_until_unconnected(self, timeout_seconds: float) -> bool:
        """Close idle connections until none is left; false if some are left after the time-out."""
        try:
            async with asyncio.timeout(timeout_seconds):
                while self.connections:
                    self.close_idle()
                    await asyncio.sleep(CLOSING_POLL_SECONDS)
        except TimeoutError:
            return False
        return True
