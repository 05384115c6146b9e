"""The client's side of an exchange: one request, and how it is answered.

Heads and bodies of answers are written here with the bytes that they came with, except for the
closed list of R1. :mod:`proxy.downstream.connection` has the connections. Answering a client that
is gone raises a ``ConnectionError``.

What a client can rely on, here and in the modules beside this one:

- We add nothing to a relayed head except the fields that frame this hop; a 204 has no such field
  (RFC 9110 section 8.6, RFC 9112 section 6.1).
- If a client closes, resets or half-closes its connection, its handler is cancelled at once.
- A broken end never looks like a clean one. Chunked and counted bodies just stop. A body that ends
  with the connection is cut by a reset, after all its bytes were acknowledged.
- Invalid HTTP is answered with an OpenAI-shaped 4xx and a close, counted, and reported in a
  rate-limited log line (R3); it never reaches a handler. If a body breaks its framing after its
  request was handed out, the handler answers; that is counted and reported in the same way.
- If we close after an answer, the client can still read it: we close only our side, and for a while
  read and drop what still comes. A reset would take the answer from the client.
- A shutdown closes idle connections. A busy one serves its request to the end, and ends with the
  answer if the answer's head could still say so. If not, the next request may be on its way, and
  its answer will say so.
- There are limits (:class:`proxy.limits.DownstreamLimits`). A connection too many gets an answer
  that says so, and is closed. A head that does not come in time is answered with 408; if no head
  has begun, the connection is closed without an answer. A client that reads nothing of its answer
  is cut by a reset.
- While more than 64 KiB (the transport's mark) wait for a client, nothing more is written. So its
  buffer never has more than that and one read from the upstream.
- A worker that has lost its supervisor serves no further request, not even on a kept connection:
  telemetry ends with the supervisor, and the call would have no span (R3).
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import functools
from typing import TYPE_CHECKING, NamedTuple

from proxy.errors import encode_error
from proxy.headers import (
    FRAMING,
    MAX_SHAPES,
    Head,
    RawHeaders,
    response_headers,
    switching_headers,
)
from proxy.sockets import count_unacknowledged, reset

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.downstream.client_stream import ClientStream
    from proxy.downstream.request_parser import Request


_NO_CODINGS = frozenset({b"", b"identity"})
"""Some servers name these as transfer codings, but they are not (RFC 9112 section 7)."""


class _Framing(NamedTuple):
    """The framing of an answer, and what its head says about it.

    Attributes:
        last_lines: what follows the fields that are relayed.
        chunked: we send its body in chunks.
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
    """Frame an answer by the upstream's ``Transfer-Encoding`` and what else decides it.

    It is `counted` if the upstream's ``Content-Length`` holds, and `keeps_alive` is false if
    something other than its framing ends the connection.
    """
    codings = [coding.strip() for coding in (encoding or b"").lower().split(b",")]
    chunked = has_body and not counted and knows_chunks
    must_reset = has_body and not counted and not chunked
    # In an answer to HEAD, and in a 304, it says how the body would be framed.
    would_be_chunked = not has_body and knows_chunks
    last_lines = b""
    # Chunks frame the body only if chunked is the last coding (RFC 9112 section 6.1).
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


_LAST_CHUNK = b"0\r\n\r\n"

MAX_RESET_WAIT_SECONDS = 2.0
"""How long a cut waits for the client to acknowledge what came before it."""


def _no_advice(_: str) -> str:
    return ""


class Answered(enum.Enum):
    """The fate of a connection after an answer.

    Attributes:
        KEEPS_ALIVE: it serves another request.
        CLOSES: it ends.
        ENDS_BODY: it ends, and only its end shows where the body ends.
        LINGERS: it ends once the client has had time to read our answer.
    """

    KEEPS_ALIVE = enum.auto()
    CLOSES = enum.auto()
    ENDS_BODY = enum.auto()
    LINGERS = enum.auto()


class Downstream:
    """One request's client: what it sent, and how it is answered.

    Attributes:
        target: raw path and query, in ASCII.
        launch: the label of the launch that the request belongs to; empty for none.
        called_host: the ``Host`` that the upstream gets, if the client called the upstream itself
            on a connection that we opened; empty if it called us.
        advise: returns what to add to the message of an error of ours, by its code.
        head_sent: the answer has begun.
        own_fields: our fields for the answer's head; the upstream's fields of the same names are
            left out.
    """

    def __init__(self, stream: ClientStream, request: Request) -> None:
        self._stream = stream
        self._waiting_head = b""
        self._chunked = False
        self._must_reset = False
        self._keeps_alive = request.keeps_alive
        self._knows_chunks = request.version != "1.0"
        self.head_sent = False
        self.launch = ""
        self.called_host = b""
        self.advise: Callable[[str], str] = _no_advice
        self.own_fields: RawHeaders = ()
        self.method = request.method
        self.target = request.target
        self.headers = request.head
        self.body = request.body
        self._take_rest = request.take_rest

    @property
    def stalled(self) -> bool:
        """Whether the client was cut because it read nothing of its answer."""
        return self._stream.stalled

    @property
    def path(self) -> str:
        """The raw path without the query."""
        return self.target.partition("?")[0]

    @property
    def asks_for_websocket(self) -> bool:
        """Whether the request is the handshake of a WebSocket."""
        return self._take_rest is not None

    async def switch(
        self, status: int, reason: str, headers: Head
    ) -> tuple[asyncio.Transport, bytes]:
        """Answer that the protocol changes, and hand the connection over with what has come of it.

        Its reading is paused, and its buffer has room: asyncio says only once that it is full.
        Whoever takes it passes on that it is full, or gone.
        """
        fields = map(b": ".join, switching_headers(headers))
        first_line = b"HTTP/1.1 %03d %s" % (status, reason.encode("utf-8", "surrogateescape"))
        self.head_sent = True
        transport = self._stream.transport
        await self._stream.send(b"\r\n".join([first_line, *fields, b"\r\n"]))
        transport.pause_reading()
        return transport, self._take_rest() if self._take_rest is not None else b""

    def close_after_answer(self) -> None:
        """Let the connection end with this answer, whose head says so."""
        self._keeps_alive = False

    def continue_if_expected(self) -> None:
        """Answer ``Expect: 100-continue``, because the body is read before it is relayed."""
        expect = self.headers.find(b"expect")
        if expect is not None and expect.lower() == b"100-continue" and self._knows_chunks:
            self._stream.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def begin_answer(
        self,
        status: int,
        reason: str,
        headers: Head,
        *,
        has_body: bool,
        keeps_length: bool = True,
    ) -> None:
        """Begin to relay an answer; its head goes with what is sent next, or at :meth:`flush`.

        A body follows, unless the answer is for HEAD, a 204 or a 304; `keeps_length` says whether
        the upstream's ``Content-Length`` still holds.
        """
        if status == 204:  # it has no body, and its head must not mention one
            headers = headers.without(FRAMING)
        if self.own_fields:
            headers = headers.without(frozenset(name for name, _ in self.own_fields))
        framing = _frame_answer(
            headers.join(b"transfer-encoding"),
            keeps_length and headers.has(b"content-length"),
            has_body,
            self._knows_chunks,
            self._keeps_alive and not self._stream.state.closing,
        )
        fields = response_headers(
            headers, keeps_length=keeps_length, keeps_chunked=framing.keeps_chunked
        )
        first_line = b"HTTP/1.1 %03d %s" % (status, reason.encode("utf-8", "surrogateescape"))
        fields += self.own_fields
        head = [first_line, *map(b": ".join, fields), framing.last_lines]
        self._keeps_alive = framing.keeps_alive
        self._must_reset = framing.must_reset
        self.head_sent = True
        self._waiting_head = b"\r\n".join(head)
        self._chunked = framing.chunked

    @property
    def is_free(self) -> bool:
        """Whether :meth:`send` would neither wait nor fail, and the head is on its way."""
        stream = self._stream
        return not (stream.writing_paused or self._waiting_head or stream.transport.is_closing())

    def send_at_once(self, data: bytes) -> None:
        """Relay bytes of the body, which is allowed only if :attr:`is_free`."""
        self._stream.transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    async def flush(self) -> None:
        """Send the head, if it still waits to go with the body."""
        if self._waiting_head:
            head, self._waiting_head = self._waiting_head, b""
            await self._stream.send(head)

    async def send(self, data: bytes) -> None:
        """Relay bytes of the body, and wait while the client is slow (backpressure)."""
        head, self._waiting_head = self._waiting_head, b""
        if self._chunked:
            await self._stream.send(b"%b%x\r\n%b\r\n" % (head, len(data), data))
        else:
            await self._stream.send(head + data if head else data)

    async def finish(self) -> Answered:
        """End the answer cleanly; return what the head said about the connection."""
        last = self._waiting_head + (_LAST_CHUNK if self._chunked else b"")
        self._waiting_head = b""
        if last:
            self._stream.write(last)
        if self._must_reset:
            return Answered.ENDS_BODY
        return Answered.KEEPS_ALIVE if self._keeps_alive else Answered.CLOSES

    async def answer_error(
        self, status: int, code: str, message: str, *, as_amazon: bool = False
    ) -> Answered:
        """Send an error of ours, whole, in the form of OpenAI's errors or of Amazon's.

        It is the connection's last answer, because the request's body may not have been read.
        """
        self.head_sent = True
        answer = encode_error(
            status,
            code,
            message + self.advise(code),
            as_amazon=as_amazon,
            has_body=self.method != "HEAD",
            fields=self.own_fields,
        )
        self._stream.write(answer)
        return Answered.LINGERS

    async def cut(self) -> Answered:
        """End the answer so that it looks broken, after every byte of it was sent."""
        transport = self._stream.transport
        if self._must_reset:
            # Nothing more can be done for a client that does not read, so the wait is limited.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(MAX_RESET_WAIT_SECONDS):
                    while count_unacknowledged(transport):  # noqa: ASYNC110 - the kernel has no event
                        await asyncio.sleep(0.005)
            reset(transport)
        transport.close()
        return Answered.CLOSES
