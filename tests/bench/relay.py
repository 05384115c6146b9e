"""A bare aiohttp pass-through: what spantap's speed is measured against.

The goals: ``docs/performance.md#goals``. The same event loop and the same library, and nothing
else: no parsing, no spans, no limits. A body larger than aiohttp gives as a whole is passed on as
it comes; a WebSocket message by message, as aiohttp gives it.

``python -m tests.bench.relay UPSTREAM PORT``, the upstream as ``http://HOST:PORT``.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from aiohttp import ClientSession, ClientTimeout, TCPConnector, WSMsgType, web

if TYPE_CHECKING:
    from aiohttp import ClientWebSocketResponse
    from multidict import CIMultiDict, CIMultiDictProxy

_MAX_WHOLE_BYTES = 1 << 20
"""aiohttp answers 413 to whoever reads more than this at once."""

_HOP_BY_HOP = ("Connection", "Keep-Alive", "Transfer-Encoding", "Host")


def _is_large(request: web.BaseRequest) -> bool:
    return (request.content_length or 0) > _MAX_WHOLE_BYTES


def _pass_on(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    passed = headers.copy()
    for name in _HOP_BY_HOP:
        passed.popall(name, None)
    return passed


async def _pump(
    source: web.WebSocketResponse | ClientWebSocketResponse,
    target: web.WebSocketResponse | ClientWebSocketResponse,
) -> None:
    async for message in source:
        if message.type is WSMsgType.TEXT:
            await target.send_str(message.data)
        elif message.type is WSMsgType.BINARY:
            await target.send_bytes(message.data)
        elif message.type is WSMsgType.PING:
            await target.ping(message.data)
        elif message.type is WSMsgType.PONG:
            await target.pong(message.data)
    await target.close()


async def _join(request: web.BaseRequest, session: ClientSession, url: str) -> web.StreamResponse:
    async with session.ws_connect(url, autoping=False, max_msg_size=0) as far:
        near = web.WebSocketResponse(autoping=False, max_msg_size=0, compress=False)
        await near.prepare(request)
        await asyncio.gather(_pump(near, far), _pump(far, near))
        return near


async def main(upstream: str, port: int) -> None:
    """Relay until the process is ended."""
    connector = TCPConnector(limit=0)
    async with ClientSession(
        connector=connector, auto_decompress=False, timeout=ClientTimeout(total=None)
    ) as session:

        async def relay(request: web.BaseRequest) -> web.StreamResponse:
            if "Upgrade" in request.headers:
                return await _join(request, session, upstream + request.path_qs)
            async with session.request(
                request.method,
                upstream + request.path_qs,
                headers=_pass_on(request.headers),
                data=request.content if _is_large(request) else await request.read(),
                allow_redirects=False,
            ) as answer:
                response = web.StreamResponse(
                    status=answer.status, headers=_pass_on(answer.headers)
                )
                await response.prepare(request)
                async for read in answer.content.iter_any():
                    await response.write(read)
                await response.write_eof()
                return response

        runner = web.ServerRunner(web.Server(relay, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, backlog=4096).start()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
