"""A new connection of the port, until it is opened, tunnelled or refused.

First comes a CONNECT. If its host is one to open, the client's first TLS message decides whether
the connection is opened; otherwise the host is dialled and a tunnel begins.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from typing import TYPE_CHECKING, Final, cast

from proxy.downstream.request_faults import BadRequest
from proxy.downstream.server import MAX_TURNED_AWAY_SECONDS
from proxy.downstream.tls_port import HANDSHAKE_SECONDS
from proxy.errors import encode_error
from proxy.interception.client_hello import BadHello, NotTls, read_client_hello
from proxy.interception.connect_head import read_connect
from proxy.interception.interception import Refusal, TunnelReason
from proxy.interception.opened import OpenedConnection, OpenedTls
from proxy.interception.tunnel import Tunnel
from proxy.sockets import half_close, set_up
from proxy.tasks import spawn
from proxy.upstream.errors import UpstreamError

if TYPE_CHECKING:
    from proxy.interception.connect_head import ConnectRequest
    from proxy.interception.state import InterceptState

_log = logging.getLogger("spantap.interception")

MAX_HEAD_BYTES = 8 * 1024
"""The largest head of a CONNECT. Real ones have less than 500 bytes."""

_END_OF_HEAD: Final = b"\r\n\r\n"
_TLS: Final = b"\x16\x03"
_CONNECTED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
_CHALLENGE: Final = ((b"Proxy-Authenticate", b'Basic realm="spantap"'),)
_UNPROVEN: Final = (
    "This port takes only connections with its secret, which the programs have that are to use it."
)
_OWN_PORT: Final = "This is one of spantap's own ports; connect to it directly, without a proxy."
_TOO_MANY: Final = "%d tunnels are open, and there may be no more; try again shortly."


class _Alert(enum.IntEnum):
    """TLS alerts that we send ourselves (RFC 8446 section 6)."""

    DECODE_ERROR = 50
    UNRECOGNIZED_NAME = 112

    def encode(self) -> bytes:
        return b"\x15\x03\x03\x00\x02\x02" + bytes([self])


class InterceptConnection(asyncio.Protocol):
    """A connection that has not been opened or tunnelled yet."""

    _transport: asyncio.Transport
    _timer: asyncio.TimerHandle

    def __init__(self, state: InterceptState) -> None:
        self._state = state
        self._loop = asyncio.get_running_loop()
        self._data = b""
        self._due = 0.0
        self._asked: ConnectRequest | None = None  # once we have said that it is connected
        self._is_over = False
        self._dialling: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, unless it is one connection too many."""
        self._transport = cast("asyncio.Transport", transport)
        self._due = self._loop.time() + HANDSHAKE_SECONDS
        self._timer = self._loop.call_at(self._due, self._transport.abort)
        if self._state.admit(self._transport):
            set_up(self._transport)
        else:
            self._timer.cancel()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's interface
        """Forget the client."""
        self._timer.cancel()
        self._state.release(self._transport)
        if self._dialling is not None:
            self._dialling.cancel()

    def data_received(self, data: bytes) -> None:
        """Read the CONNECT, or what follows our answer; drop what follows a refusal."""
        if self._is_over:
            return
        self._data += data
        if self._asked is None:
            self._read_head()
        else:
            self._read_hello(self._asked)

    def _read_head(self) -> None:
        head, end, rest = self._data.partition(_END_OF_HEAD)
        if len(head) > MAX_HEAD_BYTES:
            message = f"The head of the CONNECT is longer than {MAX_HEAD_BYTES} bytes."
            self._refuse(Refusal.BAD_CONNECT, 431, "invalid_http_request", message)
        elif head.startswith(_TLS):
            message = "TLS was sent to a port that speaks plain HTTP; use an http:// proxy URL."
            self._refuse(Refusal.BAD_CONNECT, 400, "invalid_http_request", message)
        elif end:
            try:
                asked = read_connect(head)
            except BadRequest as fault:
                refusal = Refusal.NO_CONNECT if fault.status == 501 else Refusal.BAD_CONNECT
                self._refuse(refusal, fault.status, fault.code, fault.message)
            else:
                self._take(asked, rest)

    def _take(self, asked: ConnectRequest, rest: bytes) -> None:
        """Do what a CONNECT asks for."""
        state = self._state
        if not state.is_secret(asked.password):
            refusal = Refusal.NO_SECRET if asked.password is None else Refusal.WRONG_SECRET
            self._refuse(refusal, 407, "no_secret", _UNPROVEN, _CHALLENGE)
        elif rest:
            message = "Bytes followed the CONNECT before it was answered."
            self._refuse(Refusal.BAD_CONNECT, 400, "invalid_http_request", message)
        elif state.is_ours(asked):
            self._refuse(Refusal.OWN_PORT, 403, "own_port", _OWN_PORT)
        elif (reason := state.find_tunnel_reason(asked.host, asked.port)) is not None:
            self._begin_tunnel(asked, reason)
        else:
            self._asked = asked
            self._data = b""
            self._transport.write(_CONNECTED)

    def _read_hello(self, asked: ConnectRequest) -> None:
        """Open the connection if the client's first message allows it."""
        try:
            hello = read_client_hello(self._data)
        except NotTls:
            self._begin_tunnel(asked, TunnelReason.NO_TLS)
            return
        except BadHello:
            self._refuse_tls(Refusal.BAD_HELLO, _Alert.DECODE_ERROR)
            return
        if hello is None:
            return
        if hello.server_name not in {None, asked.host}:
            self._refuse_tls(Refusal.SERVER_NAME, _Alert.UNRECOGNIZED_NAME)
            return
        reason = self._state.find_tunnel_reason(asked.host, asked.port)
        if reason is None and hello.protocols and b"http/1.1" not in hello.protocols:
            reason = TunnelReason.HTTP2_ONLY
        if reason is not None:
            self._begin_tunnel(asked, reason)
            return
        self._timer.cancel()
        transport = self._transport
        opened = OpenedConnection(self._state, asked.host, transport)
        seconds = max(self._due - self._loop.time(), 0.1)
        OpenedTls(opened, self._state, asked.host, seconds).begin(transport, self._data)

    # Tunnels.

    def _begin_tunnel(self, asked: ConnectRequest, reason: TunnelReason) -> None:
        """Dial the host. Meanwhile the client is not read; dialling has its own time limit."""
        if (count := self._state.tunnel_count) >= self._state.max_tunnels:
            self._refuse(Refusal.TOO_MANY, 503, "too_many_tunnels", _TOO_MANY % count)
            return
        self._timer.cancel()
        self._transport.pause_reading()
        self._state.tunnel_count += 1
        self._dialling = spawn(self._dial(asked, reason), name="dial for a tunnel")

    async def _dial(self, asked: ConnectRequest, reason: TunnelReason) -> None:
        far = None
        try:
            far = await self._state.dial(asked.host, asked.port)
        except UpstreamError as error:
            message = f"{asked.host}:{asked.port}: {error.sentence}"
            message += f" ({error})." if str(error) else "."
            self._refuse(Refusal.UNREACHABLE, error.status, error.code, message)
        except Exception:  # noqa: BLE001 - the client is not read now, and would wait for ever
            _log.exception("a tunnel could not be made")
            self._transport.abort()
        finally:
            if far is None:
                self._state.tunnel_count -= 1
        if far is not None:
            self._join(asked, reason, far)

    def _join(self, asked: ConnectRequest, reason: TunnelReason, far: asyncio.Transport) -> None:
        near, state = self._transport, self._state
        leads_to_us = state.leads_to_us(far)
        if leads_to_us or near.is_closing():
            state.tunnel_count -= 1
            far.abort()
            if leads_to_us:
                self._refuse(Refusal.OWN_PORT, 403, "own_port", _OWN_PORT)
            return
        self._dialling = None
        if self._asked is None:
            near.write(_CONNECTED)
            self._data = b""
        count = state.tally.count_tunnel(asked.host, asked.port, reason)

        def end() -> None:
            state.tunnel_count -= 1
            state.release(near)

        Tunnel(near, far, count, end).begin(self._data)

    # Refusals.

    def _refuse(
        self,
        refusal: Refusal,
        status: int,
        code: str,
        message: str,
        fields: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        """Answer with an error, and end the connection once the client could read it.

        After the answer that the client is connected, an error would be taken for the host's own
        words, so the connection is reset.
        """
        self._state.refuse(refusal)
        if self._asked is not None or self._transport.is_closing():
            self._transport.abort()
            return
        self._end(encode_error(status, code, message, fields=fields))

    def _refuse_tls(self, refusal: Refusal, alert: _Alert) -> None:
        self._state.refuse(refusal)
        self._end(alert.encode())

    def _end(self, last: bytes) -> None:
        """Send the last bytes, and drop what comes: a reset would take them from the client."""
        self._is_over = True
        self._data = b""
        self._timer.cancel()
        self._timer = self._loop.call_later(MAX_TURNED_AWAY_SECONDS, self._transport.abort)
        self._transport.write(last)
        half_close(self._transport)
        self._transport.resume_reading()
