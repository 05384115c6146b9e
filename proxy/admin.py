"""The admin port: alive, ready, metrics.

It is separate from the traffic port, where every path belongs to the upstream
(``docs/contract/promises.md#admin-port``). Threads serve it, so that traffic and collectors of
metrics do not wait for each other.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

from telemetry.metrics.prometheus import CONTENT_TYPE, render

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.metrics.snapshot import Snapshot

MAX_REQUESTS = 64
"""How many connections are answered at a time: some probes and a few collectors of metrics. One
more ends the oldest, because a slow client must not keep out the probe that decides whether we
live."""

REQUEST_SECONDS = 10.0
"""How long a client may take for a request and its answer."""

POLL_SECONDS = 0.1
"""The time between two looks for clients that took too long."""


class AdminServer:
    """Serves the admin port on threads, from :meth:`start` to :meth:`close`.

    Args:
        listener: a listening socket, which :meth:`close` closes.
        is_ready: returns false while we start or drain; called on any thread.
        metrics: returns the numbers as they are now; called on any thread.
    """

    def __init__(
        self,
        listener: socket.socket,
        *,
        is_ready: Callable[[], bool],
        metrics: Callable[[], Snapshot],
    ) -> None:
        self._is_ready = is_ready
        self._metrics = metrics
        self._server = _Server(listener, self._find_page)
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            args=(POLL_SECONDS,),
            name="spantap-admin",
            daemon=True,
        )

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()

    def _find_page(self, path: str) -> _Page:
        """Return one of the three pages."""
        if path == "/healthz":
            return _Page(200, "ok\n")
        if path == "/readyz":
            return _Page(200, "ready\n") if self._is_ready() else _Page(503, "draining\n")
        if path == "/metrics":
            return _Page(200, render(self._metrics()), CONTENT_TYPE)
        return _Page(404, "there are /healthz, /readyz and /metrics\n")


class _Page(NamedTuple):
    status: int
    text: str
    kind: str = "text/plain; charset=utf-8"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket, find_page: Callable[[str], _Page]) -> None:
        super().__init__(listener.getsockname(), _Request, bind_and_activate=False)
        self.socket.close()  # the base class has made a socket that we do not use
        listener.setblocking(True)  # noqa: FBT003 - its only parameter
        self.socket = listener
        self.find_page = find_page
        self._since_seconds: dict[socket.socket, float] = {}  # when each began, the oldest first

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one connection, on a separate thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._since_seconds.pop(request, None)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer on a thread; end the oldest connections if there are too many."""
        too_many = len(self._since_seconds) - MAX_REQUESTS + 1
        for oldest in list(self._since_seconds)[: max(0, too_many)]:
            _end(oldest)
        self._since_seconds[request] = time.monotonic()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """End connections that take too long: a timeout of each read does not limit the whole."""
        limit_seconds = time.monotonic() - REQUEST_SECONDS
        for request, since_seconds in list(self._since_seconds.items()):
            if since_seconds < limit_seconds:
                _end(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing about a client that breaks off."""


def _end(request: socket.socket) -> None:
    """End a connection, which wakes the thread that reads or writes it."""
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Request(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_SECONDS

    def do_GET(self) -> None:
        """Answer with a page."""
        page = self.server.find_page(self.path.partition("?")[0])
        body = page.text.encode()
        self.send_response(page.status)
        self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the base class finds it by this name

    def version_string(self) -> str:
        """Return the ``Server`` field, without the versions of Python and of its library."""
        return "spantap"

    def log_message(self, *_: object) -> None:
        """Log nothing, because probes come every few seconds."""
