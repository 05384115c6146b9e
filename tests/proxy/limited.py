"""A proxy with its limits small, and what counts and holds its connections."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any

from proxy.downstream.listening import listen
from proxy.relay.handler import Handler
from telemetry.frames.frame import End
from tests.proxy.harness import (
    Connection,
    RunningProxy,
    ScriptedUpstream,
    frames_of,
    read_to_end,
    running_proxy,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from proxy.downstream.server import DownstreamServer
    from proxy.relay.open_exchanges import OpenExchanges
    from proxy.request_body import BodyBudget
    from proxy.upstream.client import UpstreamClient


class Limited(RunningProxy):
    """A proxy on loopback, what it observed, and what it counts."""

    @property
    def server(self) -> DownstreamServer:
        return self.proxy._server

    @property
    def client(self) -> UpstreamClient:
        return self.proxy._client

    @property
    def open_exchanges(self) -> OpenExchanges:
        return self.proxy.open_exchanges

    @property
    def bodies(self) -> BodyBudget:
        handler = self.server.handler
        assert isinstance(handler, Handler)
        return handler.bodies

    async def wait_for_end(self) -> End:
        """The one ``end`` of the one exchange."""
        await self.sink.wait_for()
        [end] = frames_of(self, End)
        assert isinstance(end, End)
        return end


@contextlib.asynccontextmanager
async def limited_proxy(
    upstream: str, *, send_buffer_bytes: int | None = None, **settings: Any
) -> AsyncIterator[Limited]:
    """Run a proxy in front of an upstream.

    Args:
        upstream: its URL.
        send_buffer_bytes: what the kernel holds for each client, instead of megabytes.
        settings: see :mod:`proxy.settings.settings`.
    """
    listener = listen("traffic", "127.0.0.1", 0)
    if send_buffer_bytes is not None:  # connections have it from their listener
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
    async with running_proxy(upstream, listener=listener, **settings) as running:
        yield Limited(running.proxy, running.sink)


@contextlib.asynccontextmanager
async def limited(**settings: Any) -> AsyncIterator[tuple[Limited, ScriptedUpstream]]:
    """In front of an upstream that answers everything at once."""
    async with (
        ScriptedUpstream(Connection.answer) as upstream,
        limited_proxy(upstream.url, **settings) as running,
    ):
        yield running, upstream


async def closed_by_peer(reader: asyncio.StreamReader) -> bytes:
    """What comes until the other side is gone, which it must be soon."""
    async with asyncio.timeout(5):
        return await read_to_end(reader)
