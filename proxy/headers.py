"""Header fields as bytes: which ones cross the proxy, and what changes on the way.

Heads are lists of ``(name, value)`` pairs of bytes, exactly as they were on the wire: case,
order, duplicates and bytes that are no UTF-8 are kept (R1). The closed list of what may differ:

1. Hop-by-hop fields are not relayed: the fixed ones and those that ``Connection`` names
   (RFC 9110 section 7.6.1). ``Connection`` cannot name a field that frames or routes the message.
2. Framing (``Content-Length``, ``Transfer-Encoding``) describes the hop it is sent on.
3. ``Host`` names the upstream, in the place where the client had it.
4. ``x-spantap-*`` is ours and removed.
5. What :class:`RequestChanges` replaces: ``Accept-Encoding``, ``traceparent``, ``tracestate``,
   ``Authorization``.
6. A field that carried one of our own keys is not relayed (:mod:`proxy.inbound_keys`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = (
    "FRAMING",
    "RawHeaders",
    "RequestChanges",
    "field_options",
    "find_header",
    "join_header",
    "request_headers",
    "response_headers",
    "select_headers",
    "without_fields",
)

RawHeaders = tuple[tuple[bytes, bytes], ...]

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"upgrade",
    }
)
FRAMING = frozenset({b"content-length", b"transfer-encoding"})
"""What tells where a body ends, in lower case."""

_NEVER_AN_OPTION = FRAMING | {b"host"}
_DIGESTS = frozenset({b"content-digest", b"content-md5", b"digest", b"repr-digest"})
_OURS = b"x-spantap-"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestChanges:
    """What the proxy changes in a request's head besides the hop's own fields.

    Attributes:
        host: the upstream's ``Host`` value.
        content_length: the new length where the body was rewritten, else ``None``.
        replaced: lower-case name to a ``(name, value)`` pair that stands in its place, or is
            appended where the client had none; ``None`` removes the field.
    """

    host: bytes
    content_length: int | None = None
    replaced: Mapping[bytes, tuple[bytes, bytes] | None] = field(default_factory=dict)


def find_header(headers: RawHeaders, name: bytes) -> bytes | None:
    """The first value of a field, ``name`` in lower case."""
    for key, value in headers:
        if len(key) == len(name) and key.lower() == name:
            return value
    return None


def join_header(headers: RawHeaders, name: bytes) -> bytes | None:
    """All values of a field that is a comma list, ``name`` in lower case."""
    values = [value for key, value in headers if len(key) == len(name) and key.lower() == name]
    return b",".join(values) if values else None


def field_options(headers: RawHeaders, name: bytes) -> frozenset[bytes]:
    """The members of such a list, in lower case."""
    values = join_header(headers, name)
    if values is None:
        return frozenset()
    return frozenset(option.strip().lower() for option in values.split(b","))


def without_fields(headers: RawHeaders, names: frozenset[bytes]) -> RawHeaders:
    """All other fields; ``names`` in lower case."""
    return tuple(pair for pair in headers if pair[0].lower() not in names)


def request_headers(headers: RawHeaders, changes: RequestChanges) -> list[tuple[bytes, bytes]]:
    """The head fields for the upstream, in the client's order.

    A client of HTTP/1.0 may have sent no ``Host``: then it comes first.
    """
    dropped = _HOP_BY_HOP | (field_options(headers, b"connection") - _NEVER_AN_OPTION)
    waiting = dict(changes.replaced)
    relayed: list[tuple[bytes, bytes]] = []
    host_seen = False
    for name, value in headers:
        key = name.lower()
        if key in waiting or key in changes.replaced:
            # The first occurrence takes the new value, further ones would contradict it.
            if (pair := waiting.pop(key, None)) is not None:
                relayed.append(pair)
        elif key == b"host":
            host_seen = True
            relayed.append((name, changes.host))
        elif key in dropped or key.startswith(_OURS):
            continue
        elif key == b"content-length" and changes.content_length is not None:
            relayed.append((name, b"%d" % changes.content_length))
        else:
            relayed.append((name, value))
    if not host_seen:
        relayed.insert(0, (b"Host", changes.host))
    relayed.extend(pair for pair in waiting.values() if pair is not None)
    return relayed


def response_headers(
    headers: RawHeaders, *, keeps_length: bool, keeps_chunked: bool
) -> list[tuple[bytes, bytes]]:
    """The head fields for the client, in the upstream's order.

    Args:
        headers: the upstream's.
        keeps_length: the body's length and digests still hold; otherwise they go.
        keeps_chunked: this hop is chunked too, so ``Transfer-Encoding`` stays in its place.
    """
    dropped = _HOP_BY_HOP | (field_options(headers, b"connection") - _NEVER_AN_OPTION)
    if not keeps_length:
        dropped |= _DIGESTS | {b"content-length"}
    if not keeps_chunked:
        dropped |= {b"transfer-encoding"}
    return [(name, value) for name, value in headers if name.lower() not in dropped]


def select_headers(
    headers: RawHeaders, names: frozenset[bytes], prefixes: tuple[bytes, ...] = ()
) -> tuple[tuple[str, str], ...]:
    """The fields named (lower case) as text for a tap frame, bytes read as Latin-1.

    Args:
        headers: a head.
        names: the fields wanted.
        prefixes: further ones, by the beginnings of their names.
    """
    return tuple(
        (key.decode("latin-1"), value.decode("latin-1"))
        for name, value in headers
        if (key := name.lower()) in names or key.startswith(prefixes)
    )
