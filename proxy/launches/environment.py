"""The environment of a launch: which base URLs are asked for, and what the variables then say."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from proxy.launches.variables import find_set_urls, fit_no_proxy, read_variables
from proxy.own_address import is_own_address, reach
from proxy.upstream_entry import check_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.launches.bases import Bases
    from proxy.processes.launch_link import Joined

CONNECT_SECONDS = 0.5
"""How long it may take to see whether anybody listens on this machine."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The variables as they are before a launch.

    Attributes:
        set_urls: base URLs that are set, by variable.
        tool_urls: those that the program has of its own, by their names in its row.
        unusable: why a variable, or the program's own, is left as it is, by its name.
        implied: names of these that are not set themselves, but by another variable for the same.
    """

    set_urls: dict[str, str]
    tool_urls: dict[str, str] = {}
    unusable: dict[str, str]
    implied: frozenset[str] = frozenset()

    @property
    def wanted(self) -> dict[str, str]:
        """The base URLs to ask a proxy for, by names of :class:`proxy.launches.bases.Bases`."""
        own = {row.own_name: row.url for row in read_variables() if row.url is not None}
        return own | self.set_urls | self.tool_urls


def look_around(
    environ: Mapping[str, str],
    serve_address: tuple[str, int],
    tool_urls: Mapping[str, str] | None = None,
) -> Surroundings:
    """Look which base URLs are set.

    Args:
        environ: the variables.
        tool_urls: what the program has of its own.
        serve_address: where ``spantap serve`` would listen by the settings. A base URL that leads
            there, where nobody listens, is left from an earlier day, and counts as unset.
    """
    own = tool_urls or {}
    said = find_set_urls(environ) | dict(own)
    usable: dict[str, str] = {}
    unusable: dict[str, str] = {}
    for name, url in said.items():
        try:
            if not _is_left(check_url(url), serve_address):
                usable[name] = url
        except ValueError as error:
            unusable[name] = str(error)
    return Surroundings(
        set_urls={name: url for name, url in usable.items() if name not in own},
        tool_urls={name: url for name, url in usable.items() if name in own},
        unusable=unusable,
        implied=frozenset(name for name in said if name not in own and not environ.get(name)),
    )


def fit_environment(
    environ: Mapping[str, str], around: Surroundings, bases: Bases, joined: Joined
) -> dict[str, str]:
    """Find what is to be set: the base URLs, and what keeps proxies for HTTP from them."""
    fitted: dict[str, str] = {}
    for variable in read_variables():
        url = variable.find(bases, has_catalogue=joined.has_catalogue)
        if url is not None and variable.name not in around.unusable:
            fitted[variable.name] = url
    fitted.update(fit_no_proxy(environ, urlsplit(joined.url).hostname or ""))
    return fitted


def _is_left(url: str, serve_address: tuple[str, int]) -> bool:
    parts = urlsplit(url)
    if not is_own_address(serve_address, parts.hostname, parts.port):
        return False
    host, port = serve_address
    with contextlib.suppress(OSError):
        socket.create_connection((reach(host).strip("[]"), port), CONNECT_SECONDS).close()
        return False
    return True
