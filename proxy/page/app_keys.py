"""What handlers of the page find in their application: ``request.app[READS]``, or what is live."""

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
    """What is live.

    Attributes:
        live: a proxy tells what is under way.
        live_text: and texts as they come.
        lost: spans that were given up or lost since the proxy began; ``None`` where nobody knows.
    """

    live: bool
    live_text: bool
    lost: int | None


NOT_LIVE: Final = LiveState(live=False, live_text=False, lost=None)


READS: Final[web.AppKey[Reads]] = web.AppKey("reads")
"""Reads of the store, on threads: ``await request.app[READS].run(function, *arguments)``."""

LIVE_STATE: Final[web.AppKey[Callable[[], LiveState]]] = web.AppKey("live_state")
"""Tells what is live, for the status; without it nothing is."""

STORE: Final = web.AppKey("store", Path)
"""The path of the store."""

SETTINGS: Final = web.AppKey("settings", PageSettings)
"""The settings of the page."""

UNREAD: Final = web.AppKey("unread", Unread)
"""Counts what answers hold that nobody has read yet."""
