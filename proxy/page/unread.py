"""Bounds the memory that answers of the page hold until somebody reads them.

Rules:

1. Unread answers hold :data:`MAX_UNREAD_BYTES` in all. One that does not fit beside the others is
   given up, and refused as busy. One that is alone always fits, and so does one of
   :data:`SMALL_BYTES`, as lists and slices are: a download keeps nobody from these.
2. An answer goes out piece by piece, each when the one before is gone: no connection holds a second
   copy of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.page.errors import PageError

if TYPE_CHECKING:
    from aiohttp import web

MAX_UNREAD_BYTES: Final = 64 * 1024 * 1024

SMALL_BYTES: Final = 128 * 1024
"""On each of the 256 connections that there may be, that is half as much again."""

_PIECE_BYTES: Final = 64 * 1024


class Unread:
    """Counts the bytes of answers that are being sent."""

    def __init__(self) -> None:
        self._bytes = 0

    async def send(self, request: web.Request, response: web.StreamResponse, data: bytes) -> None:
        """Send an answer's body, and wait until all of it is on its way.

        Raises:
            PageError: there is no room for it; nothing is sent.
        """
        held = len(data) if len(data) > SMALL_BYTES else 0
        if held and self._bytes and self._bytes + held > MAX_UNREAD_BYTES:
            raise PageError("busy", "others have not read what they asked for; try again later")
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
