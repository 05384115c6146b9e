"""Paths of the API below ``/api/``, and their handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web

__all__ = ("ROUTES",)

ROUTES: Final[tuple[tuple[str, Callable[[web.Request], Awaitable[web.StreamResponse]]], ...]] = ()
"""``("calls/{id}", handler)``: each answers GET, and is called once the guard has let in."""
