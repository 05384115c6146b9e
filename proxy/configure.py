"""Makes from the settings what each room needs, so that no room imports settings.

A setting that cannot be used raises a ``ConfigurationError``.
"""

from __future__ import annotations

import resource
import ssl
from typing import TYPE_CHECKING

from yarl import URL

from proxy.certificates import load_authorities, load_certificate
from proxy.downstream.inbound_keys import read_keys
from proxy.limits import DownstreamLimits, fit_file_limit
from proxy.own_address import INTERCEPT_HOST, is_loopback, is_own_address
from proxy.upstream.client_certificate import UpstreamTls
from proxy.upstream.forward_proxy import ForwardProxy
from telemetry.errors import ConfigurationError

if TYPE_CHECKING:
    from proxy.downstream.inbound_keys import InboundKeys
    from proxy.settings.worker import RelaySettings


def read_limits(settings: RelaySettings) -> DownstreamLimits:
    """Return the limits as set, but not more connections than the limit of open files allows."""
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
    context.sslobject_class = UpstreamTls
    if settings.ca_file is not None:
        load_authorities(context, settings.ca_file)
    if settings.client_cert is not None:
        load_certificate(context, "client", settings.client_cert, settings.client_key)
    return context


def build_listener_tls(settings: RelaySettings) -> ssl.SSLContext | None:
    """Build TLS for the traffic port; ``None`` if the port speaks plain HTTP.

    ALPN offers only HTTP/1.1, because we speak nothing else. TLS 1.2 is the oldest version, as
    RFC 9325 (section 3.1.1) recommends. Clients show no certificate;
    :mod:`proxy.downstream.inbound_keys` decides who may call.
    """
    if settings.tls_cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # it costs us more than the client
    context.set_alpn_protocols(["http/1.1"])
    load_certificate(context, "tls", settings.tls_cert, settings.tls_key)
    return context


def read_inbound_keys(settings: RelaySettings) -> InboundKeys | None:
    """Return the keys of the settings and of their file; ``None`` if everybody may call."""
    if settings.inbound_keys is None and settings.inbound_keys_file is None:
        return None
    return read_keys(settings.inbound_keys or (), settings.inbound_keys_file)


def explain_exposed_keys(settings: RelaySettings) -> str | None:
    """Return a warning if anybody who reaches the port can spend a key that we hold.

    That is so if an upstream has ``api_key_env``, other machines reach the host, and there are no
    inbound keys.
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
    """Tell whether strangers are kept out, by the host that we listen on or by keys."""
    asks_for_key = settings.inbound_keys is not None or settings.inbound_keys_file is not None
    return asks_for_key or is_loopback(settings.host)


def build_forward_proxy(settings: RelaySettings) -> ForwardProxy:
    """Read the forward proxy to upstreams from the environment.

    Raises:
        ConfigurationError: its URL cannot be used, or leads to our own interception port.
    """
    forward_proxy = ForwardProxy.from_environment()
    ours = (INTERCEPT_HOST, settings.intercept_port)
    for scheme in ("http", "https"):
        url = URL(forward_proxy.proxies.get(scheme, ""))
        if settings.intercept_port and is_own_address(ours, url.host, url.port):
            raise ConfigurationError(
                f"{scheme.upper()}_PROXY leads to the interception port of spantap itself, and its"
                " calls would go round for ever: unset it for spantap"
            )
    return forward_proxy


def leads_to_us(settings: RelaySettings, host: str | None, port: int | None) -> bool:
    """Tell whether an upstream's address is that of the traffic port."""
    return is_own_address((settings.host, settings.port), host, port)
