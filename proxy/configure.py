"""The settings, made into what the rooms need: they know no settings.

What cannot be used is a ``ConfigurationError``.
"""

from __future__ import annotations

import resource
import ssl
from typing import TYPE_CHECKING

from proxy.certificates import load_authorities, load_certificate
from proxy.downstream.inbound_keys import read_keys
from proxy.limits import DownstreamLimits, fit_file_limit
from proxy.own_address import is_loopback, is_own_address

if TYPE_CHECKING:
    from proxy.downstream.inbound_keys import InboundKeys
    from proxy.settings.worker import RelaySettings


def read_limits(settings: RelaySettings) -> DownstreamLimits:
    """The limits as set, with no more connections than the limit of open files has room for."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return DownstreamLimits(
        max_connections=fit_file_limit(settings.max_connections, soft),
        header_seconds=settings.header_timeout_seconds,
        body_idle_seconds=settings.client_idle_timeout_seconds,
        stall_seconds=settings.client_stall_timeout_seconds,
    )


def build_upstream_tls(settings: RelaySettings) -> ssl.SSLContext:
    """Build verified TLS to upstreams, with the additional authority and our own certificate."""
    context = ssl.create_default_context()
    if settings.ca_file is not None:
        load_authorities(context, settings.ca_file)
    if settings.client_cert is not None:
        load_certificate(context, "client", settings.client_cert, settings.client_key)
    return context


def build_listener_tls(settings: RelaySettings) -> ssl.SSLContext | None:
    """Build TLS for the traffic port; ``None`` for a port that speaks plain HTTP.

    HTTP/1.1 is all that is spoken, so it is all that ALPN offers; TLS 1.2 is the least, as RFC 9325
    (section 3.1.1) wants it. Clients show no certificate: for who may call see
    :mod:`proxy.downstream.inbound_keys`.
    """
    if settings.tls_cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # costs us more than the client
    context.set_alpn_protocols(["http/1.1"])
    load_certificate(context, "tls", settings.tls_cert, settings.tls_key)
    return context


def read_inbound_keys(settings: RelaySettings) -> InboundKeys | None:
    """The keys of the settings and of their file; ``None`` where everybody is let in."""
    if settings.inbound_keys is None and settings.inbound_keys_file is None:
        return None
    return read_keys(settings.inbound_keys or (), settings.inbound_keys_file)


def explain_exposed_keys(settings: RelaySettings) -> str | None:
    """A warning where an upstream's held key is spent by anybody who reaches the port.

    That is: it has ``api_key_env``, other machines reach the host, and there are no inbound keys.
    """
    holders = [table.name for table in settings.upstreams if table.api_key_env is not None]
    if not holders or is_guarded(settings):
        return None
    return (
        f"anybody who reaches {settings.host}:{settings.port} spends the key of "
        f"{', '.join(map(repr, holders))}: set SPANTAP_INBOUND_KEYS_FILE or SPANTAP_INBOUND_KEYS, "
        "or listen on 127.0.0.1"
    )


def is_guarded(settings: RelaySettings) -> bool:
    """Tell whether strangers are kept out: by the host that is listened to, or by keys."""
    asks_for_key = settings.inbound_keys is not None or settings.inbound_keys_file is not None
    return asks_for_key or is_loopback(settings.host)


def leads_to_us(settings: RelaySettings, host: str | None, port: int | None) -> bool:
    """Tell whether an upstream's address is the traffic port's own."""
    return is_own_address((settings.host, settings.port), host, port)
