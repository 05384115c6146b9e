"""What handlers of the page find in their application: ``request.app[READS]``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiohttp import web

from proxy.page.page_settings import PageSettings

if TYPE_CHECKING:
    from proxy.page.reads import Reads

__all__ = ("READS", "SETTINGS", "STORE")

READS: Final[web.AppKey[Reads]] = web.AppKey("reads")
"""Reads of the store, on threads: ``await request.app[READS].run(function, *arguments)``."""

STORE: Final = web.AppKey("store", Path)
"""The path of the store."""

SETTINGS: Final = web.AppKey("settings", PageSettings)
"""The settings of the page."""
