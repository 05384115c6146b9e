"""One request on its way, up to the head of its answer.

If a request did not go over a connection whole, the connection is never used again: the next
request would be taken for the rest of this one.

The time to the first byte counts from the request's last byte, and interim answers do not extend
it. While the request is on its way, the upstream may read it slowly, but may not stop reading for
longer than the stall limit.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.errors import GatewayError
from proxy.tasks import spawn
from proxy.upstream.errors import UpstreamClosedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.upstream.connection import UpstreamConnection
    from proxy.upstream.request import UpstreamRequest, UpstreamTimeouts
    from proxy.upstream.response import UpstreamResponse

WRITE_BYTES = 64 * 1024
"""A body is written in pieces of this size, so that its copy in the transport stays small. A body
of one piece is written before we wait for the answer; a longer one is written meanwhile, because an
upstream may refuse it half-way."""

TURN_BYTES = 4 * WRITE_BYTES
"""How much of a body is written before others have their turn, which takes some 0.2 ms. A kernel
that has room accepts 20 MB without making us wait once."""


@dataclass(slots=True, eq=False, repr=False)
class Sending:
    """Writes one request, and waits for the head of its answer.

    `authorization` is for a forward proxy of plain HTTP; ``None`` without one.
    """

    connection: UpstreamConnection
    request: UpstreamRequest
    timeouts: UpstreamTimeouts
    authorization: bytes | None
    _upload: asyncio.Task[None] | None = None
    _head_read: bool = False

    async def run(self) -> UpstreamResponse:
        """Write the request and read the head.

        Raises:
            UpstreamError: there is no answer.
            GatewayError: the client's body broke off or stalled.
        """
        try:
            return await self._run()
        except BaseException:
            if self._upload is not None:
                self._upload.cancel()
            self.connection.abort()
            raise

    async def _run(self) -> UpstreamResponse:
        request, connection = self.request, self.connection
        head = connection.begin(head_only=request.method == "HEAD", may_switch=request.may_switch)
        is_large = request.more or len(request.body) > WRITE_BYTES
        if request.rest is None and not is_large and not request.chunked:
            connection.transport.write(request.encode_head(self.authorization) + request.body)
            connection.watch(self.timeouts.first_byte_seconds)
        else:
            self._upload = spawn(self._write(), name="upload")
        response = await head
        self._head_read = True
        response.upload = self._upload
        connection.watch(0 if response.at_end else self.timeouts.idle_seconds)
        return response

    async def _write(self) -> None:
        """Write head and body while the answer may come already; raise nothing but cancellation.

        An upstream that stops reading may have answered before, and then the reader gets that
        answer. The connection is closed by then, and so is not used again.
        """
        try:
            await self._write_body()
        except GatewayError as error:  # an answer that has begun breaks off, too
            self.connection.fail(error)
            self.connection.abort()
        except UpstreamClosedError:
            return
        if not self._head_read:
            self.connection.watch(self.timeouts.first_byte_seconds)

    async def _write_body(self) -> None:
        request, write = self.request, self.connection.write
        await write(request.encode_head(self.authorization))
        written_bytes = 0
        for piece in _cut((request.body, *request.more)):
            if written_bytes >= TURN_BYTES:
                await asyncio.sleep(0)  # a large body must not keep others waiting
                written_bytes = 0
            await write(self._frame(piece))
            written_bytes += len(piece)
        if request.rest is not None:
            while data := await request.rest.read():
                await write(self._frame(data))
        if request.chunked:
            await write(b"0\r\n\r\n")

    def _frame(self, piece: bytes | memoryview) -> bytes | memoryview:
        if not self.request.chunked:
            return piece
        return b"".join((b"%x\r\n" % len(piece), piece, b"\r\n"))


def _cut(parts: tuple[bytes | memoryview, ...]) -> Iterator[memoryview]:
    for part in parts:
        view = memoryview(part)
        for start in range(0, len(view), WRITE_BYTES):
            yield view[start : start + WRITE_BYTES]
