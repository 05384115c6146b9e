"""What can go wrong before an upstream answers, mapped to the answer the client gets.

One table: exception, status, code, sentence, and how the exchange is recorded to have ended. The
first row that fits wins. Nothing of the request is told, only the upstream's name and origin (R7).
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import aiohttp
from aiohttp.http import HttpProcessingError

from proxy.errors import GatewayError
from telemetry.frames.ending import EndKind

if TYPE_CHECKING:
    from proxy.upstream.routes import Upstream

__all__ = (
    "UPSTREAM_ERRORS",
    "ForwardProxyError",
    "UpstreamStalled",
    "describe_invalid",
    "explain_upstream_error",
)


class ForwardProxyError(aiohttp.ClientError):
    """The forward proxy broke off before it had made the connection."""


class UpstreamStalled(aiohttp.SocketTimeoutError):
    """The upstream took nothing of the request for too long."""


UPSTREAM_ERRORS = (aiohttp.ClientError, HttpProcessingError, OSError)
"""All that aiohttp and the system raise of an upstream."""

_Row = tuple[type[BaseException] | tuple[type[BaseException], ...], int, str, str, EndKind]

_TABLE: tuple[_Row, ...] = (
    (
        aiohttp.ConnectionTimeoutError,
        504,
        "upstream_connect_timeout",
        "no connection within the connect timeout",
        EndKind.TIMEOUT,
    ),
    (
        UpstreamStalled,
        504,
        "upstream_timeout",
        "it took nothing of the request within the upstream stall timeout",
        EndKind.TIMEOUT,
    ),
    (
        TimeoutError,
        504,
        "upstream_timeout",
        "no answer within the first-byte timeout",
        EndKind.TIMEOUT,
    ),
    (
        (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError, ssl.SSLError),
        502,
        "upstream_tls_error",
        "the TLS connection failed",
        EndKind.CONNECT_ERROR,
    ),
    (
        (aiohttp.ClientProxyConnectionError, aiohttp.ClientResponseError, ForwardProxyError),
        502,
        "forward_proxy_error",
        "the forward proxy (HTTPS_PROXY, HTTP_PROXY) did not connect",
        EndKind.CONNECT_ERROR,
    ),
    (
        aiohttp.ClientConnectorError,
        502,
        "upstream_unreachable",
        "no connection",
        EndKind.CONNECT_ERROR,
    ),
    (
        HttpProcessingError,
        502,
        "upstream_invalid_response",
        "its answer is no valid HTTP",
        EndKind.UPSTREAM_INVALID,
    ),
    (
        (aiohttp.ClientError, OSError),
        502,
        "upstream_closed_before_response",
        "it closed the connection before it answered",
        EndKind.UPSTREAM_CLOSED,
    ),
)


def describe_invalid(error: HttpProcessingError) -> str:
    """The parser's words for what is no valid HTTP, without what it quotes: there may be a key."""
    return error.message.partition(":")[0]


def explain_upstream_error(upstream: Upstream, error: BaseException) -> GatewayError:
    """What the client is told of one of :data:`UPSTREAM_ERRORS`."""
    if isinstance(error, aiohttp.ClientConnectorError) and error.host != upstream.origin.host:
        return explain_upstream_error(
            upstream, ForwardProxyError()
        )  # it was the proxy that was not reached
    for kinds, status, code, sentence, end in _TABLE:
        if isinstance(error, kinds):
            cause = _cause(error)
            message = f"Upstream {upstream.name!r} ({upstream.origin}): {sentence}{cause}."
            return GatewayError(status, code, message, end)
    raise AssertionError("the last row takes everything that is caught")


def _cause(error: BaseException) -> str:
    """The system's own words, where they say more than the row does."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f" ({error.certificate_error})"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f" ({error.os_error.strerror or error.os_error})"
    if isinstance(error, HttpProcessingError):
        return f" ({describe_invalid(error)})"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f" ({error.status})"
    return ""
