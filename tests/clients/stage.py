"""A stage for real clients: the demo upstream, reached directly and through a proxy."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiohttp import web

from codec.apis.faults import build_error
from codec.text.jsontext import decode_json_object
from proxy.demo.upstream import Pace, create_demo_upstream
from tests.proxy.harness import ObservingSink, running_proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp.typedefs import Handler

__all__ = ("BROKEN_MODEL", "TOOLS", "Stage", "open_stage")

BROKEN_MODEL = "gpt-demo-broken"
"""The model that answers with status 500."""

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city", "days"],
                "additionalProperties": False,
            },
            "strict": True,
        },
    }
]

_PACE = Pace(first_seconds=0, chunk_seconds=0.001)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Base URLs for clients, and what the proxy observed."""

    direct_url: str
    proxied_url: str
    sink: ObservingSink


@contextlib.asynccontextmanager
async def open_stage() -> AsyncIterator[Stage]:
    """Start upstream and proxy on loopback."""
    app = create_demo_upstream(pace=_PACE)
    app.middlewares.append(_break)
    app.middlewares.append(_play_background())
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        upstream = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with running_proxy(upstream) as running:
            yield Stage(
                direct_url=f"{upstream}/v1",
                proxied_url=f"{running.url}/v1",
                sink=running.sink,
            )
    finally:
        await runner.cleanup()


@web.middleware
async def _break(request: web.Request, handler: Handler) -> web.StreamResponse:
    if BROKEN_MODEL.encode() not in await request.read():
        return await handler(request)
    error = build_error("The server had an error.", error_type="server_error")
    return web.json_response(error, status=500)


def _play_background() -> Any:
    """Responses in the background: queued when they are asked for, and later to be had whole."""
    bodies: dict[str, bytes] = {}

    @web.middleware
    async def play(request: web.Request, handler: Handler) -> web.StreamResponse:
        asked = await request.read()
        if (body := bodies.get(request.path.rpartition("/")[2])) is not None:
            return web.Response(body=body, content_type="application/json")
        answer = await handler(request)
        if b'"background":true' not in asked:
            return answer
        assert isinstance(answer, web.Response)
        assert isinstance(answer.body, bytes)
        response = decode_json_object(answer.body)
        bodies[response["id"]] = answer.body
        return web.json_response(response | {"status": "queued", "output": [], "usage": None})

    return play
