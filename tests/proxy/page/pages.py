"""A page of a store, served on a free port of loopback by a loop in the test."""

from __future__ import annotations

import contextlib
import functools
import time
from typing import TYPE_CHECKING
from unittest.mock import patch

import aiohttp
from aiohttp import web

from proxy.page import app
from proxy.page.assets import read_assets
from proxy.page.page_settings import PageSettings
from proxy.page.reads import Reads
from proxy.page.token import TokenCheck
from proxy.page_access.digests import digest_token

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

TOKEN = "a-token-that-nobody-guesses"

_read_assets = functools.cache(read_assets)
"""The files of the page, joined and compressed once for all pages of a test run."""


class Page:
    """A page, and a session that has its token."""

    def __init__(self, url: str, session: aiohttp.ClientSession, check: TokenCheck) -> None:
        self.url = url
        self.session = session
        self.check = check


@contextlib.asynccontextmanager
async def open_page(store: Path, **settings: object) -> AsyncIterator[Page]:
    """Serve a page for the store; the session's requests bear the token."""
    check = TokenCheck(digest_token(TOKEN), 4002, time.time)
    told = PageSettings(store=store, **settings)  # type: ignore[arg-type]
    with patch.object(app, "read_assets", _read_assets):
        runner = web.AppRunner(app.build_app(told, Reads(store), check), access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            yield Page(f"http://{host}:{port}", session, check)
    finally:
        await runner.cleanup()
