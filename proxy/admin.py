"""The admin port: alive, ready, metrics.

Never on the traffic port, where every path belongs to the upstream (``design.md`` section 5).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from telemetry.metrics.prometheus import CONTENT_TYPE, render

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.metrics.snapshot import Snapshot

__all__ = ("create_admin_app",)


def create_admin_app(
    *, is_ready: Callable[[], bool], metrics: Callable[[], Snapshot]
) -> web.Application:
    """The admin port's application.

    Args:
        is_ready: false while draining.
        metrics: the numbers as they are now; called on a thread, for it may wait for the store.
    """

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        if is_ready():
            return web.Response(text="ready\n")
        return web.Response(status=503, text="draining\n")

    async def show_metrics(_: web.Request) -> web.Response:
        # On a thread: counting what is stored may wait for a commit, and traffic may not.
        text = await asyncio.to_thread(lambda: render(metrics()))
        return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", show_metrics)
    return app
