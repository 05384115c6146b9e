"""What makes a message no request, and the words for it: tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp.http import HttpVersion, HttpVersion10, HttpVersion11
from aiohttp.http_exceptions import (
    BadHttpMessage,
    BadHttpMethod,
    BadStatusLine,
    InvalidHeader,
    InvalidURLError,
    LineTooLong,
)

from proxy.downstream.request_faults import explain_fault, find_http_fault
from proxy.headers import Head

if TYPE_CHECKING:
    from proxy.headers import RawHeaders

SECRET = "sk-secret"


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (LineTooLong(SECRET.encode(), 4096), 431, "longer than 4096 bytes"),
        (BadHttpMethod(error="Received HTTPS traffic on an HTTP port"), 400, "TLS was sent"),
        (BadHttpMethod(error=f"Invalid method encountered:\n\n  {SECRET}"), 400, "known method"),
        (BadStatusLine(error=f"Bad status line:\n  {SECRET}"), 400, "request line"),
        (InvalidURLError(SECRET), 400, "target"),
        (InvalidHeader(SECRET), 400, "head is not valid"),
        (ValueError(SECRET), 400, "head is not valid"),
        (BadHttpMessage("Too many headers received"), 431, "too many"),
        (BadHttpMessage("Missing 'Host' header in request."), 400, "Missing 'Host'"),
        (BadHttpMessage(f"Invalid header token:\n\n  {SECRET}\n  ^"), 400, "Invalid header token."),
    ],
)
def test_a_fault_is_explained_without_what_was_sent(
    error: Exception, status: int, words: str
) -> None:
    """One sentence, which goes to the client and to the log."""
    got, message = explain_fault(error, 4096)
    assert got == status
    assert words in message
    assert SECRET not in message
    assert "\n" not in message
    assert message.endswith(".")
    assert not message.endswith("..")


H = (b"Host", b"c")
CHUNKED = (b"Transfer-Encoding", b"chunked")


@pytest.mark.parametrize(
    ("method", "target", "version", "headers", "status"),
    [
        ("GET", "/", HttpVersion11, (H,), None),
        ("GET", "/", HttpVersion10, (), None),
        ("OPTIONS", "*", HttpVersion11, (H,), None),
        ("PUT", "/", HttpVersion11, (H, (b"transfer-encoding", b"Chunked")), None),
        ("GET", "/", HttpVersion11, (H, (b"Upgrade", b"h2c")), None),
        ("CONNECT", "h:1", HttpVersion11, (H,), 405),
        ("GET", "/", HttpVersion(0, 9), (), 400),
        ("GET", "/", HttpVersion(2, 0), (H,), 400),
        ("GET", "http://h/", HttpVersion11, (H,), 400),
        ("GET", "/", HttpVersion11, (H, (b"hOST", b"c")), 400),
        ("PUT", "/", HttpVersion11, (H, (b"Content-Length", b"1")) * 2, 400),
        ("PUT", "/", HttpVersion11, (H, CHUNKED, CHUNKED), 400),
        ("PUT", "/", HttpVersion11, (H, CHUNKED, (b"Content-Length", b"1")), 400),
        ("PUT", "/", HttpVersion10, (CHUNKED,), 400),
        ("PUT", "/", HttpVersion11, (H, (b"Transfer-Encoding", b"gzip, chunked")), 501),
        ("GET", "/", HttpVersion11, (H, (b"Upgrade", b"a, WEBSOCKET")), 426),
    ],
)
def test_what_the_parser_lets_pass_is_checked_again(
    method: str, target: str, version: HttpVersion, headers: RawHeaders, status: int | None
) -> None:
    """Ambiguous framing, open-proxy use and upgrades are refused whatever the parser thinks."""
    fault = find_http_fault(method, target, version, Head(headers))
    assert (fault[0] if fault else None) == status
