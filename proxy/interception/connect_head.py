"""Reads the head of a CONNECT request (RFC 9110 section 9.3.6), strictly.

Whatever could be read in two ways is refused, because another proxy may follow. Nothing that was
sent is quoted (R7).
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from typing import NamedTuple

from proxy.downstream.request_faults import BadRequest

_REQUEST_LINE = re.compile(rb"([!-~]+) ([!-~]+) HTTP/1\.[01]")
_TARGET = re.compile(r"(\[[0-9a-fA-F:.]+\]|[0-9A-Za-z._-]+):([0-9]{1,5})")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\0\r\n]*?)[ \t]*")
_LABEL = re.compile(r"[0-9a-z_-]{1,63}")
_MAX_NAME_CHARS = 253
_ONCE = frozenset({b"content-length", b"host", b"proxy-authorization"})

_NO_CONNECT = (
    "This port takes CONNECT only: set it as HTTPS_PROXY. HTTP_PROXY and ALL_PROXY must not lead "
    "here, and it is no base URL."
)


class ConnectRequest(NamedTuple):
    """A CONNECT request.

    Attributes:
        host: a name in lower case without a final dot, or an address without brackets.
        password: what it shows as the password; ``None`` for none.
    """

    host: str
    port: int
    password: bytes | None

    def __repr__(self) -> str:
        """Show no password (R7): a client may show the secret, or a password of another proxy."""
        return f"ConnectRequest({self.host!r}, {self.port})"


def read_connect(head: bytes) -> ConnectRequest:
    """Read a head, without the empty line at its end.

    Raises:
        BadRequest: it is not valid; with status 501 if it is another request.
    """
    first, *lines = head.split(b"\r\n")
    request = _REQUEST_LINE.fullmatch(first)
    if request is None:
        raise BadRequest(400, "The request does not begin with a valid line of HTTP/1.1.")
    if request[1] != b"CONNECT":
        raise BadRequest(501, _NO_CONNECT, "connect_only")
    password = None
    seen = set()
    for line in lines:
        found = _FIELD.fullmatch(line)
        if found is None:
            raise BadRequest(400, "A header field of the CONNECT is not valid.")
        name = found[1].lower()
        if name in seen and name in _ONCE:
            raise BadRequest(400, f"More than one {name.decode()} header.")
        seen.add(name)
        if name == b"transfer-encoding" or (name == b"content-length" and found[2] != b"0"):
            raise BadRequest(400, "A CONNECT has no body.")
        if name == b"proxy-authorization":
            password = _read_password(found[2])
    host, port = _read_target(request[2].decode("ascii"))
    return ConnectRequest(host, port, password)


def _read_target(target: str) -> tuple[str, int]:
    found = _TARGET.fullmatch(target)
    port = int(found[2]) if found else 0
    if found is None or not 0 < port < 1 << 16:
        raise BadRequest(400, "The target of a CONNECT must be HOST:PORT.")
    host = found[1].lower()
    if host.startswith("["):
        return _read_address(host[1:-1]), port
    host = host.removesuffix(".")
    if len(host) > _MAX_NAME_CHARS or not all(map(_LABEL.fullmatch, host.split("."))):
        raise BadRequest(400, "The host of the CONNECT is not a valid name.")
    return host, port


def _read_address(text: str) -> str:
    try:
        return str(ipaddress.IPv6Address(text))
    except ValueError:
        raise BadRequest(400, "The address of the CONNECT is not valid.") from None


def _read_password(value: bytes) -> bytes | None:
    """Read the password of the scheme Basic (RFC 7617); the user's name does not matter."""
    scheme, _, encoded = value.partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        pair = base64.b64decode(encoded.strip(), validate=True)
    except binascii.Error:
        return None
    return pair.partition(b":")[2]
