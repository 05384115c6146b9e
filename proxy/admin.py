"""The admin port: alive, ready, metrics.

Never on the traffic port, where every path belongs to the upstream (``design.md`` section 5).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ("create_admin_app",)


def create_admin_app(
    *, is_ready: Callable[[], bool], metrics: Callable[[], Mapping[str, int]]
) -> web.Application:
    """The admin port's application.

    Args:
        is_ready: false while draining.
        metrics: names without prefix to values; a name that ends in ``_total`` is a counter.
    """

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        if is_ready():
            return web.Response(text="ready\n")
        return web.Response(status=503, text="draining\n")

    async def show_metrics(_: web.Request) -> web.Response:
        # On a thread: counting what is stored may wait for a commit, and traffic may not.
        values = await asyncio.to_thread(metrics)
        text = "".join(_exposition(f"spantap_{name}", value) for name, value in values.items())
        return web.Response(
            body=text.encode(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", show_metrics)
    return app


def _exposition(name: str, value: int) -> str:
    kind = "counter" if name.endswith("_total") else "gauge"
    return f"# TYPE {name} {kind}\n{name} {value}\n"
