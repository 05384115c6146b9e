"""The page's connections: limited in number, and closed if nothing happens on them."""

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
"""The most connections: 64 tabs that watch, with three more each. A connection takes 30 KB."""

WAIT_SECONDS: Final = 60.0
"""How long a connection may be idle: without a whole request, or while its client reads nothing of
an answer. A browser opens another when it needs one, also after its machine has slept."""

LOOK_SECONDS: Final = 1.0
"""How often connections are checked."""

SHUTDOWN_SECONDS: Final = 0.2
"""How long a shutdown waits for answers; streams never end by themselves."""

MAX_LINE_BYTES: Final = 64 * 1024
"""The longest request line; it may have a filter with texts to search for."""

MAX_FIELD_BYTES: Final = 16 * 1024
"""The longest header field; the cookies of all ports of this machine come in one."""

_QUIET: Final = logging.getLogger("spantap.page.http")
_QUIET.setLevel(logging.CRITICAL + 1)  # aiohttp's log lines quote what was sent (R7)


class Connections:
    """The connections to an application, from :meth:`serve` to :meth:`close`.

    Attributes:
        last_used: when somebody last used the page, on the loop's clock; see :attr:`is_watched`.
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
        """Whether any request is being answered now; a live stream is, to its end."""
        return any(use.is_answering or use.buffered for use in self._uses.values())

    async def serve(self, listener: socket.socket) -> None:
        """Begin to accept connections."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        self.last_used = loop.time()
        self._server = await loop.create_server(self._make, sock=listener)
        self._looking = asyncio.ensure_future(self._look())

    async def close(self) -> None:
        """Accept no more connections, and end all."""
        if self._server is not None:
            self._server.close()
        if self._looking is not None:
            self._looking.cancel()
        await self._runner.cleanup()

    def add(self, connection: web.RequestHandler) -> bool:
        """Count a new connection; return whether there is room for it.

        If there are too many, the one that has had no request for the longest time is ended. If all
        are being answered, the new one is refused. No answer begins before the whole request is
        there, so a client that holds back a body keeps nobody out.
        """
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
        """Note that somebody uses the page; return the time."""
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
        """End idle connections, from time to time."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = asyncio.get_running_loop().time()
            for connection, use in list(self._uses.items()):
                if use.has_stood_still(connection.transport, now):
                    _end(connection)


class _Use:
    """The state of one connection, and when something last happened on it."""

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
            access_log=None,  # type: ignore[arg-type] # aiohttp allows that
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
        """Answer bytes that are not a request, with our headers and an error in our form.

        They are not logged, because anybody can send them.
        """
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
