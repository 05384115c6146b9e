"""Connections of the traffic port that begin with a TLS handshake.

asyncio tells a server of a connection when its handshake is over. Until then nobody counts it, and
it holds a file and some 0.1 MB until the handshake's limit, even for a client that opens thousands
and sends nothing. So TLS is the protocol that this port serves, and a connection counts from its
first moment to its last one, whatever becomes of its handshake.
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
"""How long a client's handshake may take: it holds a connection and a file, and asyncio alone would
wait for a minute."""

READ_BYTES = 64 * 1024
"""The most that one read takes, as for a plain connection: four records of the largest size (RFC
8446 section 5.1). asyncio's own buffer, four times as large and filled with zeros at the beginning,
would be most of what a client costs."""


class TlsPort:
    """The listening side of TLS: ``loop.create_server(TlsPort(server, context))``, without ``ssl``.

    Args:
        server: serves a connection when its handshake is over.
        tls: of the port.
    """

    def __init__(self, server: DownstreamServer, tls: ssl.SSLContext) -> None:
        self._server = server
        self._tls = tls
        self._open: set[_TlsConnection] = set()

    def __len__(self) -> int:
        """Connections that are open, those that are in their handshake among them."""
        return len(self._open)

    def __call__(self) -> asyncio.BaseProtocol:
        """Make the protocol of a new connection."""
        return _TlsConnection(self, self._server(), self._tls)

    def admit(self, connection: _TlsConnection) -> bool:
        """Count a connection that begins; false where there are too many.

        There are as many as may be served, or told that there are too many
        (:mod:`proxy.downstream.server`). Beyond them a connection is closed before its handshake
        costs anything.
        """
        if len(self._open) >= self._server.state.limits.max_connections + MAX_TURNED_AWAY:
            self._server.state.count_turned_away()
            return False
        self._open.add(connection)
        return True

    def forget(self, connection: _TlsConnection) -> None:
        """Forget a connection that is over."""
        self._open.discard(connection)


class _TlsConnection(SSLProtocol):
    """asyncio's TLS, on one connection. A test holds what of it is used and not documented."""

    max_size = READ_BYTES

    def __init__(self, port: TlsPort, served_by: asyncio.BaseProtocol, tls: ssl.SSLContext) -> None:
        options: dict[str, Any] = {
            "waiter": None,  # nobody waits for the handshake
            "server_side": True,
            "ssl_handshake_timeout": HANDSHAKE_SECONDS,
        }
        super().__init__(asyncio.get_running_loop(), served_by, tls, **options)
        self._port = port

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake, or end it all."""
        if self._port.admit(self):
            super().connection_made(transport)
        else:
            cast("asyncio.Transport", transport).abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget a connection that is gone, whether its handshake was over or not."""
        self._port.forget(self)
        super().connection_lost(exc)
