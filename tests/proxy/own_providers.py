"""A server for each provider that a proxy without an upstream reaches; each notes its calls."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from aiohttp import web

from proxy.demo.upstream import Pace, create_demo_upstream
from proxy.upstream.owners import BASE_URLS, Owner
from tests.proxy.harness import RunningProxy, running_proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest
    from aiohttp.typedefs import Handler

Heard = list[tuple[Owner, str, dict[str, str]]]


@contextlib.asynccontextmanager
async def providers(
    monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> AsyncIterator[tuple[RunningProxy, Heard]]:
    """Run a proxy without an upstream; each provider is a server here that notes calls."""
    heard: Heard = []
    async with contextlib.AsyncExitStack() as stack:
        for owner in Owner:
            app = create_demo_upstream(pace=Pace(first_seconds=0, chunk_seconds=0.001))
            app.middlewares.append(_noting(heard, owner))
            runner = web.AppRunner(app, access_log=None)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            monkeypatch.setitem(BASE_URLS, owner, f"http://127.0.0.1:{runner.addresses[0][1]}")
        yield await stack.enter_async_context(running_proxy(None, **settings)), heard


def _noting(heard: Heard, owner: Owner) -> Any:
    @web.middleware
    async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
        heads = {name.lower(): value for name, value in request.headers.items()}
        heard.append((owner, request.raw_path, heads))
        return await handler(request)

    return note
