"""Our address, and whether others lead to it. Names are not looked up."""

from __future__ import annotations

import ipaddress
from typing import Final

INTERCEPT_HOST: Final = "127.0.0.1"
"""Where interception listens. Whoever knows its secret reaches all that this machine reaches, so no
other machine may connect."""

_ANY = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with
"""Hosts that mean "listen on any address", and the address at which this machine reaches them."""


def is_own_address(ours: tuple[str, int], host: str | None, port: int | None) -> bool:
    """Tell whether an address leads to the one that we listen on.

    The only names that are known are ``localhost`` and the host that we listen on.
    """
    own_host, own_port = ours
    if port != own_port or host is None:
        return False
    both = {host, own_host}
    if both & _ANY.keys() or "localhost" in both:  # any address, or any loopback address
        return all(one in _ANY or is_loopback(one) for one in both)
    return len(both) == 1


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches a host; the only known name is ``localhost``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def build_url(host: str, port: int, *, has_tls: bool) -> str:
    """Build the URL at which commands on this machine reach a port, without a final slash.

    Certificates do not name loopback addresses, but may name ``localhost``.
    """
    host = reach(host)
    if not has_tls:
        return f"http://{host}:{port}"
    return f"https://{'localhost' if is_loopback(host) else host}:{port}"


def reach(host: str) -> str:
    """Return the host at which this machine reaches a port that listens on `host`, for a URL."""
    host = _ANY.get(host, host)
    return f"[{host}]" if ":" in host else host
