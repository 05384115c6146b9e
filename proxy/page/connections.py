"""The page's connections: as many as are good, and none that only sits there.

Rules:

1. There are at most :data:`MAX_CONNECTIONS`. One more ends the one that has been without a request
   for the longest time; where all are being answered, it is refused. Nothing is answered before the
   whole request is there: who holds back a body, as anybody can, keeps nobody out.
2. One that stands still for :data:`WAIT_SECONDS` is ended: it has no whole request in that time, a
   new one or one that is used again, or its client takes nothing of an answer.
3. What is not HTTP is answered as all else is: with the headers of safety, and an error in their
   form. It is not logged, for anybody can send it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from aiohttp import web

from proxy.page.errors import PageError, build_error
from proxy.page.guard import HEADERS
from proxy.sockets import count_buffered

if TYPE_CHECKING:
    import socket

    from aiohttp.typedefs import Handler, Middleware

MAX_CONNECTIONS: Final = 256
"""Sixty-four tabs that watch, and three connections more for each; some 30 KB each."""

WAIT_SECONDS: Final = 60.0
"""How long a connection may stand still; browsers open another when it is gone, also a machine that
wakes up."""

LOOK_SECONDS: Final = 1.0
"""The time between two looks for what is to be ended."""

SHUTDOWN_SECONDS: Final = 0.2
"""How long the end waits for answers; streams never end by themselves."""

MAX_LINE_BYTES: Final = 64 * 1024
"""Longest request line: a filter is in it, and text to be searched for."""

MAX_FIELD_BYTES: Final = 16 * 1024
"""Longest header field: cookies of all that this machine serves, by any port, are in one."""

_QUIET: Final = logging.getLogger("spantap.page.http")
_QUIET.setLevel(logging.CRITICAL + 1)  # what aiohttp logs quotes what was sent (R7)


class Connections:
    """The connections to an application, from :meth:`serve` to :meth:`close`.

    Attributes:
        last_used: when somebody last was there, on the loop's clock; see :attr:`is_watched`.
    """

    def __init__(self, app: web.Application) -> None:
        app.middlewares.insert(0, self._make_middleware())
        self._runner = web.AppRunner(app, shutdown_timeout=SHUTDOWN_SECONDS)
        self._uses: dict[web.RequestHandler, _Use] = {}
        self._server: asyncio.Server | None = None
        self._looking: asyncio.Task[None] | None = None
        self.last_used = 0.0

    @property
    def is_watched(self) -> bool:
        """Tell whether anything is being answered just now: a live stream is, to its end."""
        return any(use.is_answering or use.buffered for use in self._uses.values())

    async def serve(self, listener: socket.socket) -> None:
        """Begin to accept connections."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        self.last_used = loop.time()
        self._server = await loop.create_server(self._make, sock=listener)
        self._looking = asyncio.ensure_future(self._look())

    async def close(self) -> None:
        """Accept no more, and end all."""
        if self._server is not None:
            self._server.close()
        if self._looking is not None:
            self._looking.cancel()
        await self._runner.cleanup()

    def add(self, connection: web.RequestHandler) -> bool:
        """Count a new connection (rule 1); returns whether there is room for it."""
        if len(self._uses) >= MAX_CONNECTIONS:
            waiting = [one for one, use in self._uses.items() if not use.is_answering]
            if not waiting:
                return False
            oldest = min(waiting, key=lambda one: self._uses[one].since)
            del self._uses[oldest]
            _end(oldest)
        self._uses[connection] = _Use(self._note())
        return True

    def remove(self, connection: web.RequestHandler) -> None:
        """Forget a connection that is gone."""
        self._uses.pop(connection, None)

    def _note(self) -> float:
        """Note that somebody is there; returns the time."""
        self.last_used = asyncio.get_running_loop().time()
        return self.last_used

    def _make(self) -> asyncio.Protocol:
        server = self._runner.server
        if server is None:
            raise AssertionError("it is set up")
        return _Connection(server, self)

    def _make_middleware(self) -> Middleware:
        @web.middleware
        async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
            use = self._uses.get(request.protocol, _Use(0.0))
            use.is_answering, use.since = not request.can_read_body, self._note()
            try:
                return await handler(request)
            finally:
                use.is_answering, use.since = False, self._note()

        return count

    async def _look(self) -> None:
        """End, now and then, what only sits there (rule 2)."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = asyncio.get_running_loop().time()
            for connection, use in list(self._uses.items()):
                if use.has_stood_still(connection.transport, now):
                    _end(connection)


class _Use:
    """What goes on with one connection, and since when nothing does."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.is_answering = False
        self.buffered = 0

    def has_stood_still(self, transport: asyncio.BaseTransport | None, now: float) -> bool:
        buffered = count_buffered(transport) if isinstance(transport, asyncio.Transport) else 0
        is_working = self.is_answering and not buffered
        if is_working or buffered != self.buffered:
            self.since = now
        self.buffered = buffered
        return now - self.since > WAIT_SECONDS


class _Connection(web.RequestHandler):
    """A connection that is counted."""

    def __init__(self, server: web.Server, connections: Connections) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type] # it may be none
            logger=_QUIET,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_FIELD_BYTES,
        )
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self._connections.add(self):
            _end(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.remove(self)
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,  # noqa: ARG002 - aiohttp gives it
        message: str | None = None,  # noqa: ARG002 - it quotes what was sent
    ) -> web.StreamResponse:
        """Answer what is not a request (rule 3)."""
        if request.writer.output_size > 0:
            raise ConnectionError
        words = "this is not an HTTP request" if status < 500 else "the page has a defect"
        response = build_error(PageError("parameter" if status < 500 else "internal", words))
        response.headers.update({**HEADERS, "Cache-Control": "no-store"})
        response.force_close()
        return response


def _end(connection: web.RequestHandler) -> None:
    """End a connection at once."""
    if isinstance(connection.transport, asyncio.Transport):
        connection.transport.abort()
