"""The forward proxy between us and an upstream, from ``HTTP(S)_PROXY`` and ``NO_PROXY``."""

from __future__ import annotations

import base64
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from yarl import URL

from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class ForwardProxy:
    """The proxies through which origins are reached.

    Attributes:
        proxies: the proxy's URL for each scheme, and under ``no`` the exceptions, separated by
            commas, as :func:`urllib.request.getproxies_environment` returns them.
    """

    proxies: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_environment(cls) -> ForwardProxy:
        """Read the environment once.

        Raises:
            ConfigurationError: a proxy URL cannot be used.
        """
        proxies = urllib.request.getproxies_environment()
        for scheme in ("http", "https"):
            if (text := proxies.get(scheme)) is not None:
                _check(f"{scheme.upper()}_PROXY", text)
        return cls(proxies)

    def find(self, origin: URL) -> URL | None:
        """Find the proxy for an origin; ``None`` for a direct connection."""
        proxy = self.proxies.get(origin.scheme)
        if proxy is None:
            return None
        host = f"{origin.host}:{origin.port}"
        # Public in the standard library, but unknown to typeshed.
        bypass = urllib.request.proxy_bypass_environment  # type: ignore[attr-defined]
        return None if bypass(host, dict(self.proxies)) else URL(proxy)


def _check(name: str, text: str) -> None:
    """Refuse an unusable URL, without quoting it: it may hold a password (R7)."""
    try:
        url = URL(text)
        usable = url.scheme in {"http", "https"} and bool(url.raw_host)
    except ValueError:
        usable = False
    if not usable:
        raise ConfigurationError(f"{name} must be an http:// or https:// URL")


def encode_credentials(proxy: URL) -> bytes:
    """Return the value of ``Proxy-Authorization``; empty for a proxy without credentials."""
    if proxy.user is None:
        return b""
    pair = f"{proxy.user}:{proxy.password or ''}".encode()
    return b"Basic " + base64.b64encode(pair)
