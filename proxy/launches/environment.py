"""The environment of a launch: which base URLs it asks for, and which variables are set."""

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
    from proxy.processes.launch_channel import Joined

CONNECT_SECONDS = 0.5
"""How long it may take to check whether somebody listens on this machine."""


_SIGNED = "gets calls that are signed for its host"


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The variables before a launch.

    Attributes:
        set_urls: base URLs that are set, by variable.
        tool_urls: base URLs that the program itself has, by their names in its row.
        unusable: why a base URL is left as it is, by the name of the variable or of the tool's URL.
        implied: names of variables that are not set, but have the value of another variable that
            means the same.
    """

    set_urls: dict[str, str]
    tool_urls: dict[str, str] = {}
    unusable: dict[str, str]
    implied: frozenset[str] = frozenset()

    @property
    def wanted(self) -> dict[str, str]:
        """The base URLs to request, by names of :class:`proxy.launches.bases.Bases`."""
        own = {row.own_name: row.url for row in read_variables() if row.url is not None}
        return own | self.set_urls | self.tool_urls


def look_around(
    environ: Mapping[str, str],
    serve_address: tuple[str, int],
    tool_urls: Mapping[str, str] | None = None,
) -> Surroundings:
    """Find out which base URLs are set.

    Args:
        environ: the variables.
        tool_urls: base URLs that the program itself has.
        serve_address: where ``spantap serve`` would listen by the settings. If a base URL leads
            there and nobody listens, it is a leftover of an earlier day and counts as unset.
    """
    own = tool_urls or {}
    said = find_set_urls(environ) | dict(own)
    usable: dict[str, str] = {}
    unusable: dict[str, str] = {}
    signed = {row.name for row in read_variables() if row.is_signed(environ)}
    for name, url in said.items():
        if name in signed:
            unusable[name] = _SIGNED
            continue
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
    """Return the variables to set: the base URLs, and exceptions from HTTP proxies for them."""
    fitted: dict[str, str] = {}
    said = find_set_urls(environ)
    for variable in read_variables():
        url = variable.find(
            bases,
            has_catalogue=joined.has_catalogue,
            passed_over="" if variable.is_signed(environ) else said.get(variable.name, ""),
        )
        if url is not None and variable.name not in around.unusable:
            fitted[variable.name] = url
    fitted.update(fit_no_proxy(environ, bases.host))
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
