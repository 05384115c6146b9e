"""An upstream's answer: its head, and its body read to the very end.

Every byte that arrived is handed out before the error that ended the body is raised. Messages never
quote what was received, because it may have a credential (R7).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from proxy.errors import GatewayError
from proxy.upstream.errors import UpstreamSilentError
from telemetry.frames.ending import EndKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.upstream.answer_parser import AnswerHead
    from proxy.upstream.errors import UpstreamError

READ_BUFFER_BYTES = 128 * 1024
"""How much is read ahead of a slow client, apart from one more read; then the upstream waits."""


class UpstreamBroken(Exception):  # noqa: N818 - names what happened
    """The body broke off; every byte that arrived was handed out before."""

    def __init__(self, message: str, end: EndKind = EndKind.UPSTREAM_BROKEN) -> None:
        super().__init__(message)
        self.end = end


class AnsweringConnection(Protocol):
    """The part of a connection that an answer over it uses."""

    def pause_reading(self) -> None:
        """Read nothing more for now."""

    def resume_reading(self) -> None:
        """Continue to read."""

    def end(self, *, is_whole: bool) -> None:
        """End the exchange; `is_whole` says whether both bodies were transferred whole."""

    async def switch(self) -> tuple[asyncio.Transport, bytes]:
        """Hand the connection over after a 101."""


class UpstreamResponse:
    """An answer whose head has been read.

    Attributes:
        status: as received.
        reason: as received; undecodable bytes as surrogates.
        headers: raw fields.
        has_body: a body follows.
        is_framed: something other than the end of the connection shows where the body ends.
        upload: the task that sends the request, if that may take longer than its answer.
    """

    def __init__(self, connection: AnsweringConnection, head: AnswerHead) -> None:
        self.status, self.reason, self.headers, self.has_body, self.is_framed = head
        self.upload: asyncio.Task[None] | None = None
        self._connection = connection
        self._pieces: list[bytes] = []  # not read yet
        self._size_bytes = 0
        self._peeked_count = 0
        self._has_ended = False
        self._broken: UpstreamBroken | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._taker: Callable[[bytes], bool] | None = None
        self._is_closed = False

    # Called by the connection.

    def feed(self, data: bytes) -> None:
        """Add the part of the body that came in one read."""
        if self._taker is not None and self._taker(data):
            return
        self._taker = None  # it must not overtake what the reader gets now
        self._pieces.append(data)
        self._size_bytes += len(data)
        if self._size_bytes > READ_BUFFER_BYTES:
            self._connection.pause_reading()
        self._wake()

    def end(self, error: UpstreamError | GatewayError | None = None) -> None:
        """Note that nothing more comes, because the body is complete or because of an error."""
        self._taker = None
        if not self._has_ended:
            self._has_ended = True
            self._broken = None if error is None else _explain_break(error)
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # Called by the relay.

    @property
    def at_end(self) -> bool:
        """Whether :meth:`read` would return the end of the body without waiting."""
        return self._has_ended and self._broken is None and not self._pieces

    @property
    def is_awaited(self) -> bool:
        """Whether the reader waits with a taker, and so has got everything that has come."""
        return self._taker is not None

    def pop(self) -> bytes:
        """Return what :meth:`read` would return without waiting; empty if nothing is there.

        A whole answer, or many events that came in one read, can be taken without waiting. If this
        is empty, :meth:`read` waits, ends, or raises the error.
        """
        pieces = self._pieces
        if not pieces:
            return b""
        if self._peeked_count:
            self._peeked_count -= 1
            data = pieces.pop(0)
        else:
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.clear()
        self._size_bytes -= len(data)
        self._connection.resume_reading()
        return data

    async def read(self, taker: Callable[[bytes], bool] | None = None) -> bytes:
        """Return the bytes that are there, or wait for some; empty at the end of the body.

        Args:
            taker: is offered what arrives while this waits. It relays that without waiting and
                returns true, or it declines, and then this method returns the bytes. So an event
                that needs no waiting is relayed in the turn of the loop that read it, without
                waking a task, and never before bytes that the reader still holds.

        Raises:
            UpstreamBroken: the body broke off, and everything that arrived was handed out.
        """
        if not (self._pieces or self._has_ended):
            self._taker = taker
            await self._wait()
        data = self.pop()
        if not data and self._broken is not None:
            raise self._broken
        return data

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = self._taker = None

    async def peek(self, limit_bytes: int) -> bytes:
        """Return up to `limit_bytes` of the body; :meth:`read` still returns these bytes later.

        The limit is :data:`READ_BUFFER_BYTES` at most.
        """
        while self._size_bytes < limit_bytes and not self._has_ended:
            await self._wait()
        self._peeked_count = len(self._pieces)
        return b"".join(self._pieces)[:limit_bytes]

    def when_uploaded(self, callback: Callable[[], None]) -> None:
        """Call once nothing of the request waits to be sent: now, or when its upload ends.

        An upstream may answer before it has the whole request.
        """
        if self.upload is None or self.upload.done():
            callback()
        else:
            self.upload.add_done_callback(lambda _: callback())

    async def switch(self) -> tuple[asyncio.Transport, bytes]:
        """Hand the connection over after a 101, with what has come of the other protocol."""
        switched = await self._connection.switch()
        self._is_closed = True
        return switched

    def close(self) -> None:
        """Keep the connection if both bodies went over it whole, else drop it at once."""
        if self._is_closed:
            return  # by now the connection may belong to another exchange
        self._is_closed = True
        upload = self.upload
        is_uploaded = upload is None or upload.done()
        if upload is not None and not is_uploaded:
            upload.cancel()
        self._connection.end(is_whole=is_uploaded and self._has_ended and self._broken is None)


def _explain_break(error: UpstreamError | GatewayError) -> UpstreamBroken:
    if isinstance(error, UpstreamSilentError):
        return UpstreamBroken("no data from the upstream within the idle timeout", EndKind.TIMEOUT)
    cause = str(error) or "the connection ended before the body did"
    if isinstance(error, GatewayError):
        cause = "the request's body broke off"
    return UpstreamBroken(f"the upstream's body broke off: {cause}")
