"""The table of what goes wrong before an upstream answers."""

from __future__ import annotations

import ssl

import aiohttp
import pytest
from aiohttp.http import HttpProcessingError
from yarl import URL

from proxy.errors import GatewayError
from proxy.upstream.errors import UPSTREAM_ERRORS, ForwardProxyError, explain_upstream_error
from proxy.upstream.routes import Upstream
from telemetry.frames.ending import EndKind

UPSTREAM = Upstream(
    name="main",
    origin=URL("https://api.example:8443"),
    credentials={b"authorization": (b"Authorization", b"Bearer sk-secret")},
)


def map_error(error: BaseException) -> GatewayError:
    assert isinstance(error, UPSTREAM_ERRORS)
    return explain_upstream_error(UPSTREAM, error)


@pytest.mark.parametrize(
    ("error", "status", "code", "end"),
    [
        (aiohttp.ConnectionTimeoutError(), 504, "upstream_connect_timeout", EndKind.TIMEOUT),
        (aiohttp.SocketTimeoutError(), 504, "upstream_timeout", EndKind.TIMEOUT),
        (TimeoutError(), 504, "upstream_timeout", EndKind.TIMEOUT),
        (ssl.SSLError("x"), 502, "upstream_tls_error", EndKind.CONNECT_ERROR),
        (ForwardProxyError(), 502, "forward_proxy_error", EndKind.CONNECT_ERROR),
        (HttpProcessingError(), 502, "upstream_invalid_response", EndKind.UPSTREAM_INVALID),
        (
            aiohttp.ServerDisconnectedError(),
            502,
            "upstream_closed_before_response",
            EndKind.UPSTREAM_CLOSED,
        ),
        (
            ConnectionResetError(104, "reset"),
            502,
            "upstream_closed_before_response",
            EndKind.UPSTREAM_CLOSED,
        ),
    ],
)
def test_each_kind_of_trouble_has_its_row(
    error: BaseException, status: int, code: str, end: EndKind
) -> None:
    """Status, code and end; the message names the upstream and no credential (R7)."""
    gateway_error = map_error(error)
    assert (gateway_error.status, gateway_error.code, gateway_error.end) == (status, code, end)
    assert gateway_error.message.startswith("Upstream 'main' (https://api.example:8443): ")
    assert gateway_error.message.endswith(".")
    assert "secret" not in gateway_error.message


def test_the_cause_of_an_invalid_answer_is_one_short_line() -> None:
    """The parser quotes what it could not read, over several lines."""
    error = HttpProcessingError(message="Bad:\n\n   b'" + "x" * 1000 + "'\n  ^")
    message = map_error(error).message
    assert "\n" not in message
    assert len(message) < 400


def test_what_is_no_trouble_of_an_upstreams_is_not_mapped() -> None:
    """What is mapped already passes, and so does a fault of ours."""
    error = GatewayError(400, "invalid_request_body", "m", EndKind.CLIENT_GONE)
    assert not isinstance(error, UPSTREAM_ERRORS)
    assert not isinstance(ZeroDivisionError(), UPSTREAM_ERRORS)
