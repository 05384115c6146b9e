"""The files of the page, made from ``static/`` once. Anybody may have them: they hold no data.

All files except the first have an address with the *edition*, a digest of all files. The file at
such an address never changes, so that a browser asks for it once. A new version has another
edition, so that its files are never mixed with old ones. The first file, ``index.html``, names the
edition.

Files are compressed (gzip) for clients that accept it: through a tunnel to a cluster they come in a
third of the time. All modules are one file, and all style sheets another
(:mod:`proxy.page.joining`).
"""

from __future__ import annotations

import gzip
import hashlib
from importlib import resources
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web

from proxy.page.errors import PageError
from proxy.page.joining import join_modules, join_sheets

if TYPE_CHECKING:
    from collections.abc import Iterable

INDEX: Final = "index.html"
"""The file at ``/``, which names all others."""

MAX_PACKED_BYTES: Final = 90_000
"""The limit of all files together, compressed: as large as a picture in a blog post."""

_LEVEL: Final = 6
"""The level of compression: the highest saves half a percent in twice the time, and a browser
waits."""

_FIRST_MODULE: Final = "app"
"""The module that runs first and imports the others."""

_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""The type by the end of a file's name; files with other ends are not served."""

_YEAR_SECONDS: Final = 365 * 24 * 3600

_PLACE: Final = '"/static/'
"""How the addresses of the other files begin in the first file."""


class Asset(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the page: its bytes, the same compressed, its type, and its entity tag."""

    body: bytes
    packed: bytes
    content_type: str
    tag: str


class Assets(msgspec.Struct, frozen=True):
    """All files of the page.

    Attributes:
        edition: the digest of them all, in hexadecimal digits.
        files: the files by their names.
    """

    edition: str
    files: dict[str, Asset]


def read_assets() -> Assets:
    """Read ``static/``, and make the files that are served.

    Raises:
        KeyError: a file is missing.
        ValueError: the modules cannot be joined.
    """
    sources = {
        file.name: file.read_text(encoding="utf-8")
        for file in resources.files("proxy.page").joinpath("static").iterdir()
        if _find_end(file.name) in _TYPES and file.is_file()
    }
    bodies = {
        INDEX: sources[INDEX],
        "icon.svg": sources["icon.svg"],
        "page.css": join_sheets([sources[name] for name in _list_names(sources, ".css")]),
        "page.js": join_modules(
            {name.removesuffix(".js"): sources[name] for name in _list_names(sources, ".js")},
            _FIRST_MODULE,
        ),
    }
    edition = _digest(part.encode() for named in bodies.items() for part in named)
    bodies[INDEX] = bodies[INDEX].replace(_PLACE, f"{_PLACE}{edition}/")
    return Assets(
        edition, {name: _make_asset(name, body.encode()) for name, body in bodies.items()}
    )


def _find_end(name: str) -> str:
    return name.rpartition(".")[2]


def _list_names(sources: Iterable[str], end: str) -> list[str]:
    """List the files of a kind, in the order of their names."""
    return sorted(name for name in sources if name.endswith(end))


def _make_asset(name: str, body: bytes) -> Asset:
    return Asset(
        body=body,
        packed=gzip.compress(body, _LEVEL, mtime=0),
        content_type=_TYPES[_find_end(name)],
        tag=_digest([body]),
    )


def _digest(parts: Iterable[bytes]) -> str:
    made = hashlib.sha256()
    for part in parts:
        made.update(b"%d:" % len(part))
        made.update(part)
    return made.hexdigest()[:32]


def serve_asset(
    assets: Assets, name: str, request: web.Request, edition: str | None = None
) -> web.Response:
    """Answer with a file, or that it has not changed; `edition` is the one in the request's path.

    A browser asks each time whether its copy of the first file is still right (``no-cache``), and
    likewise for a file with another edition in its path, which an old first file names.

    Raises:
        PageError: there is no such file.
    """
    asset = assets.files.get(name)
    if asset is None:
        raise PageError("not_found", "there is no such file")
    is_lasting = edition == assets.edition
    lasting = f"max-age={_YEAR_SECONDS}, immutable" if is_lasting else "no-cache"
    # The tag is weak, because it is that of the bytes before compression.
    headers = {
        "ETag": f'W/"{asset.tag}"',
        "Cache-Control": lasting,
        "Vary": "Accept-Encoding",
    }
    if any(tag.value in {asset.tag, "*"} for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    headers["Content-Type"] = asset.content_type
    if not _takes_gzip(request):
        return web.Response(body=asset.body, headers=headers)
    return web.Response(body=asset.packed, headers={**headers, "Content-Encoding": "gzip"})


def _takes_gzip(request: web.Request) -> bool:
    """Tell whether the client accepts gzip; a weight of 0 means no (RFC 9110 12.5.3)."""
    for one in request.headers.get("Accept-Encoding", "").lower().split(","):
        coding, _, weight = one.partition(";")
        if coding.strip() == "gzip":
            name, _, value = weight.partition("=")
            return not (name.strip() == "q" and not value.strip(" 0."))
    return False
