"""TLS on the traffic port, where a certificate is set.

HTTP/1.1 is all that is spoken, so it is all that ALPN offers; TLS 1.2 is the least, as RFC 9325
(section 3.1.1) wants it. Clients show no certificate: for who may call see
:mod:`proxy.downstream.inbound_keys`.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from proxy.certificates import load_certificate

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ("HANDSHAKE_SECONDS", "build_tls")

HANDSHAKE_SECONDS = 10.0
"""How long a client's handshake may take (:class:`proxy.downstream.tls_port.TlsPort`): it holds a
connection and a file, and asyncio alone would wait for a minute."""


def build_tls(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """The context for :class:`proxy.downstream.tls_port.TlsPort`.

    Raises:
        ConfigurationError: certificate or key cannot be used; the sentence names the files, and
            nothing that is in them.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # costs us more than whoever asks for it
    context.set_alpn_protocols(["http/1.1"])
    load_certificate(context, "tls", certificate, key)
    return context
