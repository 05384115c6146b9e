"""Which alerts say that an upstream wants a client certificate.

Real servers are in ``tests/proxy/interception/test_client_certificates.py``.
"""

from __future__ import annotations

import ssl

import pytest

from proxy.upstream.client_certificate import UpstreamTls, wants_certificate


def fail_with(alert: int) -> ssl.SSLError:
    """The error of a client that gets this alert in answer to its first message."""
    context = ssl.create_default_context()
    context.sslobject_class = UpstreamTls
    incoming = ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, ssl.MemoryBIO(), server_hostname="api.test")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    incoming.write(bytes([21, 3, 3, 0, 2, 2, alert]))
    with pytest.raises(ssl.SSLError) as caught:
        tls.do_handshake()
    return caught.value


@pytest.mark.parametrize("alert", [41, 42, 43, 44, 45, 46, 48, 116])
def test_an_alert_about_a_certificate_is_about_the_clients(alert: int) -> None:
    """Java 17 sends ``bad_certificate`` (42) for none, in both versions of TLS."""
    assert wants_certificate(fail_with(alert))


@pytest.mark.parametrize("alert", [40, 47, 49, 51, 70, 80, 112, 120])
def test_another_alert_is_not(alert: int) -> None:
    """Not even ``handshake_failure`` (40), before the server has chosen a cipher suite."""
    assert not wants_certificate(fail_with(alert))


def test_another_error_is_not() -> None:
    """The server's own certificate fails here, without an alert."""
    for error in (None, OSError(), ssl.SSLError(), ssl.SSLCertVerificationError("x")):
        assert not wants_certificate(error)
