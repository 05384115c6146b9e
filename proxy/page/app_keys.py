"""The keys under which handlers of the page find things in their application."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from aiohttp import web

from proxy.page.page_settings import PageSettings
from proxy.page.unread import Unread

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.page.reads import Reads


class LiveState(NamedTuple):
    """What the page can show live.

    Attributes:
        live: a proxy sends news of open calls.
        live_text: it sends texts too, as they come.
        lost: how many spans were given up or lost since the proxy began; ``None`` if not known.
        websockets: how many are open, observed or not; ``None`` if not known.
        proxy_url: where clients reach the proxy, without a final slash; ``None`` if not known.
        asks_for_key: the proxy accepts calls only with one of its inbound keys.
    """

    live: bool
    live_text: bool
    lost: int | None
    websockets: int | None
    proxy_url: str | None
    asks_for_key: bool


NOT_LIVE: Final = LiveState(
    live=False, live_text=False, lost=None, websockets=None, proxy_url=None, asks_for_key=False
)


READS: Final[web.AppKey[Reads]] = web.AppKey("reads")
"""Reads the store on threads: ``await request.app[READS].run(function, *arguments)``."""

LIVE_STATE: Final[web.AppKey[Callable[[], LiveState]]] = web.AppKey("live_state")
"""Returns what is live, for the status; if it is not set, nothing is."""

STORE: Final = web.AppKey("store", Path)
"""The path of the store."""

SETTINGS: Final = web.AppKey("settings", PageSettings)
"""The settings of the page."""

UNREAD: Final = web.AppKey("unread", Unread)
"""Counts the bytes of answers that are not read yet."""
