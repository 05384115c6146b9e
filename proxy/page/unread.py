"""Bounds the memory that answers of the page take until they are read.

Unread answers take at most :data:`MAX_UNREAD_BYTES` together. One that does not fit is refused as
busy. A single one always fits, and so does one of :data:`SMALL_BYTES`, such as a list or a slice: a
download never blocks these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.page.errors import PageError

if TYPE_CHECKING:
    from aiohttp import web

MAX_UNREAD_BYTES: Final = 64 * 1024 * 1024

SMALL_BYTES: Final = 128 * 1024
"""If each of 256 connections has an answer of this size, they add half of the limit to it."""

_PIECE_BYTES: Final = 64 * 1024


class Unread:
    """Counts the bytes of answers that are being sent."""

    def __init__(self) -> None:
        self._bytes = 0

    async def send(self, request: web.Request, response: web.StreamResponse, data: bytes) -> None:
        """Send an answer's body, and wait until all of it is sent.

        It is sent in pieces, each after the one before, so that no connection holds a second copy.

        Raises:
            PageError: there is no room for it; nothing is sent.
        """
        held = len(data) if len(data) > SMALL_BYTES else 0
        if held and self._bytes and self._bytes + held > MAX_UNREAD_BYTES:
            raise PageError("busy", "other answers are not read yet; try again later")
        self._bytes += held
        try:
            await response.prepare(request)
            if request.method != "HEAD":
                view = memoryview(data)
                for at in range(0, len(data), _PIECE_BYTES):
                    await response.write(view[at : at + _PIECE_BYTES])
            await response.write_eof()
        finally:
            self._bytes -= held
