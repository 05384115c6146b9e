"""A WebSocket on its way: the handshake is an exchange, and then bytes pass both ways.

Nothing of a message is looked at here. All that is known of frames is where they and messages end:
messages are counted, and a shutdown can say goodbye between two frames (RFC 6455 section 5.5.1).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.relay.frame_ends import GOING_AWAY, FrameEnds, Passed, encode_close
from proxy.sockets import count_buffered
from proxy.splice import Splice, end_writing
from telemetry.frames.ending import EndKind

if TYPE_CHECKING:
    from proxy.downstream.downstream import Answered, Downstream
    from proxy.relay.open_exchanges import OpenExchange
    from proxy.relay.tap import Tap
    from proxy.splice import SplicedEnd
    from proxy.upstream.response import UpstreamResponse


class WebSocketCounts:
    """The numbers of all WebSockets of a worker.

    Attributes:
        open: how many there are now.
        from_client: what has passed to upstreams.
        from_upstream: what has passed to clients.
    """

    def __init__(self) -> None:
        self.open = 0
        self.from_client, self.from_upstream = Passed(), Passed()


class WebSocket(Splice):
    """A client and an upstream that have agreed on a WebSocket.

    The protocols that had the connections keep counting them, and watch an end that reads nothing.

    Args:
        near: the client's connection.
        far: the upstream's.
        tap: gets a copy of what passes.
        counts: counts it.

    Attributes:
        has_lost_client: the client's connection is gone.
    """

    def __init__(
        self, near: asyncio.Transport, far: asyncio.Transport, tap: Tap, counts: WebSocketCounts
    ) -> None:
        super().__init__(near, far)
        self.has_lost_client = False
        self._tap = tap
        self._ending: tuple[EndKind, str] | None = None
        self._before = {self.near: near.get_protocol(), self.far: far.get_protocol()}
        self._frames = {
            self.near: FrameEnds(counts.from_client),
            self.far: FrameEnds(counts.from_upstream),
        }

    def note(self, end: SplicedEnd, data: bytes) -> None:
        """Follow the frames that come on one end."""
        self._tap.socket_data(data, from_client=end is self.near)
        self._frames[end].feed(data)

    def note_full(self, end: SplicedEnd) -> None:
        """Let the end be watched: it is cut if it reads nothing."""
        before = self._before[end]
        if isinstance(before, asyncio.Protocol):
            before.pause_writing()

    def note_last(self, end: SplicedEnd) -> None:
        """Let the other end be watched while bytes wait for it: it may never be full."""
        other = self.far if end is self.near else self.near
        if count_buffered(other.transport):
            self.note_full(other)

    def lose(self, end: SplicedEnd, exc: Exception | None) -> None:
        """Let the protocol that had the connection forget it."""
        if self._ending is None:
            kind = EndKind.CLIENT_GONE if end is self.near else EndKind.UPSTREAM_EOF
            self._ending = kind, str(exc or "")
        super().lose(end, exc)
        self.has_lost_client |= end is self.near
        before = self._before[end]
        if isinstance(before, asyncio.Protocol):
            before.connection_lost(exc)

    def note_gone(self) -> None:
        """Record how it ended."""
        if self._ending is not None:
            self._tap.end(*self._ending)

    def say_goodbye(self) -> None:
        """Send each end a close that says we go away, and let both connections end.

        An end to which a frame is on its way gets no close, because it would be taken for a part of
        that frame.
        """
        self._ending = EndKind.DRAIN_DEADLINE, "spantap ended"
        for end, source in ((self.near, self.far), (self.far, self.near)):
            source.passes_on = False
            ended = source.has_ended or end.transport.is_closing()
            if self._frames[source].at_end and not ended:
                is_masked = end is self.far  # we are the client there
                end.transport.write(encode_close(GOING_AWAY, is_masked=is_masked))
            end_writing(end.transport)
            self.note_last(source)


async def join_websocket(
    downstream: Downstream,
    response: UpstreamResponse,
    open_exchange: OpenExchange,
    tap: Tap,
    counts: WebSocketCounts,
) -> Answered:
    """Pass an upstream's 101 on, and then bytes in both directions, until the client is gone.

    The tap has the handshake already.

    Raises:
        asyncio.CancelledError: the client is gone, as each client is at the end.
        ConnectionError: it was gone before.
    """
    try:
        switched = downstream.switch(response.status, response.reason, response.headers)
        near, from_near = await switched
        far, from_far = await response.switch()
    except BaseException:
        tap.end(EndKind.CLIENT_GONE)
        raise
    web_socket = WebSocket(near, far, tap, counts)
    counts.open += 1
    try:
        web_socket.begin(from_near, from_far)
        await _wait_until_cut(web_socket, open_exchange)
        web_socket.say_goodbye()
        await asyncio.get_running_loop().create_future()
    finally:
        counts.open -= 1
    raise AssertionError("nothing ends it but a cancellation")


async def _wait_until_cut(web_socket: WebSocket, open_exchange: OpenExchange) -> None:
    """Wait until we cut it at a shutdown, or raise because the client is gone."""
    try:
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        # Both may come in one turn; then there is one cancellation, and nobody to say goodbye to.
        if web_socket.has_lost_client or not open_exchange.cut:
            raise
