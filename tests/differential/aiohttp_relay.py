"""A relay of aiohttp's own client and server, as one would write it after their documentation.

It does what those two offer to a relay: nothing is decompressed or followed, no field is added, the
target goes on as it came, and whoever is answered learns of a break by a reset.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web
from yarl import URL

from proxy.downstream.listening import listen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from tests.proxy.raw_client import Address

TOTAL_SECONDS = 16.0
"""For a call; aiohttp's own default is five minutes."""

_HOP_BY_HOP = {b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
_ADDED_FIELDS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


@contextlib.asynccontextmanager
async def relaying_by_aiohttp(
    upstream: str, *, send_buffer_bytes: int | None = None
) -> AsyncIterator[Address]:
    """Relay to an upstream; gives where."""
    listener = listen("traffic", "127.0.0.1", 0)
    if send_buffer_bytes is not None:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
    async with aiohttp.ClientSession(
        auto_decompress=False,
        skip_auto_headers=_ADDED_FIELDS,
        timeout=aiohttp.ClientTimeout(total=TOTAL_SECONDS),
    ) as session:

        async def relay(request: web.BaseRequest) -> web.StreamResponse:
            try:
                async with session.request(
                    request.method,
                    URL(upstream + request.raw_path, encoded=True),
                    headers=_end_to_end(request.raw_headers),
                    data=request.content if request.body_exists else None,
                    allow_redirects=False,
                ) as answer:
                    return await _answer(request, answer)
            except (aiohttp.ClientError, TimeoutError):
                if request.transport is not None:
                    request.transport.abort()
                raise

        server = web.Server(relay)
        serving = await asyncio.get_running_loop().create_server(server, sock=listener)
        try:
            yield listener.getsockname()
        finally:
            serving.close()
            await server.shutdown(0.1)


async def _answer(request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(
        status=answer.status, reason=answer.reason, headers=_end_to_end(answer.raw_headers)
    )
    await response.prepare(request)
    async for data in answer.content.iter_any():
        await response.write(data)
    await response.write_eof()
    return response


def _end_to_end(fields: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    return [
        (name.decode("latin-1"), value.decode("utf-8", "surrogateescape"))
        for name, value in fields
        if name.lower() not in _HOP_BY_HOP
    ]
