"""Header fields as bytes: which ones cross the proxy, and what changes on the way.

Heads are tuples of ``(name, value)`` pairs of bytes, exactly as they were on the wire: case,
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

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = (
    "FRAMING",
    "Head",
    "RawHeaders",
    "RequestChanges",
    "request_headers",
    "response_headers",
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

_NONE: frozenset[bytes] = frozenset()
_NEVER_AN_OPTION = FRAMING | {b"host"}
_DIGESTS = frozenset({b"content-digest", b"content-md5", b"digest", b"repr-digest"})
_NOT_FOR_CLIENTS = {
    (keeps_length, keeps_chunked): _HOP_BY_HOP
    | (_NONE if keeps_length else _DIGESTS | {b"content-length"})
    | (_NONE if keeps_chunked else {b"transfer-encoding"})
    for keeps_length in (False, True)
    for keeps_chunked in (False, True)
}
_OURS = b"x-spantap-"

MAX_SHAPES = 128
"""Different lists of names or of options that are remembered, each of a head's size at most: 16 MB
of each at worst."""


class RequestChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What the proxy changes in a request's head besides the hop's own fields.

    Attributes:
        host: the upstream's ``Host`` value.
        content_length: the new length where the body was rewritten, else ``None``.
        replaced: lower-case name to a ``(name, value)`` pair that stands in its place, or is
            appended where the client had none; ``None`` removes the field.
    """

    host: bytes
    content_length: int | None = None
    replaced: Mapping[bytes, tuple[bytes, bytes] | None] = {}


class Head(RawHeaders):
    """A head's fields as they were on the wire, and how to look them up by name.

    All names that its methods take are in lower case.

    Attributes:
        names: of its fields in lower case, in their order.
        has_repeated: whether a name occurs more than once.
    """

    names: tuple[bytes, ...]
    has_repeated: bool

    def __init__(self, fields: Iterable[tuple[bytes, bytes]] = ()) -> None:
        del fields  # tuple.__new__ took them
        names, values = zip(*self, strict=True) if self else ((), ())
        self.names = _lower(names)
        # It is asked for some fifteen fields. The first of a name is put last, and stays.
        self._first = dict(zip(self.names[::-1], values[::-1], strict=True))
        self.has_repeated = len(self._first) < len(values)

    def has(self, name: bytes) -> bool:
        """Whether there is such a field."""
        return name in self._first

    def find(self, name: bytes) -> bytes | None:
        """The first value of a field."""
        return self._first.get(name)

    def join(self, name: bytes) -> bytes | None:
        """All values of a field that is a comma list."""
        value = self._first.get(name)
        if value is None or not self.has_repeated:
            return value
        return b",".join(pair[1] for key, pair in zip(self.names, self, strict=True) if key == name)

    def options(self, name: bytes) -> frozenset[bytes]:
        """The members of such a list, in lower case."""
        values = self.join(name) if name in self._first else None
        if values is None:
            return _NONE
        return _split_options(values.lower())

    def without(self, names: frozenset[bytes]) -> Head:
        """All other fields."""
        return Head(pair for key, pair in zip(self.names, self, strict=True) if key not in names)

    def select(
        self, names: frozenset[bytes], prefixes: tuple[bytes, ...] = ()
    ) -> tuple[tuple[str, str], ...]:
        """The fields named as text for a tap frame, bytes read as Latin-1.

        Args:
            names: the fields wanted.
            prefixes: further ones, by the beginnings of their names.
        """
        places = _find_places(self.names, names, prefixes)
        return tuple([(name, self[place][1].decode("latin-1")) for name, place in places])


def request_headers(head: Head, changes: RequestChanges) -> list[tuple[bytes, bytes]]:
    """The head fields for the upstream, in the client's order.

    A client of HTTP/1.0 may have sent no ``Host``: then it comes first.
    """
    waiting = dict(changes.replaced)
    relayed = list(head)
    touched = _find_touched(head.names, _dropped(head, _HOP_BY_HOP), frozenset(waiting))
    for key, place in touched:  # the last one first, so that the places of the others stay
        if key in waiting:
            # The first occurrence takes the new value, further ones would contradict it.
            new = waiting.pop(key) if head.names.index(key) == place else None
        elif key == b"host":
            new = (head[place][0], changes.host)
        elif key == b"content-length" and changes.content_length is not None:
            new = (head[place][0], b"%d" % changes.content_length)
        else:
            new = head[place] if key == b"content-length" else None
        relayed[place : place + 1] = () if new is None else (new,)
    if not head.has(b"host"):
        relayed.insert(0, (b"Host", changes.host))
    relayed.extend(pair for pair in waiting.values() if pair is not None)
    return relayed


def response_headers(
    head: Head, *, keeps_length: bool, keeps_chunked: bool
) -> list[tuple[bytes, bytes]]:
    """The head fields for the client, in the upstream's order.

    Args:
        head: the upstream's.
        keeps_length: the body's length and digests still hold; otherwise they go.
        keeps_chunked: this hop is chunked too, so ``Transfer-Encoding`` stays in its place.
    """
    dropped = _dropped(head, _NOT_FOR_CLIENTS[keeps_length, keeps_chunked])
    return list(map(head.__getitem__, _find_kept(head.names, dropped)))


def _dropped(head: Head, always: frozenset[bytes]) -> frozenset[bytes]:
    """The fields of this hop, and those that ``Connection`` makes such."""
    named = head.options(b"connection")
    return always if named <= _HOP_BY_HOP else always | (named - _NEVER_AN_OPTION)


# What clients and upstreams send again with each call is worked out once.


@functools.lru_cache(MAX_SHAPES)
def _split_options(values: bytes) -> frozenset[bytes]:
    return frozenset(option.strip() for option in values.split(b","))


@functools.lru_cache(MAX_SHAPES)
def _lower(names: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple([name.lower() for name in names])


@functools.lru_cache(MAX_SHAPES)
def _find_places(
    names: tuple[bytes, ...], wanted: frozenset[bytes], prefixes: tuple[bytes, ...]
) -> tuple[tuple[str, int], ...]:
    """Where the wanted fields are, and their names as text."""
    return tuple(
        (name.decode("latin-1"), place)
        for place, name in enumerate(names)
        if name in wanted or name.startswith(prefixes)
    )


@functools.lru_cache(MAX_SHAPES)
def _find_touched(
    names: tuple[bytes, ...], dropped: frozenset[bytes], replaced: frozenset[bytes]
) -> tuple[tuple[bytes, int], ...]:
    """The fields of a request that are not relayed just as they are, the last one first."""
    touched = dropped | replaced | {b"host", b"content-length"}
    return tuple(
        (name, place)
        for place, name in reversed(tuple(enumerate(names)))
        if name in touched or name.startswith(_OURS)
    )


@functools.lru_cache(MAX_SHAPES)
def _find_kept(names: tuple[bytes, ...], dropped: frozenset[bytes]) -> tuple[int, ...]:
    """The places of those that are not dropped."""
    return tuple(place for place, name in enumerate(names) if name not in dropped)
