"""Serves the page of one store on a listening socket."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from typing import TYPE_CHECKING, Final

from proxy.page.app import build_app
from proxy.page.connections import Connections
from proxy.page.reads import Reads
from proxy.page.token import TokenCheck
from proxy.page_access.address import PageAddress, announcing_page
from proxy.page_access.digests import find_digest
from proxy.processes.page_listener import page_url
from proxy.signal_numbers import SHUTDOWN_SIGNALS

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator

    from proxy.page.page_settings import PageSettings

_LOOK_SECONDS: Final = 0.5
"""How often, at least, it is checked whether somebody watches."""


class ServedPage:
    """A page while it is served."""

    def __init__(self, connections: Connections, idle_seconds: float) -> None:
        self._connections = connections
        self._idle_seconds = idle_seconds

    async def wait_until_idle(self) -> None:
        """Wait until nobody has watched for as long as the settings say."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(_LOOK_SECONDS, self._idle_seconds))
            since = loop.time() - self._connections.last_used
            if since >= self._idle_seconds and not self._connections.is_watched:
                return


@contextlib.asynccontextmanager
async def serve_page(settings: PageSettings, listener: socket.socket) -> AsyncIterator[ServedPage]:
    """Serve the page as long as the block runs.

    Raises:
        ConfigurationError: there is no token that can be trusted.
    """
    digest = find_digest(settings.page_token, settings.store)
    check = TokenCheck(digest, listener.getsockname()[1], time.time)
    connections = Connections(build_app(settings, Reads(settings.store), check))
    try:
        await connections.serve(listener)
        yield ServedPage(connections, settings.page_idle_seconds)
    finally:
        await connections.close()


async def serve_alone(settings: PageSettings, listener: socket.socket, *, stays: bool) -> None:
    """Serve the page without a supervisor, and let commands find it, until a signal ends it.

    Unless it `stays`, it also ends when nobody watches.

    Raises:
        ConfigurationError: there is no token that can be trusted.
    """
    loop, ending = asyncio.get_running_loop(), asyncio.Event()
    for number in SHUTDOWN_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, ending.set)
    digest = find_digest(settings.page_token, settings.store)
    address = PageAddress.of(page_url(listener), digest)
    async with serve_page(settings, listener) as page:
        waits: set[asyncio.Future[object]] = {asyncio.ensure_future(ending.wait())}
        if not stays:
            waits.add(asyncio.ensure_future(page.wait_until_idle()))
        with announcing_page(settings.store, address):
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for one in waits:
            one.cancel()
