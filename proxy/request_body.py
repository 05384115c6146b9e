"""The body of a client's request, as the relay reads it.

What goes wrong with it is the client's doing, and told in one form wherever it is read: a
:class:`proxy.errors.GatewayError` of 400 for broken framing, of 408 for silence.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp.web_protocol import RequestPayloadError

from proxy.errors import broken_request_body, late_request_body

if TYPE_CHECKING:
    from aiohttp.streams import StreamReader

__all__ = ("RequestBody",)


class RequestBody:
    """Reads one request's body.

    Args:
        reader: aiohttp's reader of it.
        idle_seconds: the longest wait between two reads; 0 means none. Bytes that frame the body
            and are none of it, such as endless extensions of a chunk, do not shorten the wait.
    """

    __slots__ = ("_idle_seconds", "_reader")

    def __init__(self, reader: StreamReader, *, idle_seconds: float) -> None:
        self._reader = reader
        self._idle_seconds = idle_seconds or None

    def at_eof(self) -> bool:
        """Whether all of it was read."""
        return self._reader.at_eof()

    async def readany(self) -> bytes:
        """The bytes that are there, or wait for some; empty at the end.

        Raises:
            GatewayError: it broke off, its framing does not fit, or it did not go on in time.
        """
        reader = self._reader
        try:
            if reader.is_eof():  # all of it has come: nothing to wait for
                return await reader.readany()
            async with asyncio.timeout(self._idle_seconds):
                return await reader.readany()
        except RequestPayloadError as error:
            raise broken_request_body(error) from error
        except TimeoutError as error:
            raise late_request_body() from error
