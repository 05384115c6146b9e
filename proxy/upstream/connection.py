"""Connections to upstreams: aiohttp's connector, with a client protocol of ours.

Rules:

1. Idle connections are kept a while (:mod:`proxy.upstream.idle_connections`). What an upstream
   sends on an idle one is never taken for an answer: it ends the connection.
2. A head is parsed apart from what came with it: aiohttp's parser forgets it where something
   after it is wrong, such as more bytes than the length says.
3. What is no valid HTTP in the middle of a body breaks that body: aiohttp tells only whoever
   waits for the next head, and the body's reader would wait for ever.
4. One timer watches over silence and looks at the time of the last read when it fires; it is not
   set anew at every read, nor for every request. While we hold the upstream back for a slow
   client, it is not silent. An upstream that sends bytes, but none of a body (endless extensions
   of a chunk, trailers), is.
5. An upstream that takes nothing of a request whose answer has not begun fails that request.
6. A head is bounded as a whole: aiohttp's parser alone would keep as many fields of the largest
   size as it takes fields.
7. Chunks that a read holds whole go past the parser (:mod:`proxy.upstream.whole_chunks`).
8. A slow reader pauses the connection, not the parser: what was read already, 256 KiB at most, is
   parsed. aiohttp's parser, paused at the end of a chunk where a read ends too, would hold back
   the end of the body, and nobody would ask for it.
9. Chunks of rule 7 can be taken where they arrive, while the body's reader waits and nothing has
   come that it has not got: an event that needs no waiting is relayed in the turn of the loop that
   read it, without waking a task, and never before what its reader has still in hand.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.helpers import EMPTY_BODY_STATUS_CODES
from aiohttp.http import HttpProcessingError
from aiohttp.streams import EMPTY_PAYLOAD

from proxy.stall_watch import StallWatch
from proxy.upstream.errors import UpstreamStalled
from proxy.upstream.idle_connections import IdleConnections
from proxy.upstream.whole_chunks import WholeChunks

if TYPE_CHECKING:
    import asyncio
    import ssl
    from collections.abc import Callable

    from aiohttp.connector import Connection
    from aiohttp.http import RawResponseMessage
    from aiohttp.streams import StreamReader

__all__ = ("UpstreamConnector", "UpstreamProtocol", "get_protocol")

_BLANK_LINE = b"\r\n\r\n"
_TO_HEAD = re.compile(rb"[\r\n]*").match


class UpstreamProtocol(ResponseHandler):
    """One connection to an upstream.

    Attributes:
        idle_connections: where it waits between two exchanges.
        taker: of a reader that waits: is offered bytes of the body before that is woken, and says
            whether it took them. From the first that are not taken on, all is the reader's, until
            it waits again (rule 9).
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.idle_connections: IdleConnections | None = None
        self.taker: Callable[[bytes], bool] | None = None
        self._idle = False
        self._head_ending = b""
        self._limit_seconds = 0.0
        self._extends = False
        self._now = loop.time
        self._last_read = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self._chunks: WholeChunks | None = None
        self._stall_watch = StallWatch(0.0, self._give_up_stalled)
        self._head_bytes = 0
        self._max_head_bytes = 0  # none, until a request is sent

    def begin(self, *, stall_seconds: float, max_head_bytes: int, **parameters: Any) -> None:
        """Prepare for one answer.

        Args:
            stall_seconds: how long the upstream may take nothing of the request (0: for ever).
            max_head_bytes: of each head (rule 6).
            parameters: aiohttp's, without a timeout of its own.
        """
        self._idle = False
        self._head_ending = b""
        self._head_bytes = 0
        self._max_head_bytes = max_head_bytes
        self._stall_watch.limit_seconds = stall_seconds
        self.set_response_params(**parameters)

    def end(self) -> None:
        """The exchange is over (rule 1)."""
        self._idle = True
        self.taker = None
        self._limit_seconds = 0.0

    def watch(self, limit_seconds: float, *, extends: bool = False) -> None:
        """Fail after so long (0: never) without a read (rule 4).

        Args:
            limit_seconds: from now, or from the last read.
            extends: a read begins the time anew.
        """
        self._limit_seconds = limit_seconds
        self._extends = extends
        if limit_seconds:
            self._last_read = self._loop.time()
            until = self._last_read + limit_seconds
            if self._watch is not None and self._watch.when() > until:
                self._stop_watch()
            if self._watch is None:
                self._watch = self._loop.call_at(until, self._look)

    def _stop_watch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _look(self) -> None:
        self._watch = None
        if not (self._limit_seconds and self.is_connected()):
            return
        now = self._loop.time()
        if self._reading_paused:
            self._last_read = now
        left = self._last_read + self._limit_seconds - now
        if left > 0:
            self._watch = self._loop.call_later(left, self._look)
        else:
            self.set_exception(aiohttp.SocketTimeoutError("no data within the time limit"))

    def pause_writing(self) -> None:
        """More of the request waits than the buffer should hold: see that it gets less."""
        super().pause_writing()
        if self.transport is not None:
            self._stall_watch.begin(self.transport)

    def _give_up_stalled(self) -> None:
        if self._awaits_head():
            self.set_exception(UpstreamStalled("nothing was taken within the time limit"))

    def data_received(self, data: bytes) -> None:
        """Take what came in one read: usually an event of a stream, for a taker (rule 9)."""
        chunks = self._chunks
        if (taker := self.taker) is None or chunks is None:
            self._take(data)
            return
        until, body, begin = chunks.split(data)
        if body and not until and taker(body):
            self._last_read = self._now()
            if begin < len(data):
                self.taker = None
                self._parse(data[begin:])
            return
        self.taker = None
        body_bytes = self._count_body()
        self._take_parts(data, until, body, begin)
        if self._count_body() != body_bytes:
            self._last_read = self._now()

    def _take(self, data: bytes) -> None:
        """Take a read for a reader, each head by itself (rule 2)."""
        if self._idle:
            self.force_close()
            self.abort()
            return
        if self._awaits_head():
            data = self._take_heads(data)
        if not self._extends:
            self._take_body(data)
            return
        body_bytes = self._count_body()
        self._take_body(data)
        if self._count_body() != body_bytes:
            self._last_read = self._now()

    def _take_heads(self, data: bytes) -> bytes:
        """Take all heads up to that of the answer; what is behind it."""
        at = 0
        while at < len(data):
            begin, end = self._find_head(data, at)
            self._head_bytes += end - begin
            if 0 < self._max_head_bytes < self._head_bytes:
                self.set_exception(HttpProcessingError(message="the head is too long"))
                break
            self._parse(data[begin:end])
            at = end
            if at < len(data):
                self._head_bytes = 0
            if not self._awaits_head():
                break
        return data[at:]

    def _parse(self, data: bytes) -> None:
        """Let the parser have it: what the base class does, without what is never used here."""
        if self._parser is None or self._upgraded:
            super().data_received(data)
            return
        try:
            messages, self._upgraded, _ = self._parser.feed_data(data)
        except Exception as error:  # noqa: BLE001 - whatever a parser finds
            self._break(error)
            return
        for message, payload in messages:
            self._begin_body(message, payload)

    def _break(self, error: Exception) -> None:
        """Break the connection off: what came is not valid HTTP."""
        if self.transport is not None:
            self.transport.close()
        told = HttpProcessingError()
        if isinstance(error, HttpProcessingError):
            told = HttpProcessingError(
                code=error.code, message=error.message, headers=error.headers
            )
        self.set_exception(told, error)

    def _begin_body(self, message: RawResponseMessage, payload: StreamReader) -> None:
        """A head has come, and its body follows."""
        if message.should_close:
            self.force_close()
        self._payload = payload
        if self._skip_payload or message.code in EMPTY_BODY_STATUS_CODES:
            self.feed_data((message, EMPTY_PAYLOAD))
            return
        self._chunks = None
        if message.chunked and not payload.is_eof():
            self._chunks = WholeChunks()
            payload.begin_http_chunk_receiving()  # it wants to know before its first byte
        self.feed_data((message, payload))

    def _take_body(self, data: bytes) -> None:
        """Take what is no head: whole chunks past the parser (rule 7), all else by it."""
        if not data:
            return
        if self._chunks is None or self._payload is None:
            self._parse(data)
        else:
            self._take_parts(data, *self._chunks.split(data))

    def _take_parts(self, data: bytes, until: int, body: bytes, begin: int) -> None:
        """Take a read of a body in chunks, as :meth:`WholeChunks.split` has parted it."""
        payload = self._payload
        if until:
            self._parse(data[:until])
        if self._exception is not None or payload is None:
            return
        if body:
            payload.feed_data(body)
        if begin < len(data):
            self._parse(data[begin:])

    def pause_reading(self) -> None:
        """The body's reader has enough (rule 8)."""
        self._reading_paused = True
        self._pause_transport_reading()

    def _count_body(self) -> int:
        """Bytes of the body so far."""
        return 0 if self._payload is None else self._payload.total_bytes

    def _awaits_head(self) -> bool:
        return self._exception is None and (self._payload is None or self._payload.is_eof())

    def _find_head(self, data: bytes, at: int) -> tuple[int, int]:
        """The place where the head goes on in ``data``, and where it ends or the data does."""
        known = self._head_ending
        if not known and data.startswith(b"HTTP/", at):  # the usual case in short
            found = data.find(_BLANK_LINE, at)
            if found >= 0:
                return at, found + len(_BLANK_LINE)
        # Blank lines before a head are none of its own.
        skipped = None if known else _TO_HEAD(data, at)
        begin = at if skipped is None else skipped.end()
        seam = known + data[begin : begin + len(_BLANK_LINE) - 1]
        if known and (found := seam.find(_BLANK_LINE)) >= 0:
            end = begin + found + len(_BLANK_LINE) - len(known)
        else:
            found = data.find(_BLANK_LINE, begin)
            end = len(data) if found < 0 else found + len(_BLANK_LINE)
        tail = known + data[max(begin, end - len(_BLANK_LINE)) : end]
        self._head_ending = b"" if tail.endswith(_BLANK_LINE) else tail[1 - len(_BLANK_LINE) :]
        return begin, end

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002 - aiohttp's
        """Called by aiohttp after each read: nothing to do unless reading was paused."""
        del resume_parser  # which holds nothing back
        if self._reading_paused:
            self._reading_paused = False
            self._last_read = self._loop.time()
            self._resume_transport_reading()

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """Fail whoever waits for a head, and the body that is being read (rule 3)."""
        self.taker = None
        super().set_exception(exc, *cause)
        payload = self._payload
        if payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(exc, *cause)
            # Once more: the end of a chunk in the same read may have woken the reader, which
            # looks for data alone and waits again.
            self._loop.call_soon(functools.partial(payload.set_exception, exc, *cause))

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop watching."""
        self._stop_watch()
        self._stall_watch.stop()
        super().connection_lost(exc)


class UpstreamConnector(aiohttp.TCPConnector):
    """aiohttp's connector, with connections of ours and rule 1.

    It has no limit of its own: there is at most one connection per open request of a client, and
    queueing here would be waiting nobody sees.

    Args:
        tls: for upstreams of https.
        connect_seconds: how long it may take to make a connection.
    """

    def __init__(self, *, tls: ssl.SSLContext, connect_seconds: float) -> None:
        super().__init__(limit=0, ssl=tls)
        self._idle: dict[aiohttp.ClientRequest, IdleConnections] = {}
        protocol: type[ResponseHandler] = UpstreamProtocol
        self._factory = functools.partial(protocol, loop=self._loop)
        self._limits = aiohttp.ClientTimeout(
            total=None, connect=connect_seconds, sock_connect=connect_seconds
        )

    async def open(self, key: aiohttp.ClientRequest) -> Connection:
        """A connection that is fit to be written to.

        Raises:
            aiohttp.ConnectionTimeoutError: it took longer than it may.
            aiohttp.ClientError: there is none to be had.
        """
        idle = self._idle.get(key)
        if idle is None:
            idle = self._idle[key] = IdleConnections()
        if (connection := idle.take()) is not None:
            return connection
        try:
            connection = await self.connect(key, [], self._limits)
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError from error
        get_protocol(connection).idle_connections = idle
        return connection

    async def close(self, *, abort_ssl: bool = False) -> None:
        """End all connections."""
        await super().close(abort_ssl=abort_ssl)  # which knows them all, and waits for their ends
        for idle in self._idle.values():
            idle.close()


def get_protocol(connection: Connection) -> UpstreamProtocol:
    """The protocol of a connection that is in use."""
    protocol = connection.protocol
    if isinstance(protocol, UpstreamProtocol):
        return protocol
    raise AssertionError("a released connection has none, and the factory makes no other")
