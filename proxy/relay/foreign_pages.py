"""Keeps web pages of other sites from spending a key that spantap holds.

Any page that somebody opens in a browser on this machine may send requests to the traffic port, and
open WebSockets to it. Browsers let a page read another site's answer only if that allows it. But
providers allow it to everybody, and a WebSocket needs no permission at all.

Browsers say in ``Origin`` which page sends a request, with every WebSocket and every POST (Fetch
3.2). Programs that are no browser say nothing. Pages of this machine and of applications, such as
an editor's or an extension's, are the user's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from proxy.own_address import is_loopback

if TYPE_CHECKING:
    from proxy.headers import Head

_HIDDEN: Final = b"null"
"""The origin of a page that has none to show, such as one in a sandbox: any site can make one."""

_WEB: Final = frozenset({"http", "https"})
_LOCAL_NAMES: Final = ".localhost"
"""The end of names that lead to this machine (RFC 6761 section 6.3)."""


def is_of_foreign_page(headers: Head) -> bool:
    """Tell whether a web page of another site sends a request."""
    origins = headers.options(b"origin")
    return any(map(_is_foreign, origins))


def _is_foreign(origin: bytes) -> bool:
    if origin == _HIDDEN:
        return True
    try:
        url = urlsplit(origin.decode("latin-1"))
        host = url.hostname or ""
    except ValueError:
        return True
    return url.scheme in _WEB and not (
        is_loopback(host) or host.endswith(_LOCAL_NAMES) or host in {"0.0.0.0", "::"}  # noqa: S104
    )
