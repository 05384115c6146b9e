"""Connections past the limit: a 503 that the client can read, and an end.

The answer waits for the first bytes of a request: to many a client what comes before them is a
connection that broke. Nothing of what is sent is parsed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.errors import encode_error
from proxy.sockets import half_close

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_TURNED_AWAY = 64
"""Clients that are being told at once: each holds an open file until it has read its answer.
Beyond them a connection is closed without a word."""

MAX_TURNED_AWAY_SECONDS = 5.0
"""How long one may take to send something, read its answer, and close."""


class Overflow(asyncio.Protocol):
    """The protocol of one connection too many, in place of the one that would serve it."""

    def __init__(
        self, transport: asyncio.Transport, message: str, on_end: Callable[[Overflow], None]
    ) -> None:
        self._transport = transport
        self._message = message
        self._on_end = on_end
        self._answered = False
        transport.set_protocol(self)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(MAX_TURNED_AWAY_SECONDS, self.abort)

    def abort(self) -> None:
        """End it now."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Answer what comes first and drop the rest: a reset would take the answer from it."""
        if self._answered:
            return
        self._answered = True
        has_body = not data.startswith(b"HEAD ")
        answer = encode_error(503, "too_many_connections", self._message, has_body=has_body)
        self._transport.write(answer)
        half_close(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's interface
        """Forget the client, which has closed, or whose time is over."""
        self._timer.cancel()
        self._on_end(self)
