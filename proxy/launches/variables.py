"""The variables from which SDKs read a base URL, and their values in a launch.

The rows are data, in ``variables.json`` beside this module: which programs read the variable (seen
in the code of that version), the source, and when it was looked up.

A base URL that is set already stays where the calls go: the proxy passes them on to it. One that
cannot be an upstream (it has a user, a query or no scheme) is left as it is.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from proxy.own_address import reach

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from proxy.launches.bases import Bases

_OLLAMA_PORTS = {"": 11434, "http": 80, "https": 443}
"""The port of an ``OLLAMA_HOST`` without one, by its scheme (ollama, ``envconfig``)."""

_HTTP_PROXIES = frozenset({"all_proxy", "http_proxy", "https_proxy"})


class Variable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A variable.

    Attributes:
        path: the part of its API's paths that belongs in the base URL.
        url: the base URL that the SDK has by default.
        is_plain: if nobody has set it, its calls are plain HTTP on this machine.
        is_fixed: it leads to `url` whatever the upstream is, because the credentials of its calls
            belong to that provider's login.
        signed_unless: its calls are signed for their host, so it stays as it is, unless one of
            these variables is set.
        same_as: another variable that means the same.
        readers: the programs that read it, and their versions.
    """

    name: str
    readers: str
    source: str
    date: str
    path: str | None = None
    url: str | None = None
    same_as: str | None = None
    is_plain: bool = False
    is_fixed: bool = False
    signed_unless: tuple[str, ...] = ()

    @property
    def own_name(self) -> str:
        """The name under which a launch requests the SDK's default base URL."""
        return f"own {self.name}"

    def is_signed(self, environ: Mapping[str, str]) -> bool:
        """Tell whether its calls are signed for their host."""
        return bool(self.signed_unless) and not any(map(environ.get, self.signed_unless))

    def find(self, bases: Bases, *, has_catalogue: bool, passed_over: str = "") -> str | None:
        """Find its value; ``None`` to leave it as it is.

        If it was not set, it leads to where the proxy sends that API (``path``), or, if the proxy
        reaches well-known providers or the row is fixed, to the SDK's default (``url``). Other rows
        stay unset. If they were set, and that base URL is `passed_over` (``--upstream``), they keep
        its path.
        """
        known = bases.find(self.name)
        if known is not None:
            return known
        if self.path is not None:
            return bases.root + self.path
        if self.url is not None and (has_catalogue or self.is_fixed):
            return bases.find(self.own_name)
        return bases.root + _read_path(passed_over) if passed_over else None


@cache
def read_variables() -> tuple[Variable, ...]:
    """Read the rows, in the order of the file."""
    data = Path(__file__).with_name("variables.json").read_bytes()
    return msgspec.json.decode(data, type=tuple[Variable, ...])


def keep_fixed(environ: Mapping[str, str]) -> dict[str, str]:
    """Keep the variables that no upstream of the user's may replace."""
    return {
        row.name: environ[row.name]
        for row in read_variables()
        if row.is_fixed and row.name in environ
    }


def find_set_urls(environ: Mapping[str, str]) -> dict[str, str]:
    """Find the base URLs that are set, usable or not.

    If two variables mean the same (``same_as``), the value of one holds for the other.
    """
    said = {
        row.name: text for row in read_variables() if (text := environ.get(row.name, "").strip())
    }
    for row in read_variables():
        if (other := row.same_as) is not None:
            for one, two in ((row.name, other), (other, row.name)):
                if two in said:
                    said.setdefault(one, said[two])
    if (host := said.get("OLLAMA_HOST")) is not None:
        said["OLLAMA_HOST"] = _read_host(host)
    return said


def fit_no_proxy(environ: Mapping[str, str], host: str) -> Iterator[tuple[str, str]]:
    """Yield variables that send calls to a host of this machine past an HTTP proxy."""
    if not any(name.lower() in _HTTP_PROXIES and text for name, text in environ.items()):
        return
    for name in ("NO_PROXY", "no_proxy"):
        words = read_no_proxy(environ, name)
        if "*" not in words and host not in words:
            yield name, ",".join([*words, host])


def read_no_proxy(environ: Mapping[str, str], name: str) -> list[str]:
    """Read the exceptions from HTTP proxies, in one spelling of their variable or else the other.

    A program that reads one spelling would not see what only the other says once both are set.
    """
    text = environ.get(name) or environ.get(name.swapcase(), "")
    return [word for word in map(str.strip, text.split(",")) if word]


def _read_path(url: str) -> str:
    """Read the path of a base URL, which may be no URL at all.

    >>> _read_path("http://a.example/x/"), _read_path("a.example:80/x"), _read_path("http://[a")
    ('/x', '', '')
    """
    try:
        path = urlsplit(url).path.rstrip("/")
    except ValueError:
        return ""
    return path if path.startswith("/") else ""


def _read_host(text: str) -> str:
    """Read an ``OLLAMA_HOST`` as Ollama's clients do; return it unchanged if it is not a host.

    >>> _read_host("0.0.0.0"), _read_host("gpu:8080"), _read_host("https://o.example/x/")
    ('http://127.0.0.1:11434', 'http://gpu:8080', 'https://o.example:443/x')
    """
    scheme, mark, rest = text.partition("://")
    if not mark:
        scheme, rest = "", text
    try:
        parts = urlsplit(f"//{rest}")
        port = parts.port or _OLLAMA_PORTS.get(scheme, 80)
    except ValueError:
        return text
    if parts.query or parts.fragment or "@" in parts.netloc:
        return text
    return f"{scheme or 'http'}://{reach(parts.hostname or '')}:{port}{parts.path.rstrip('/')}"
