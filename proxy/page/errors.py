"""Errors of the page's API: ``{"error": {"message": "…", "code": "…"}}``."""

from __future__ import annotations

import msgspec
from aiohttp import web

_STATUS_OF = {
    "parameter": 400,
    "filter": 400,
    "token": 401,
    "origin": 403,
    "not_found": 404,
    "method": 405,
    "too_large": 413,
    "host": 421,
    "internal": 500,
    "busy": 503,
    "store": 503,
}
"""The HTTP status of each code."""


class PageError(Exception):
    """A request that cannot be answered; handlers raise this, and the guard answers it.

    Attributes:
        code: one of the words of ``docs/page.md#for-programs``, which decides the status.
        position: where the filter is wrong.
    """

    def __init__(self, code: str, message: str, *, position: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.position = position


def build_error(error: PageError) -> web.Response:
    """Build the answer for an error."""
    members: dict[str, object] = {"message": error.message, "code": error.code}
    if error.position is not None:
        members["position"] = error.position
    return web.Response(
        status=_STATUS_OF[error.code],
        body=msgspec.json.encode({"error": members}),
        content_type="application/json",
    )
