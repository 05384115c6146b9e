"""What goes wrong before an upstream answers, as the client is told of it."""

from __future__ import annotations

import pytest
from yarl import URL

from proxy.upstream.errors import (
    ConnectTimeoutError,
    ForwardProxyError,
    InvalidAnswerError,
    UpstreamClosedError,
    UpstreamError,
    UpstreamSilentError,
    UpstreamStalledError,
    UpstreamTlsError,
    UpstreamUnreachableError,
    UpstreamWantsCertificateError,
    explain_upstream_error,
)
from proxy.upstream.routes import Upstream
from telemetry.frames.ending import EndKind

UPSTREAM = Upstream(
    name="main",
    origin=URL("https://api.example:8443"),
    credentials={b"authorization": (b"Authorization", b"Bearer sk-secret")},
)


@pytest.mark.parametrize(
    ("error", "status", "code", "end"),
    [
        (ConnectTimeoutError(), 504, "upstream_connect_timeout", EndKind.TIMEOUT),
        (UpstreamSilentError(), 504, "upstream_timeout", EndKind.TIMEOUT),
        (UpstreamStalledError(), 504, "upstream_timeout", EndKind.TIMEOUT),
        (UpstreamTlsError("x"), 502, "upstream_tls_error", EndKind.CONNECT_ERROR),
        (
            UpstreamWantsCertificateError("x"),
            502,
            "upstream_wants_certificate",
            EndKind.CONNECT_ERROR,
        ),
        (ForwardProxyError("407"), 502, "forward_proxy_error", EndKind.CONNECT_ERROR),
        (UpstreamUnreachableError("x"), 502, "upstream_unreachable", EndKind.CONNECT_ERROR),
        (InvalidAnswerError("x"), 502, "upstream_invalid_response", EndKind.UPSTREAM_INVALID),
        (UpstreamClosedError(), 502, "upstream_closed_before_response", EndKind.UPSTREAM_CLOSED),
    ],
)
def test_each_kind_of_trouble_has_its_row(
    error: UpstreamError, status: int, code: str, end: EndKind
) -> None:
    """Status, code and end; the message names the upstream and no credential (R7)."""
    gateway_error = explain_upstream_error(UPSTREAM, error)
    assert (gateway_error.status, gateway_error.code, gateway_error.end) == (status, code, end)
    assert gateway_error.message.startswith("Upstream 'main' (https://api.example:8443): ")
    assert gateway_error.message.endswith(".")
    assert "secret" not in gateway_error.message
