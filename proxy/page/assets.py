"""The files of the page itself: ``static/``, read once. Anybody may have them: they hold no data.

A browser asks each time whether its copy is still the one (``no-cache``), by the digest of the
file: a new version is seen at once, and an old one costs no bytes.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web

from proxy.page.errors import PageError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("Asset", "read_assets", "serve_asset")

_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""By the end of a name; what has no type here is not served."""


class Asset(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the page: its bytes, its type, and the tag by which a browser knows it again."""

    body: bytes
    content_type: str
    tag: str


def read_assets() -> dict[str, Asset]:
    """Read all files of ``static/``, by their names."""
    assets = {}
    for file in resources.files("proxy.page").joinpath("static").iterdir():
        content_type = _TYPES.get(file.name.rpartition(".")[2])
        if content_type is not None and file.is_file():
            body = file.read_bytes()
            tag = hashlib.sha256(body).hexdigest()[:32]
            assets[file.name] = Asset(body=body, content_type=content_type, tag=tag)
    return assets


def serve_asset(assets: Mapping[str, Asset], name: str, request: web.Request) -> web.Response:
    """Answer with a file, or that it has not changed.

    Raises:
        PageError: there is no such file.
    """
    asset = assets.get(name)
    if asset is None:
        raise PageError("not_found", "there is no such file")
    headers = {"ETag": f'"{asset.tag}"', "Cache-Control": "no-cache"}
    if any(tag.value in {asset.tag, "*"} for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    return web.Response(body=asset.body, headers={**headers, "Content-Type": asset.content_type})
