"""A TCP relay that can be gone: what stands behind it lives on, and is out of reach."""

from __future__ import annotations

import contextlib
import selectors
import socket
import socketserver
import threading
from typing import Any, Self

__all__ = ("Relay",)

_READ_BYTES = 64 << 10


class Relay:
    """Connections to `port` on loopback reach `target_port`, while it is open; a context manager.

    At its end open connections are cut, and new ones are refused.
    """

    def __init__(self, *, port: int, target_port: int) -> None:
        self._server = _Server(port, target_port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.cut()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = False  # so that server_close waits for them

    def __init__(self, port: int, target_port: int) -> None:
        super().__init__(("127.0.0.1", port), _Connection)
        self.target = ("127.0.0.1", target_port)
        self._ends: set[socket.socket] = set()
        self._lock = threading.Lock()

    def add(self, end: socket.socket) -> None:
        with self._lock:
            self._ends.add(end)

    def remove(self, end: socket.socket) -> None:
        with self._lock:
            self._ends.discard(end)

    def cut(self) -> None:
        """End all connections."""
        with self._lock:
            for end in self._ends:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that is cut is what this is for."""


class _Connection(socketserver.BaseRequestHandler):
    server: _Server
    request: socket.socket

    def handle(self) -> None:
        """Copy both ways until one end is gone."""
        with (
            socket.create_connection(self.server.target) as upstream,
            selectors.DefaultSelector() as selector,
        ):
            self.server.add(self.request)
            try:
                selector.register(self.request, selectors.EVENT_READ, upstream)
                selector.register(upstream, selectors.EVENT_READ, self.request)
                while True:
                    for key, _ in selector.select():
                        source, target = key.fileobj, key.data
                        assert isinstance(source, socket.socket)
                        if not (data := source.recv(_READ_BYTES)):
                            return
                        target.sendall(data)
            finally:
                self.server.remove(self.request)
