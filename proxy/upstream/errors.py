"""Errors of upstreams, and the answers that clients get for them.

Each kind of failure is a class, which says what answer the client gets and which end of the
exchange is recorded. The answer names the upstream and its origin, but nothing of the request (R7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.errors import GatewayError
from telemetry.frames.ending import EndKind

if TYPE_CHECKING:
    from proxy.upstream.routes import Upstream


class UpstreamError(Exception):
    """An upstream did not answer, or its answer broke off.

    Its text is the cause in the words of the system or the parser; it may be empty.

    Attributes:
        status: the status of the answer to the client.
        code: the code in that answer: see :class:`proxy.errors.GatewayError`.
        sentence: what happened, for people; it is in that answer too.
        end: the end of the exchange that is recorded.
    """

    status = 502
    code: str
    sentence: str
    end = EndKind.CONNECT_ERROR


class ConnectTimeoutError(UpstreamError):
    """Names, TCP, TLS and forward proxy together took too long."""

    status = 504
    code = "upstream_connect_timeout"
    sentence = "no connection within the connect timeout"
    end = EndKind.TIMEOUT


class UpstreamStalledError(UpstreamError):
    """The upstream read nothing of the request for too long."""

    status = 504
    code = "upstream_timeout"
    sentence = "it read nothing of the request within the upstream stall timeout"
    end = EndKind.TIMEOUT


class UpstreamSilentError(UpstreamError):
    """The upstream sent nothing for too long."""

    status = 504
    code = "upstream_timeout"
    sentence = "no answer within the first-byte timeout"
    end = EndKind.TIMEOUT


class UpstreamTlsError(UpstreamError):
    """The certificate is not valid, or the port does not speak TLS."""

    code = "upstream_tls_error"
    sentence = "the TLS connection failed"


class UpstreamWantsCertificateError(UpstreamTlsError):
    """The upstream refused us because of a client certificate: we have none, or another one."""

    code = "upstream_wants_certificate"
    sentence = "it wants a client certificate"


class ForwardProxyError(UpstreamError):
    """The forward proxy did not make the connection."""

    code = "forward_proxy_error"
    sentence = "the forward proxy (HTTPS_PROXY, HTTP_PROXY) did not connect"


class UpstreamUnreachableError(UpstreamError):
    """The name has no address, or nobody listens there."""

    code = "upstream_unreachable"
    sentence = "no connection"


class InvalidAnswerError(UpstreamError):
    """The upstream sent invalid HTTP; the error never quotes it (R7)."""

    code = "upstream_invalid_response"
    sentence = "its answer is not valid HTTP"
    end = EndKind.UPSTREAM_INVALID


class UpstreamClosedError(UpstreamError):
    """The connection ended before the answer did."""

    code = "upstream_closed_before_response"
    sentence = "it closed the connection before it answered"
    end = EndKind.UPSTREAM_CLOSED


def explain_upstream_error(upstream: Upstream, error: UpstreamError) -> GatewayError:
    """Make the error that tells the client why the upstream did not answer."""
    cause = f" ({error})" if str(error) else ""
    message = f"Upstream {upstream.name!r} ({upstream.origin}): {error.sentence}{cause}."
    return GatewayError(error.status, error.code, message, error.end)
