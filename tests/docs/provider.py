"""A server on loopback that stands for a provider: the demo upstream, noting what arrives."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web

from proxy.demo.upstream import Pace, create_demo_upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp.typedefs import Handler

__all__ = ("Arrival", "Provider", "running_provider")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A call as it arrived, or the handshake of a WebSocket, with header names in lower case."""

    target: str
    headers: dict[str, str]
    body: bytes
    is_socket: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider that runs."""

    url: str
    arrivals: list[Arrival] = field(default_factory=list)


@contextlib.asynccontextmanager
async def running_provider(dialect: str) -> AsyncIterator[Provider]:
    """Start one that speaks `dialect`, see ``spantap upstream --dialect '?'``."""
    app = create_demo_upstream(pace=Pace(first_seconds=0, chunk_seconds=0.001), dialect=dialect)
    arrivals: list[Arrival] = []

    @web.middleware
    async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
        is_socket = "Upgrade" in request.headers
        if request.method == "POST" or is_socket:  # LiteLLM asks for models too when it starts
            headers = {name.lower(): value for name, value in request.headers.items()}
            body = await request.read()
            arrivals.append(
                Arrival(target=request.path_qs, headers=headers, body=body, is_socket=is_socket)
            )
        return await handler(request)

    app.middlewares.append(note)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield Provider(url=f"http://127.0.0.1:{runner.addresses[0][1]}", arrivals=arrivals)
    finally:
        await runner.cleanup()
