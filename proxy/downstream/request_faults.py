"""Faults for which a request is not relayed, and the words for them.

The parser finds most of them. This module looks for the ambiguities that the parser accepts and
that request smuggling uses. What was sent is never quoted, because it may hold a key (R7).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from httptools import HttpParserInvalidMethodError, HttpParserInvalidURLError

if TYPE_CHECKING:
    from httptools import HttpParserError

    from proxy.headers import Head

_CONNECT = "spantap relays to its upstreams only; CONNECT is refused."
_TRACE = "TRACE asks for the request's own head back, keys and all; it is refused."
_ABSOLUTE_TARGET = (
    "spantap relays to its upstreams only; send the path, not an absolute URL. "
    "Is spantap set as an HTTP proxy instead of as the base URL?"
)
_BAD_HANDSHAKE = (
    "The request asks for a WebSocket, but is not a valid handshake: GET of HTTP/1.1 without a "
    "body, with 'Connection: Upgrade' and no other protocol."
)
_TLS_RECORD = b"\x16\x03"

_ONCE = (
    b"content-length content-location content-range content-type etag host max-forwards server "
    b"transfer-encoding user-agent"
).split()
"""Fields that have one value: if there are two, different programs believe different ones."""


@dataclass(eq=False)
class BadRequest(Exception):  # noqa: N818 - named as HTTP names it
    """A request that is refused before it becomes an exchange, with a sentence that says why.

    Attributes:
        status: the status of the answer.
        message: the sentence.
        code: the code of the error in the answer.
        has_body: the answer has a body.
        upgrade_target: the target for which a WebSocket was requested, if that is the fault.
    """

    status: int
    message: str
    code: str = "invalid_http_request"
    has_body: bool = True
    upgrade_target: str = ""


def explain_fault(error: HttpParserError, begin: bytes) -> BadRequest:
    """Explain the parser's error; its own words never quote what was sent.

    `begin` is the beginning of the bytes that it was parsing.
    """
    if isinstance(error, HttpParserInvalidMethodError):
        if begin == _TLS_RECORD:
            message = "TLS was sent to a port that speaks plain HTTP; use an http:// base URL."
            return BadRequest(400, message)
        return BadRequest(400, "The request does not begin with a known method.")
    if isinstance(error, HttpParserInvalidURLError):
        return BadRequest(400, "The request target contains a character that must be escaped.")
    return BadRequest(400, f"{error}.")


def find_fault(method: str, target: str, version: str, head: Head) -> BadRequest | None:
    """Find what makes a parsed request unfit to be relayed.

    The parser accepts some ambiguities that request smuggling uses (RFC 9112 sections 3.2, 6.1 and
    6.3). And the proxy serves its upstreams only: it is not an open proxy.
    """
    if method == "CONNECT":
        return BadRequest(405, _CONNECT, "connect_refused")
    if method in {"TRACE", "TRACK"}:  # the key in the head may be ours, which a client must not see
        return BadRequest(405, _TRACE, "trace_refused")
    if version not in {"1.0", "1.1"}:
        return BadRequest(400, "Only HTTP/1.0 and HTTP/1.1 are spoken here.")
    if not target.startswith("/") and (target, method) != ("*", "OPTIONS"):
        return BadRequest(400, _ABSOLUTE_TARGET, "absolute_target_refused")
    if version == "1.1" and not head.has(b"host"):
        return BadRequest(400, "Missing 'Host' header in request.")
    if head.shape.has_repeated:
        for name in _ONCE:
            if head.shape.names.count(name) > 1:
                return BadRequest(400, f"More than one {name.decode()} header.")
    encoding = head.find(b"transfer-encoding")
    if encoding is not None:
        if head.has(b"content-length"):
            return BadRequest(400, "Both Transfer-Encoding and Content-Length.")
        if version == "1.0":
            return BadRequest(400, "Transfer-Encoding in a request of HTTP/1.0.")
        if (codings := encoding.lower()) != b"chunked":  # which must be the last (RFC 9112, 6.3)
            status = 501 if codings.rpartition(b",")[2].strip() == b"chunked" else 400
            return BadRequest(status, "The only transfer encoding accepted is chunked.")
    if b"websocket" in head.options(b"upgrade") and not asks_for_websocket(method, version, head):
        return BadRequest(426, _BAD_HANDSHAKE, "upgrade_not_supported", upgrade_target=target)
    return None


def asks_for_websocket(method: str, version: str, head: Head) -> bool:
    """Tell whether a request is the handshake of a WebSocket, and nothing else.

    It has no body and names no other protocol, so that what follows its head can be read in one way
    only (RFC 6455 section 4.1).
    """
    return (
        head.options(b"upgrade") == {b"websocket"}
        and b"upgrade" in head.options(b"connection")
        and (method, version) == ("GET", "1.1")
        and not head.has(b"transfer-encoding")
        and head.find(b"content-length") in {None, b"0"}
    )
