"""What the settings say, given to the rooms: they take what they need, and know no settings."""

from __future__ import annotations

import ipaddress
import resource
from typing import TYPE_CHECKING

from proxy.certificates import load_authorities, load_certificate
from proxy.downstream.inbound_keys import read_keys
from proxy.downstream.listener_tls import build_tls
from proxy.limits import DownstreamLimits, fit_file_limit

if TYPE_CHECKING:
    import ssl

    from proxy.downstream.inbound_keys import InboundKeys
    from proxy.settings.worker import RelaySettings

__all__ = (
    "build_listener_tls",
    "explain_exposed_keys",
    "load_upstream_certificates",
    "read_inbound_keys",
    "read_limits",
)


def read_limits(settings: RelaySettings) -> DownstreamLimits:
    """The limits as set, with no more connections than the limit of open files has room for."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return DownstreamLimits(
        max_connections=fit_file_limit(settings.max_connections, soft),
        header_seconds=settings.header_timeout_seconds,
        body_idle_seconds=settings.client_idle_timeout_seconds,
        stall_seconds=settings.client_stall_timeout_seconds,
    )


def load_upstream_certificates(context: ssl.SSLContext, settings: RelaySettings) -> None:
    """All that the settings name for TLS to upstreams.

    Raises:
        ConfigurationError: a file cannot be used.
    """
    if settings.ca_file is not None:
        load_authorities(context, settings.ca_file)
    if settings.client_cert is not None:
        load_certificate(context, "client", settings.client_cert, settings.client_key)


def build_listener_tls(settings: RelaySettings) -> ssl.SSLContext | None:
    """TLS on the traffic port; ``None`` for a port that speaks plain HTTP.

    Raises:
        ConfigurationError: certificate or key cannot be used.
    """
    if settings.tls_cert is None:
        return None
    return build_tls(settings.tls_cert, settings.tls_key)


def read_inbound_keys(settings: RelaySettings) -> InboundKeys | None:
    """The keys of the settings and of their file; ``None`` where everybody is let in.

    Raises:
        ConfigurationError: the file cannot be used, or there are too many keys.
    """
    if settings.inbound_keys is None and settings.inbound_keys_file is None:
        return None
    return read_keys(settings.inbound_keys or (), settings.inbound_keys_file)


def explain_exposed_keys(settings: RelaySettings) -> str | None:
    """The warning for a start where anybody who reaches the port spends a held key, else ``None``.

    So it is where an upstream has ``api_key_env``, the host is more than this machine, and there
    are no inbound keys.
    """
    holders = [table.name for table in settings.upstreams if table.api_key_env is not None]
    asks_for_key = settings.inbound_keys is not None or settings.inbound_keys_file is not None
    if not holders or asks_for_key or _is_loopback(settings.host):
        return None
    return (
        f"whoever reaches {settings.host}:{settings.port} spends the key of "
        f"{', '.join(map(repr, holders))}: set SPANTAP_INBOUND_KEYS_FILE or SPANTAP_INBOUND_KEYS, "
        "or listen on 127.0.0.1"
    )


def _is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches it; of names only ``localhost`` is known."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
