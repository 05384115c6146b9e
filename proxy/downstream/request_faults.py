"""What makes a message no request that can be relayed, and the words for it.

The parser finds most of it; what it lets pass and smuggling is made of is looked for here. What
was sent is never quoted: it may hold a key (R7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp.http import HttpProcessingError, HttpVersion, HttpVersion10, HttpVersion11
from aiohttp.http_exceptions import (
    BadHttpMethod,
    BadStatusLine,
    InvalidHeader,
    InvalidURLError,
    LineTooLong,
)

if TYPE_CHECKING:
    from proxy.headers import Head

__all__ = ("explain_fault", "find_http_fault")

_CONNECT = "spantap relays to its upstreams only; CONNECT is refused."
_TRACE = "TRACE asks for the request's own head back, keys and all; it is refused."
_ABSOLUTE_TARGET = (
    "spantap relays to its upstreams only; send the path, not an absolute URL. "
    "Is spantap set as an HTTP proxy instead of as the base URL?"
)
_UPGRADE = (
    "spantap relays HTTP requests and answers, and no WebSocket. Send the same as a POST request, "
    "or connect to the provider directly."
)


def explain_fault(error: Exception, max_header_bytes: int) -> tuple[int, str]:
    """Status and sentence for what the parser raised."""
    message = getattr(error, "message", "")
    if isinstance(error, LineTooLong):
        return 431, f"A header field or the target is longer than {max_header_bytes} bytes."
    if isinstance(error, BadHttpMethod):
        if message.startswith("Received HTTPS"):
            return 400, "TLS was sent to a port that speaks plain HTTP; use an http:// base URL."
        return 400, "The request does not begin with a known method."
    if isinstance(error, BadStatusLine):
        return 400, "The request line is not that of HTTP/1.1."
    if isinstance(error, InvalidURLError):
        return 400, "The request target holds what no target may hold."
    if isinstance(error, InvalidHeader) or not isinstance(error, HttpProcessingError):
        return 400, "The request's head is not valid."
    if message == "Too many headers received":
        return 431, "The request has too many header fields."
    # The parser's own words; the bytes that it points at come after a colon and a line end.
    words, _, _ = message.partition(":\n")
    return 400, f"{words.rstrip('.')}."


def find_http_fault(
    method: str, target: str, version: HttpVersion, head: Head
) -> tuple[int, str, str] | None:
    """What makes a parsed request unfit to be relayed: ``(status, code, message)`` or ``None``.

    The parser lets some ambiguities pass that smuggling is made of (RFC 9112 sections 3.2, 6.1
    and 6.3); and the proxy is for its upstreams only, no open proxy.
    """
    if method == "CONNECT":
        return 405, "connect_refused", _CONNECT
    if method in {"TRACE", "TRACK"}:  # the key in the head may be ours, and not for the client
        return 405, "trace_refused", _TRACE
    if version not in {HttpVersion10, HttpVersion11}:
        return 400, "invalid_http_request", "Only HTTP/1.0 and HTTP/1.1 are spoken here."
    if not target.startswith("/") and target != "*":
        return 400, "absolute_target_refused", _ABSOLUTE_TARGET
    if head.has_repeated:
        for name in (b"host", b"content-length", b"transfer-encoding"):
            if head.names.count(name) > 1:
                return 400, "invalid_http_request", f"More than one {name.decode()} header."
    encoding = head.find(b"transfer-encoding")
    if encoding is not None:
        if head.has(b"content-length"):
            return 400, "invalid_http_request", "Both Transfer-Encoding and Content-Length."
        if version == HttpVersion10:
            return 400, "invalid_http_request", "Transfer-Encoding in a request of HTTP/1.0."
        if encoding.lower() != b"chunked":
            return 501, "invalid_http_request", "The only transfer encoding taken is chunked."
    if head.has(b"upgrade") and b"websocket" in head.options(b"upgrade"):
        return 426, "upgrade_not_supported", _UPGRADE
    return None
