"""``GET /api/live``: what happens now, as server-sent events (:mod:`proxy.page.live_news`).

The id of an event is the newest number of the store at that time. A browser that connects again
sends the last id (``Last-Event-ID``, or ``after``) and gets the newest number at once: everything
that it missed is in the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from typing import TYPE_CHECKING, Final

from aiohttp import web

from proxy.page.errors import PageError
from proxy.page.live_browser import LiveBrowser
from proxy.page.live_news import Live
from proxy.reading.local_zone import LocalZone
from telemetry.errors import FilterError
from telemetry.finding.filter import parse_filter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MAX_TEXTS: Final = 8
"""The most calls whose texts one browser gets."""

COMMENT_SECONDS: Final = 15.0
"""The time between two comments, so that nothing between us and the browser closes the
connection."""

LOOK_SECONDS: Final = 1.0
"""How often it is checked whether the browser is still there."""

_SPAN_ID: Final = re.compile(r"[0-9a-f]{16}")

LIVE: Final = web.AppKey("live", Live)
"""What happens now, for an application."""


async def live(request: web.Request) -> web.StreamResponse:
    """Send one browser what happens, until it goes.

    Raises:
        PageError: its request is invalid, or there are too many browsers.
    """
    news, browser = request.app[LIVE], _read_wishes(request)
    if news.is_full:
        raise PageError("busy", "too many pages watch; close some")
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
    )
    news.join(browser)
    try:
        if request.headers.get("Last-Event-ID") or request.query.get("after"):
            news.send_newest(browser)
        await response.prepare(request)
        silent_seconds = 0.0
        while not browser.is_over and request.transport is not None:
            events = await browser.take(LOOK_SECONDS)
            silent_seconds = 0.0 if events else silent_seconds + LOOK_SECONDS
            if silent_seconds >= COMMENT_SECONDS:
                events, silent_seconds = b":\n\n", 0.0
            if events:
                await response.write(events)
    except ConnectionError:
        pass  # it has gone
    finally:
        news.leave(browser)
    return response


async def run_live(app: web.Application) -> AsyncIterator[None]:
    """Run from before the first request until after the last; for ``app.cleanup_ctx``."""
    running = asyncio.ensure_future(app[LIVE].run())
    try:
        yield
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def end_live(app: web.Application) -> None:
    """End all streams, which do not end by themselves; for ``app.on_shutdown``."""
    app[LIVE].close()


def _read_wishes(request: web.Request) -> LiveBrowser:
    """Read what a browser asks for.

    Raises:
        PageError: the request is invalid.
    """
    texts = [text for text in request.query.get("text", "").split(",") if text]
    if len(texts) > MAX_TEXTS or not all(map(_SPAN_ID.fullmatch, texts)):
        raise PageError("parameter", f"`text` takes up to {MAX_TEXTS} ids of calls")
    try:
        wanted = parse_filter(
            request.query.get("filter", ""), now_ns=time.time_ns(), zone=LocalZone()
        )
    except FilterError as error:
        raise PageError("filter", str(error), position=error.position) from error
    return LiveBrowser(wanted, texts)
