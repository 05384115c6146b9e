"""The client's side of the proxy with a handler of the test's own behind it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from proxy.downstream.port_state import PortState
from proxy.downstream.server import DownstreamServer
from proxy.headers import Head
from proxy.limits import DownstreamLimits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from proxy.downstream.downstream import Answered, Downstream
    from tests.proxy.raw_client import Address


GET = b"GET / HTTP/1.1\r\nHost: c\r\n\r\n"
GET_1_0 = b"GET / HTTP/1.0\r\n\r\n"
HEAD = b"HEAD / HTTP/1.1\r\nHost: c\r\n\r\n"


@contextlib.asynccontextmanager
async def serving(
    handler: Callable[[Downstream], Awaitable[Answered]],
    limits: DownstreamLimits | None = None,
) -> AsyncIterator[tuple[Address, DownstreamServer]]:
    """A server with a handler of the test's own."""
    state = PortState(max_header_bytes=8192, limits=limits or DownstreamLimits())
    server = DownstreamServer(handler, state)
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[:2], server
    finally:
        listener.close()
        await server.shutdown(0.1)


async def answer_empty(client: Downstream) -> Answered:
    """A handler that answers 200 and nothing."""
    client.begin_answer(200, "OK", Head(((b"Content-Length", b"0"),)), has_body=True)
    return await client.finish()
