"""Connections of the traffic port that begin with a TLS handshake.

asyncio's own TLS server reports a connection only when its handshake is over. Until then nobody
would count it, though it holds a file and some 0.1 MB until the handshake's limit: a client could
open thousands and send nothing. So TLS is the protocol that this port serves, and a connection
counts from its first moment to its last, whether its handshake succeeds or not.
"""

from __future__ import annotations

import asyncio
from asyncio.sslproto import SSLProtocol
from typing import TYPE_CHECKING, Any, cast

from proxy.downstream.server import MAX_TURNED_AWAY

if TYPE_CHECKING:
    import ssl

    from proxy.downstream.server import DownstreamServer

HANDSHAKE_SECONDS = 10.0
"""How long a client's handshake may take, because it holds a connection and a file. asyncio's
default is a minute."""

READ_BYTES = 64 * 1024
"""The most that one read takes, as for a plain connection: four records of the largest size (RFC
8446 section 5.1). asyncio's own buffer is four times as large and filled with zeros at the start;
it would be most of what a client costs."""


class TlsPort:
    """The listening side of TLS: ``loop.create_server(TlsPort(server, context))``, without ``ssl``.

    Args:
        server: serves a connection when its handshake is over.
        tls: the TLS context of the port.
    """

    def __init__(self, server: DownstreamServer, tls: ssl.SSLContext) -> None:
        self._server = server
        self._tls = tls
        self._open: set[_TlsConnection] = set()

    def __len__(self) -> int:
        """Return the number of open connections, including those in their handshake."""
        return len(self._open)

    def __call__(self) -> asyncio.BaseProtocol:
        """Make the protocol of a new connection."""
        return _TlsConnection(self, self._server(), self._tls)

    def admit(self, connection: _TlsConnection) -> bool:
        """Count a connection that begins; false if there are too many.

        There may be as many as can be served, and as many as can get the answer that there are too
        many (:mod:`proxy.downstream.server`). More of them are closed before their handshake costs
        anything.
        """
        if len(self._open) >= self._server.state.limits.max_connections + MAX_TURNED_AWAY:
            self._server.state.count_turned_away()
            return False
        self._open.add(connection)
        return True

    def forget(self, connection: _TlsConnection) -> None:
        """Forget a connection that is over."""
        self._open.discard(connection)


class TlsProtocol(SSLProtocol):
    """asyncio's TLS, on one connection. A test checks the undocumented parts that are used here."""

    max_size = READ_BYTES

    def __init__(
        self, served_by: asyncio.BaseProtocol, tls: ssl.SSLContext, *, handshake_seconds: float
    ) -> None:
        options: dict[str, Any] = {
            "waiter": None,  # nobody waits for the handshake
            "server_side": True,
            "ssl_handshake_timeout": handshake_seconds,
        }
        super().__init__(asyncio.get_running_loop(), served_by, tls, **options)


class _TlsConnection(TlsProtocol):
    """A connection of the port."""

    def __init__(self, port: TlsPort, served_by: asyncio.BaseProtocol, tls: ssl.SSLContext) -> None:
        super().__init__(served_by, tls, handshake_seconds=HANDSHAKE_SECONDS)
        self._port = port

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake, or end the connection."""
        if self._port.admit(self):
            super().connection_made(transport)
        else:
            cast("asyncio.Transport", transport).abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget a connection that is gone, whether its handshake was over or not."""
        self._port.forget(self)
        super().connection_lost(exc)
