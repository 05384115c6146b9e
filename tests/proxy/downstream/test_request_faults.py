"""What makes a message no request: a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.downstream.request_faults import find_fault
from proxy.headers import Head

if TYPE_CHECKING:
    from proxy.headers import RawHeaders

H = (b"Host", b"c")
CHUNKED = (b"Transfer-Encoding", b"chunked")


@pytest.mark.parametrize(
    ("method", "target", "version", "headers", "status"),
    [
        ("GET", "/", "1.1", (H,), None),
        ("GET", "/", "1.0", (), None),
        ("OPTIONS", "*", "1.1", (H,), None),
        ("PUT", "/", "1.1", (H, (b"transfer-encoding", b"Chunked")), None),
        ("GET", "/", "1.1", (H, (b"Upgrade", b"h2c")), None),
        ("CONNECT", "h:1", "1.1", (H,), 405),
        ("GET", "/", "0.9", (), 400),
        ("GET", "/", "2.0", (H,), 400),
        ("GET", "http://h/", "1.1", (H,), 400),
        ("GET", "*", "1.1", (H,), 400),
        ("GET", "/", "1.1", (), 400),
        ("GET", "/", "1.1", (H, (b"Accept", b"a"), (b"accept", b"b")), None),
        ("GET", "/", "1.1", (H, (b"User-Agent", b"a"), (b"user-agent", b"b")), 400),
        ("GET", "/", "1.1", (H, (b"hOST", b"c")), 400),
        ("PUT", "/", "1.1", (H, (b"Content-Length", b"1")) * 2, 400),
        ("PUT", "/", "1.1", (H, CHUNKED, CHUNKED), 400),
        ("PUT", "/", "1.1", (H, CHUNKED, (b"Content-Length", b"1")), 400),
        ("PUT", "/", "1.0", (CHUNKED,), 400),
        ("PUT", "/", "1.1", (H, (b"Transfer-Encoding", b"gzip, chunked")), 501),
        ("PUT", "/", "1.1", (H, (b"Transfer-Encoding", b"gzip")), 400),
        ("GET", "/", "1.1", (H, (b"Upgrade", b"a, WEBSOCKET")), 426),
    ],
)
def test_what_the_parser_lets_pass_is_checked_again(
    method: str, target: str, version: str, headers: RawHeaders, status: int | None
) -> None:
    """Ambiguous framing, open-proxy use and upgrades are refused whatever the parser thinks."""
    fault = find_fault(method, target, version, Head(headers))
    assert (fault.status if fault else None) == status
