"""``GET /api/live``: what happens now, as server-sent events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ("live", "run_live")


async def live(_: web.Request) -> web.StreamResponse:
    """Tell one watcher what happens, until it goes."""
    raise web.HTTPServiceUnavailable


async def run_live(_: web.Application) -> AsyncIterator[None]:
    """Begin before the first request, and end after the last: for ``app.cleanup_ctx``."""
    yield
