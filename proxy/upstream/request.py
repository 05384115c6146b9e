"""A request as it goes to an upstream, and how long each step of it may take."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from proxy.request_body import RequestBody
from proxy.upstream.routes import Upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTimeouts:
    """Limits in seconds; 0 means no limit.

    Attributes:
        connect_seconds: for the name, TCP, TLS and the forward proxy together.
        first_byte_seconds: from the request's last byte to the answer's head.
        idle_seconds: between two reads of the body.
        stall_seconds: how long the upstream may read nothing of the request.
    """

    connect_seconds: float = 10.0
    first_byte_seconds: float = 900.0
    idle_seconds: float = 900.0
    stall_seconds: float = 900.0


class UpstreamRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it goes on the wire.

    Attributes:
        target: raw path and query.
        headers: all fields, including ``Host`` and framing.
        body: the whole body, or what was read of it so far.
        more: parts that follow ``body``.
        rest: reads what follows them; ``None`` if nothing follows.
        may_switch: it asks for another protocol, which the upstream may begin with a 101.
    """

    upstream: Upstream
    method: str
    target: str
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""
    more: tuple[bytes | memoryview, ...] = ()
    rest: RequestBody | None = None
    chunked: bool = False
    may_switch: bool = False

    def encode_head(self, proxied: bytes | None) -> bytes:
        """Write the head; ``proxied`` is the authorization for a forward proxy of plain HTTP."""
        target = self.target
        if proxied is not None:
            target = f"{self.upstream.origin}{target}"
        lines = [f"{self.method} {target} HTTP/1.1".encode("utf-8", "surrogateescape")]
        lines += map(b": ".join, self.headers)
        if proxied:
            lines.append(b"Proxy-Authorization: " + proxied)
        return b"\r\n".join(lines) + b"\r\n\r\n"
