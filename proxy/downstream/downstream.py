"""The client's side of an exchange: one request, and how it is answered.

Heads and bodies of answers are written here, as bytes, because aiohttp's own responses add, fold
and re-encode fields (R1). The connections are those of :mod:`proxy.downstream.connection`.

Rules, here and there:

1. Nothing is added to a relayed head but what frames this hop; a 204 has nothing that frames
   (RFC 9110 section 8.6, RFC 9112 section 6.1).
2. A client that closes, resets or half-closes its connection cancels the handler at once.
3. A broken end is never a clean one: chunked and counted bodies just stop; a body that only the
   end of the connection delimits is cut by a reset, after all its bytes were acknowledged.
4. What is no valid HTTP is answered with an OpenAI-shaped 4xx, closed, counted, and told in a
   rate-limited log line (R3); it never reaches a handler. A body that breaks its framing after
   its request did is answered by the handler, and counted and told likewise.
5. An answer after which we close is read by the client first: our side is closed, and what still
   comes is read and dropped for a while, as a reset would take the answer from the client.
6. Going down closes idle connections; a busy one takes its request to the end. It ends with the
   answer, if the answer's head could still say so; if not, the next request may be on its way, and
   its answer will say so.
7. There are limits (:class:`proxy.limits.DownstreamLimits`): a connection past their number is
   told so and closed; a head that does not come in time is answered with 408, or with nothing
   where none began; a client that takes nothing of its answer is cut by a reset.
8. While bytes wait for a client beyond the transport's mark (64 KiB), nothing more is written:
   there is never more in its buffer than that and one read of the upstream's.
9. A worker that has lost its supervisor takes no further request, on a kept connection neither:
   telemetry goes with the supervisor, and the call would have no span (R3).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

from aiohttp import ClientConnectionResetError
from aiohttp.http import HttpVersion11
from aiohttp.web_response import StreamResponse

from proxy.errors import encode_error
from proxy.headers import FRAMING, MAX_SHAPES, Head, response_headers
from proxy.request_body import RequestBody
from proxy.stall_watch import count_buffered, count_unacknowledged

if TYPE_CHECKING:
    from aiohttp import web
    from aiohttp.http import RawRequestMessage
    from aiohttp.streams import StreamReader

    from proxy.downstream.connection import DownstreamConnection

__all__ = ("Answered", "Downstream", "LastAnswer", "half_close", "reset")

_NO_CODINGS = frozenset({b"", b"identity"})
"""What some name as a transfer coding that is none (RFC 9112 section 7)."""

_LAST_CHUNK = b"0\r\n\r\n"

MAX_RESET_WAIT_SECONDS = 2.0
"""How long a cut waits for the client to acknowledge what came before it (rule 3)."""


class Answered(StreamResponse):
    """Tells the connection's loop that the answer is on the wire, and how to go on.

    Attributes:
        end_delimits: only the end of the connection tells where the body ends.
    """

    def __init__(self, *, keeps_alive: bool, end_delimits: bool = False) -> None:
        super().__init__()
        self._keeps_alive = keeps_alive
        self.end_delimits = end_delimits

    @property
    def keep_alive(self) -> bool:
        """Whether the connection serves another request."""
        return self._keeps_alive


_ANSWERED = {
    (keeps_alive, end_delimits): Answered(keeps_alive=keeps_alive, end_delimits=end_delimits)
    for keeps_alive in (False, True)
    for end_delimits in (False, True)
}
"""All that there can be: nothing in one belongs to a request."""


class LastAnswer(Answered):
    """An answer of ours after which the connection ends (rule 5).

    Attributes:
        unwritten: what is not on the wire yet.
    """

    def __init__(self, data: bytes = b"") -> None:
        super().__init__(keeps_alive=False)
        self.unwritten = data


class Downstream:
    """One request's client: what it sent, and how it is answered.

    Attributes:
        method: as sent.
        target: raw path and query, undecodable bytes as surrogates.
        headers: raw fields.
        body: reader of the request's body.
        head_sent: the answer has begun.
    """

    def __init__(
        self,
        connection: DownstreamConnection,
        message: RawRequestMessage,
        body: StreamReader,
        head: Head,
        *,
        body_idle_seconds: float,
    ) -> None:
        self._connection = connection
        self._waiting_head = b""
        self._chunked = False
        self._must_reset = False
        self._keeps_alive = not message.should_close
        self._knows_chunks = message.version >= HttpVersion11
        self.head_sent = False
        self.method = message.method
        self.target = message.path
        self.headers = head
        self.body = RequestBody(body, idle_seconds=body_idle_seconds)

    @property
    def stalled(self) -> bool:
        """Whether the client was cut because it took nothing of its answer (rule 7)."""
        return self._connection.stalled

    @property
    def path(self) -> str:
        """The raw path without the query."""
        return self.target.partition("?")[0]

    def continue_if_expected(self) -> None:
        """Answer ``Expect: 100-continue``, as the body is read before it is relayed.

        Raises:
            ConnectionError: the client is gone.
        """
        expect = self.headers.find(b"expect")
        if expect is not None and expect.lower() == b"100-continue" and self._knows_chunks:
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def begin_answer(
        self,
        status: int,
        reason: str,
        headers: Head,
        *,
        has_body: bool,
        keeps_length: bool = True,
    ) -> None:
        """Relay an answer's head, with what is sent next, or by :meth:`flush`.

        Args:
            status: as received.
            reason: as received; undecodable bytes as surrogates.
            headers: the upstream's raw fields.
            has_body: a body follows (not for HEAD, 204 and 304).
            keeps_length: the upstream's ``Content-Length`` still holds.
        """
        if status == 204:  # it has no body, and says nothing of one
            headers = headers.without(FRAMING)
        framing = _frame_answer(
            headers.join(b"transfer-encoding"),
            keeps_length and headers.has(b"content-length"),
            has_body,
            self._knows_chunks,
            self._keeps_alive and not self._connection.closing,
        )
        fields = response_headers(
            headers, keeps_length=keeps_length, keeps_chunked=framing.keeps_chunked
        )
        first_line = b"HTTP/1.1 %03d %s" % (status, reason.encode("utf-8", "surrogateescape"))
        head = [first_line, *map(b": ".join, fields), framing.last_lines]
        self._keeps_alive = framing.keeps_alive
        self._must_reset = framing.must_reset
        self.head_sent = True
        self._waiting_head = b"\r\n".join(head)
        self._chunked = framing.chunked

    @property
    def is_free(self) -> bool:
        """Whether :meth:`send` would not wait, nor fail, and the head is on its way."""
        connection = self._connection
        transport = connection.transport
        return not (
            transport is None
            or connection.writing_paused
            or transport.is_closing()
            or self._waiting_head
        )

    def send_at_once(self, data: bytes) -> None:
        """Relay bytes of the body to a client that :attr:`is_free`."""
        if (transport := self._connection.transport) is not None:
            transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    async def flush(self) -> None:
        """Send the head, if it still waits for a body to go with.

        Raises:
            ConnectionError: the client is gone.
        """
        if self._waiting_head:
            head, self._waiting_head = self._waiting_head, b""
            await self._send(head)

    async def send(self, data: bytes) -> None:
        """Relay bytes of the body, and wait while the client is slow (backpressure).

        Raises:
            ConnectionError: the client is gone.
        """
        head, self._waiting_head = self._waiting_head, b""
        if self._chunked:
            await self._send(b"%b%x\r\n%b\r\n" % (head, len(data), data))
        else:
            await self._send(head + data if head else data)

    async def finish(self) -> web.StreamResponse:
        """End the answer cleanly, and its connection as the head said (rule 6)."""
        last = self._waiting_head + (_LAST_CHUNK if self._chunked else b"")
        self._waiting_head = b""
        if last:
            self._write(last)
        return _ANSWERED[self._keeps_alive, self._must_reset]

    def _write(self, data: bytes) -> None:
        transport = self._connection.transport
        if transport is None or transport.is_closing():
            raise ClientConnectionResetError("the client is gone")
        transport.write(data)

    async def _send(self, data: bytes) -> None:
        if self._connection.writing_paused:  # by what was sent at once
            await self._connection.drain()
        self._write(data)
        if self._connection.writing_paused:  # rule 8
            await self._connection.drain()

    async def answer_error(self, status: int, code: str, message: str) -> web.StreamResponse:
        """Send an answer of ours, whole.

        The connection ends after it: the request's body may not have been read.
        """
        self.head_sent = True
        has_body = self.method != "HEAD"
        self._write(encode_error(status, code, message, has_body=has_body))
        return LastAnswer()

    async def cut(self) -> web.StreamResponse:
        """End the answer broken, after every byte of it was sent (rule 3)."""
        transport = self._connection.transport
        if transport is not None:
            if self._must_reset:
                await self._reset_when_acknowledged(transport)
            transport.close()
        return _ANSWERED[False, False]

    async def _reset_when_acknowledged(self, transport: asyncio.Transport) -> None:
        try:
            async with asyncio.timeout(MAX_RESET_WAIT_SECONDS):
                # Not by awaiting the writer: a cancelled write leaves it in a state that raises.
                while _has_unread(transport):  # noqa: ASYNC110 - the kernel tells nobody
                    await asyncio.sleep(0.005)
        except TimeoutError:
            pass  # the client does not read: nothing more can be done for it
        reset(transport)


class _Framing(NamedTuple):
    """How an answer is framed, and what its head says of it.

    Attributes:
        last_lines: what follows the fields that are relayed.
        chunked: its body goes in chunks of ours.
        keeps_chunked: the upstream's ``Transfer-Encoding`` stays.
        must_reset: only the end of the connection tells where the body ends.
        keeps_alive: the connection serves another request.
    """

    last_lines: bytes
    chunked: bool
    keeps_chunked: bool
    must_reset: bool
    keeps_alive: bool


@functools.lru_cache(MAX_SHAPES)
def _frame_answer(
    encoding: bytes | None,
    counted: bool,  # noqa: FBT001 - a cache's keyword arguments cost, here and below
    has_body: bool,  # noqa: FBT001
    knows_chunks: bool,  # noqa: FBT001
    keeps_alive: bool,  # noqa: FBT001
) -> _Framing:
    """What follows of all that tells one answer's framing from another's.

    Args:
        encoding: the upstream's ``Transfer-Encoding``.
        counted: its ``Content-Length`` holds.
        has_body: a body follows.
        knows_chunks: the client does.
        keeps_alive: nothing else ends the connection.
    """
    codings = [coding.strip() for coding in (encoding or b"").lower().split(b",")]
    chunked = has_body and not counted and knows_chunks
    must_reset = has_body and not counted and not chunked
    # In answer to HEAD, and in a 304, it says how the body would be framed.
    would_be_chunked = not has_body and knows_chunks
    last_lines = b""
    # Chunks are what frames it where that is the last coding (RFC 9112 section 6.1).
    if chunked and codings[-1] != b"chunked":
        last_lines += b"Transfer-Encoding: chunked\r\n"
    if must_reset or not keeps_alive:
        last_lines += b"Connection: close\r\n"
    elif not knows_chunks:
        last_lines += b"Connection: keep-alive\r\n"
    return _Framing(
        last_lines=last_lines + b"\r\n",
        chunked=chunked,
        keeps_chunked=not _NO_CODINGS.issuperset(codings) and (chunked or would_be_chunked),
        must_reset=must_reset,
        keeps_alive=keeps_alive and not must_reset,
    )


def half_close(transport: asyncio.Transport) -> None:
    """Close our side behind what is written; over TLS, which cannot, the client closes first."""
    if transport.can_write_eof():
        # A client that has just reset the connection is told nothing; asyncio hears of it next.
        with contextlib.suppress(OSError):
            transport.write_eof()


def reset(transport: asyncio.Transport | None) -> None:
    """End a connection with RST, which no client takes for a clean end.

    One that is closing, but has bytes to write still, is open until then.
    """
    if transport is None:
        return
    if not transport.is_closing() or count_buffered(transport):
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


def _has_unread(transport: asyncio.Transport) -> bool:
    """Whether the client has not acknowledged all yet."""
    return not transport.is_closing() and count_unacknowledged(transport) > 0
