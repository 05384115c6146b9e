"""Tells that an upstream wants a client certificate, by the alert with which it ends TLS.

In TLS 1.3 the alert comes after our handshake, and its name says so (RFC 8446 section 6.2). In TLS
1.2 it ends the handshake, and mostly it is ``handshake_failure``, which can also mean that the two
sides have no cipher suite in common. But then the server says so instead of choosing one. After its
choice all that is left to refuse is what we sent: our certificate, or that we sent none.

A server that only closes the connection cannot be told from one that is broken.
"""

from __future__ import annotations

import ssl
from typing import Final

_ABOUT_CERTIFICATES: Final = frozenset(
    {
        "NO_CERTIFICATE",
        "BAD_CERTIFICATE",
        "UNSUPPORTED_CERTIFICATE",
        "CERTIFICATE_REVOKED",
        "CERTIFICATE_EXPIRED",
        "CERTIFICATE_UNKNOWN",
        "CERTIFICATE_REQUIRED",
        "UNKNOWN_CA",
    }
)
"""The alerts about certificates (RFC 8446 section 6.2). From a server they are about the client's:
Java 17 says ``bad_certificate`` when it got none, and the others are about one that we have."""


class ClientCertificateError(ssl.SSLError):
    """The server has chosen a cipher suite, and then refused our handshake."""


class UpstreamTls(ssl.SSLObject):
    """Our side of TLS; its handshake raises a :class:`ClientCertificateError`."""

    def do_handshake(self) -> None:
        """Do what can be done of the handshake."""
        try:
            super().do_handshake()
        except ssl.SSLError as error:
            if _find_alert(error) == "HANDSHAKE_FAILURE" and self.cipher() is not None:
                raise ClientCertificateError(*error.args) from error
            raise


def wants_certificate(error: BaseException | None) -> bool:
    """Tell whether the error that ended a connection says that a client certificate is wanted."""
    if isinstance(error, ClientCertificateError):
        return True
    return isinstance(error, ssl.SSLError) and _find_alert(error) in _ABOUT_CERTIFICATES


def _find_alert(error: ssl.SSLError) -> str | None:
    """Return the name of the alert that was received; OpenSSL puts a version before it."""
    reason: str | None = getattr(error, "reason", None)  # only OpenSSL's own errors have one
    return (reason or "").partition("_ALERT_")[2] or None
