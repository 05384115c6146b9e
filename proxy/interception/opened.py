"""An opened connection: TLS with a leaf of the run's authority, and requests inside it.

asyncio's ``start_tls`` may deliver the first bytes of a client before its protocol has a
connection. Here TLS is a protocol itself, as on the traffic port, and calls ``connection_made``
before ``data_received``.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from proxy.downstream.connection import DownstreamConnection
from proxy.downstream.tls_port import TlsProtocol
from proxy.interception.interception import Refusal
from proxy.upstream.errors import UpstreamWantsCertificateError

if TYPE_CHECKING:
    from proxy.downstream.downstream import Answered, Downstream
    from proxy.interception.state import InterceptState

SOON_SECONDS = 2.0
"""A client that ends a connection so soon after the handshake, and has sent nothing, may have
looked at our certificate only then, as Node does."""

_OTHER_HOST = (
    "This connection was opened for another host than the one that the request names. Send the "
    "request on a connection to its own host."
)

_TUNNELLED_NEXT = (
    " From now on spantap passes connections to this host without opening them, so a client with a "
    "certificate can connect again."
)

_PORT = re.compile(rb"\.?(:443)?")


class OpenedConnection(DownstreamConnection):
    """A client's requests to one host.

    Args:
        intercept: shared by all connections.
        host: the host that the client named in its CONNECT.
        below: the transport below TLS.
    """

    def __init__(self, intercept: InterceptState, host: str, below: asyncio.Transport) -> None:
        server = intercept.server
        super().__init__(
            self._answer_for_host, server.state, admit=server.admit, forget=self._leave
        )
        self._intercept = intercept
        self._host = host
        self._below = below
        self._made_at = 0.0
        self._has_sent = False
        self.is_made = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve, when the handshake is over."""
        self.is_made = True
        self._made_at = asyncio.get_running_loop().time()
        self._intercept.tally.note_opened(self._host)
        self._intercept.opened[self] = self._host
        self._intercept.release(self._below)  # the server counts it next
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Parse what came; the first bytes show that the client trusts us."""
        if not self._has_sent:
            self._has_sent = True
            self._intercept.tally.note_trusted(self._host)
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End, and note whether the client seems to distrust us."""
        seconds = asyncio.get_running_loop().time() - self._made_at
        if not (self._has_sent or self._ends) and seconds < SOON_SECONDS:
            self._intercept.tally.note_failure(self._host)
        super().connection_lost(exc)

    def _leave(self, connection: DownstreamConnection) -> None:
        self._intercept.opened.pop(connection, None)
        self._intercept.server.connections.discard(connection)

    async def _answer_for_host(self, downstream: Downstream) -> Answered:
        intercept = self._intercept
        named = downstream.headers.find(b"host")
        if named is not None and not _is_host(named, self._host):
            intercept.refuse(Refusal.HOST)
            return await downstream.answer_error(421, "misdirected_request", _OTHER_HOST)
        if intercept.find_tunnel_reason(self._host, 443) is not None:
            downstream.close_after_answer()
        downstream.advise = self._advise
        label = intercept.interception.label
        return await intercept.relay(f"https://{self._host}", label, downstream)

    def _advise(self, code: str) -> str:
        """Leave the host alone if the error is that it wants a client certificate."""
        if code != UpstreamWantsCertificateError.code:
            return ""
        self._intercept.leave_alone(self._host)
        return _TUNNELLED_NEXT


class OpenedTls(TlsProtocol):
    """Serves TLS on an opened connection after its first message was read."""

    def __init__(
        self, served_by: OpenedConnection, intercept: InterceptState, host: str, seconds: float
    ) -> None:
        super().__init__(served_by, intercept.contexts.find(host), handshake_seconds=seconds)
        self._served_by = served_by
        self._intercept = intercept
        self._host = host

    def begin(self, below: asyncio.Transport, hello: bytes) -> None:
        """Begin the handshake with the message that was read."""
        self._below = below
        below.set_protocol(self)
        self.connection_made(below)
        while hello:
            room = memoryview(self.get_buffer(len(hello)))
            size = min(len(room), len(hello))
            room[:size] = hello[:size]
            hello = hello[size:]
            self.buffer_updated(size)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget a handshake that failed, and note it if that was the client's doing."""
        if not self._served_by.is_made:
            self._intercept.release(self._below)
            # A handshake that took too long is aborted by asyncio; no error means that we ended it.
            if exc is not None and not isinstance(exc, ConnectionAbortedError):
                self._intercept.tally.note_failure(self._host)
        super().connection_lost(exc)


def _is_host(value: bytes, host: str) -> bool:
    """Tell whether the value of ``Host`` names a host, with its port or without."""
    lower, name = value.lower(), host.encode("ascii")
    return lower.startswith(name) and _PORT.fullmatch(lower, len(name)) is not None
