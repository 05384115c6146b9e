"""An upstream's answer: its head, and its body read to the very end.

Rules:

1. Every byte that arrived is handed out before the error that ended the body is raised: aiohttp's
   reader raises at once and keeps what it holds.
2. A body that the end of the connection delimits is broken where that end was a reset.
3. What was received is never quoted in the words about it: it may hold a credential (R7).
4. A connection is kept only when both bodies went over it whole.
5. An answer that names ``chunked`` in its transfer codings in any place but the last is refused:
   it cannot be told which bytes are the body (RFC 9112 section 6.3), and the next to read it would
   take it in another way.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import aiohttp
from aiohttp.http import HttpProcessingError

from proxy.headers import Head
from proxy.upstream.connection import get_protocol
from proxy.upstream.errors import describe_invalid
from proxy.upstream.idle_connections import abort_connection
from telemetry.frames.ending import EndKind

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from aiohttp.connector import Connection
    from aiohttp.http import RawResponseMessage
    from aiohttp.streams import StreamReader

__all__ = ("UpstreamBroken", "UpstreamResponse")


class UpstreamBroken(Exception):  # noqa: N818 - names what happened
    """The body broke off; every byte that arrived was handed out before.

    Attributes:
        end: ``UPSTREAM_BROKEN`` or ``TIMEOUT``.
    """

    def __init__(self, message: str, end: EndKind = EndKind.UPSTREAM_BROKEN) -> None:
        super().__init__(message)
        self.end = end


class UpstreamResponse:
    """An answer whose head has been read.

    Attributes:
        status: as received.
        reason: as received; undecodable bytes as surrogates.
        headers: raw fields.
        has_body: a body follows.

    Raises:
        HttpProcessingError: the framing is ambiguous (rule 5).
    """

    def __init__(
        self,
        connection: Connection,
        message: RawResponseMessage,
        payload: StreamReader,
        *,
        has_body: bool,
        upload: asyncio.Task[None] | None,
    ) -> None:
        headers = Head(message.raw_headers)
        if headers.has(b"transfer-encoding"):
            _check_codings(headers)
        self._connection = connection
        self._protocol = get_protocol(connection)
        self._payload = payload
        self._upload = upload
        self._pushed_back: deque[bytes] = deque()
        self._broken: UpstreamBroken | None = None
        self._read_bytes = 0
        self._is_closed = False
        self.status = message.code
        self.reason = message.reason
        self.headers = headers
        self.has_body = has_body

    def take(self) -> bytes:
        """What :meth:`read` would give, where that is there; else nothing, and :meth:`read` tells.

        Whoever relays a whole answer, or many events that came in one read, need not wait for it.
        """
        payload = self._payload
        if (
            payload.total_bytes == self._read_bytes
            or self._pushed_back
            or self._broken is not None
            or payload.exception() is not None
        ):
            return b""
        data = payload.read_nowait()
        self._read_bytes += len(data)
        return data

    @property
    def is_framed(self) -> bool:
        """Whether anything but the end of the connection tells where the body ends."""
        headers = self.headers
        has_end = headers.has(b"content-length") or headers.has(b"transfer-encoding")
        return has_end or not self.has_body

    @property
    def at_end(self) -> bool:
        """Whether :meth:`read` would tell the end of the body without waiting."""
        return self._payload.at_eof()

    async def read(self, taker: Callable[[bytes], bool] | None = None) -> bytes:
        """The bytes that are there, or wait for some; empty at the end of the body.

        Args:
            taker: is offered what arrives while this waits; it relays that without waiting and
                says so, or declines: then this has it.

        Raises:
            UpstreamBroken: the body broke off, after all that arrived was handed out.
        """
        if self._pushed_back:
            return self._pushed_back.popleft()
        if self._broken is not None:
            raise self._broken
        payload = self._payload
        self._protocol.taker = taker
        try:
            # Where nothing more comes there is nothing to wait for.
            is_over = payload.at_eof() and payload.exception() is None
            data = b"" if is_over else await payload.readany()
        except (aiohttp.ClientError, HttpProcessingError, OSError) as error:
            self._broken = _explain_break(error)
            if unread := _take_unread(self._payload):
                return unread
            raise self._broken from error
        finally:
            self._protocol.taker = None
        self._read_bytes += len(data)
        if not data and (reset := self._find_reset()) is not None:
            self._broken = _explain_break(reset)
            raise self._broken from reset
        return data

    def _find_reset(self) -> BaseException | None:
        """What ended a body without framing of its own, where it was no proper end (rule 2)."""
        error = self._protocol.exception()
        return error if isinstance(error, OSError) and not self.is_framed else None

    async def peek(self, limit_bytes: int) -> bytes:
        """Up to ``limit_bytes`` of the body, which :meth:`read` will hand out all the same."""
        pieces: list[bytes] = []
        size = 0
        while size < limit_bytes:
            try:
                piece = await self.read()
            except UpstreamBroken:
                break
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
        self._pushed_back.extendleft(reversed(pieces))
        return b"".join(pieces)[:limit_bytes]

    def when_uploaded(self, callback: Callable[[], None]) -> None:
        """Call once nothing of the request is held for sending any more: now, or when it is sent.

        An upstream may answer before it has the whole request; an upload that is broken off ends,
        too.
        """
        if self._upload is None or self._upload.done():
            callback()
        else:
            self._upload.add_done_callback(lambda _: callback())

    def close(self) -> None:
        """Keep the connection if both bodies went over it whole, else drop it at once (rule 4)."""
        if self._is_closed:
            return  # the connection may be another exchange's by now
        self._is_closed = True
        protocol = self._protocol
        protocol.end()
        upload = self._upload
        uploaded = upload is None or upload.done()
        if upload is not None and not uploaded:
            upload.cancel()
        if not (uploaded and self._payload.is_eof() and self._broken is None):
            abort_connection(self._connection)
        elif protocol.should_close or protocol.idle_connections is None:
            self._connection.close()
        else:
            protocol.idle_connections.put(self._connection)


def _check_codings(headers: Head) -> None:
    """Refuse what rule 5 does, and what only some would take for the name of that coding."""
    codings = (headers.join(b"transfer-encoding") or b"").lower()
    if b"chunked" in codings and codings.rpartition(b",")[2].strip() != b"chunked":
        raise HttpProcessingError(message="chunks are not its last transfer coding")


def _explain_break(error: BaseException) -> UpstreamBroken:
    if isinstance(error, TimeoutError):
        return UpstreamBroken("no data from the upstream within the idle timeout", EndKind.TIMEOUT)
    text = str(error) or type(error).__name__
    if isinstance(error, HttpProcessingError):
        text = describe_invalid(error)
    elif isinstance(error, aiohttp.ClientPayloadError):
        # aiohttp's words end in a "400" of its own, which no upstream sent.
        text = "the connection ended before the body did"
    return UpstreamBroken(f"the upstream's body broke off: {text}")


def _take_unread(payload: StreamReader) -> bytes:
    """What the reader holds: it raises its error before it hands this out (rule 1)."""
    payload._exception = None  # noqa: SLF001 - there is no public way; a test guards it
    return payload.read_nowait(-1)
