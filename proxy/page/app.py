"""The application: all paths of the page, behind the guard.

A handler is ``async def handler(request: web.Request) -> web.StreamResponse``. It is called after
the guard has accepted the request, and finds what it needs by :mod:`proxy.page.app_keys`:
``request.app[READS]`` reads the store on threads, ``request.app[STORE]`` is the store's path,
``request.app[SETTINGS]`` are the page's settings. For a request that cannot be answered it raises
:exc:`~proxy.page.errors.PageError`; a :exc:`~telemetry.errors.StoreError` becomes the error
``store``. The guard sets the headers.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web

from proxy.page.api.routes import ROUTES
from proxy.page.app_keys import LIVE_STATE, READS, SETTINGS, STORE, UNREAD, LiveState
from proxy.page.assets import INDEX, read_assets, serve_asset
from proxy.page.errors import PageError
from proxy.page.guard import TOKEN_PATH, build_guard, put_headers
from proxy.page.live import LIVE, end_live, live, run_live
from proxy.page.live_news import Live
from proxy.page.token import is_of_another_user
from proxy.page.unread import Unread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from proxy.page.page_settings import PageSettings
    from proxy.page.reads import Reads
    from proxy.page.token import TokenCheck

MAX_BODY_BYTES: Final = 16 * 1024
"""The largest body of a request; clients only send a token."""

BODY_SECONDS: Final = 10.0
"""How long a body may take to arrive."""

_BROKEN_BODY: Final = (TimeoutError, web.RequestPayloadError, RuntimeError)
"""The errors for a body that does not come, has broken framing, or whose client has gone (aiohttp
raises a `RuntimeError` then). Anybody can send such a body, so that is not our defect."""

_COOKIE_SECONDS: Final = 30 * 24 * 3600
"""How long a browser keeps the cookie: as long as spans are kept by default."""


class _Shown(msgspec.Struct, frozen=True):
    token: str


def build_app(settings: PageSettings, reads: Reads, check: TokenCheck) -> web.Application:
    """Build the application for one store; `reads` is closed with it."""
    guard = build_guard(check, (settings.page_host, *settings.page_hosts))
    app = web.Application(middlewares=[guard], client_max_size=MAX_BODY_BYTES)
    app[SETTINGS], app[STORE], app[READS] = settings, settings.store, reads
    app[UNREAD] = Unread()
    news = app[LIVE] = Live(settings.store, reads)
    app[LIVE_STATE] = lambda: _find_live_state(news)
    app.on_response_prepare.append(put_headers)
    app.cleanup_ctx.append(run_live)
    app.on_shutdown.append(end_live)
    app.on_cleanup.append(_close_reads)
    _add_assets(app.router)
    app.router.add_post(TOKEN_PATH, _take_token(check))
    app.router.add_get("/api/live", live)
    for path, handler in ROUTES:
        app.router.add_get(f"/api/{path}", handler)
    return app


def _find_live_state(news: Live) -> LiveState:
    proxy, numbers = news.proxy, news.numbers
    return LiveState(
        live=news.is_live,
        live_text=news.shows_text,
        lost=None if numbers is None else numbers.dropped,
        websockets=None if numbers is None else numbers.web_sockets,
        proxy_url=proxy.url or None,
        asks_for_key=proxy.asks_for_key,
    )


async def _close_reads(app: web.Application) -> None:
    await app[READS].close()


def _add_assets(router: web.UrlDispatcher) -> None:
    assets = read_assets()

    async def index(request: web.Request) -> web.Response:
        return serve_asset(assets, INDEX, request)

    async def static(request: web.Request) -> web.Response:
        found = request.match_info
        return serve_asset(assets, found["name"], request, found["edition"])

    router.add_get("/", index)
    router.add_get("/static/{edition}/{name}", static)


def _is_strangers(request: web.Request) -> bool:
    """Tell whether the request is known to come from another user of this machine."""
    ends = [request.get_extra_info(name) for name in ("peername", "sockname")]
    if not all(isinstance(end, tuple) for end in ends):
        return False
    peer, ours = (end[:2] for end in ends)
    return is_of_another_user(peer, ours)


def _take_token(check: TokenCheck) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def take_token(request: web.Request) -> web.Response:
        """Exchange the token, or a ticket, for the cookie."""
        try:
            async with asyncio.timeout(BODY_SECONDS):
                shown = msgspec.json.decode(await request.read(), type=_Shown).token
        except (*_BROKEN_BODY, ValueError) as error:
            raise PageError("parameter", 'the body must be {"token": "…"}') from error
        if not check.takes(shown, partial(_is_strangers, request)):
            raise PageError("token", "this is not the token of this store")
        response = web.Response(status=204)
        response.set_cookie(
            check.cookie_name,
            check.cookie,
            max_age=_COOKIE_SECONDS,
            path="/api/",
            httponly=True,
            samesite="Strict",
        )
        return response

    return take_token
