"""Header fields as bytes: which fields are relayed, and what changes on the way.

Heads are tuples of ``(name, value)`` pairs of bytes, exactly as they were on the wire, with case,
order, duplicates and any bytes kept (R1). Only these things may differ:

1. Hop-by-hop fields are not relayed: the fixed ones and those that ``Connection`` names
   (RFC 9110 section 7.6.1). ``Connection`` cannot name a field that frames or routes the message.
   If the message changes the protocol, ``Connection`` and ``Upgrade`` are relayed.
2. Framing (``Content-Length``, ``Transfer-Encoding``) describes the hop that it is sent on.
3. ``Host`` names the upstream, in the place where the client had it.
4. ``x-spantap-*`` is ours and removed.
5. What :class:`RequestChanges` replaces: ``Accept-Encoding``, ``traceparent``, ``tracestate``,
   ``Authorization``.
6. A field that carried an inbound key is not relayed (:mod:`proxy.downstream.inbound_keys`).
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

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
_NONE: frozenset[bytes] = frozenset()
_NEVER_AN_OPTION = FRAMING | {b"host"}
_DIGESTS = frozenset({b"content-digest", b"content-md5", b"digest", b"repr-digest"})
_SWITCHES = frozenset({b"connection", b"upgrade"})
_NOT_FOR_CLIENTS = {
    (keeps_length, keeps_chunked): _HOP_BY_HOP
    | (_NONE if keeps_length else _DIGESTS | {b"content-length"})
    | (_NONE if keeps_chunked else {b"transfer-encoding"})
    for keeps_length in (False, True)
    for keeps_chunked in (False, True)
}
_OURS = b"x-spantap-"
_NAME = operator.itemgetter(0)
_VALUE = operator.itemgetter(1)
_AS_TEXT = operator.methodcaller("decode", "latin-1")

MAX_FIELDS = 256
"""The most fields of a head, more than real clients and servers send. This bounds the work for a
head."""

MAX_HEAD_FACTOR = 4
"""The largest head, as a multiple of the largest field: nginx too has four buffers for large
fields."""

MAX_SHAPES = 128
"""The number of entries of each cache about heads. An entry is at most as large as a head, so a
cache takes at most 16 MB."""


class RequestChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that the proxy makes to a request's head besides the fields of the hop.

    Attributes:
        host: the upstream's ``Host`` value.
        content_length: the new length if the body was rewritten, else ``None``.
        switches: the request asks for another protocol.
        replaced: for a lower-case name, the ``(name, value)`` pair that takes the field's place, or
            is appended if the client sent no such field; ``None`` removes the field.
    """

    host: bytes
    content_length: int | None = None
    switches: bool = False
    replaced: Mapping[bytes, tuple[bytes, bytes] | None] = {}


class Shape:
    """The names of a head: as they were on the wire, in lower case, and the first place of each."""

    __slots__ = ("has_repeated", "names", "places", "raw_names")

    def __init__(self, raw_names: tuple[bytes, ...]) -> None:
        self.raw_names = raw_names
        self.names = tuple([name.lower() for name in raw_names])
        self.places = {name: place for place, name in reversed(tuple(enumerate(self.names)))}
        self.has_repeated = len(self.places) < len(raw_names)


class Head(RawHeaders):
    """A head's fields as they were on the wire, looked up by names in lower case."""

    shape: Shape

    def __init__(self, fields: Iterable[tuple[bytes, bytes]] = ()) -> None:
        del fields  # tuple.__new__ took them
        self.shape = shape = _shape_of(tuple(map(_NAME, self)))
        self._places = shape.places

    def has(self, name: bytes) -> bool:
        """Tell whether there is such a field."""
        return name in self._places

    def find(self, name: bytes) -> bytes | None:
        """Return the first value of a field, or ``None``."""
        place = self._places.get(name)
        return None if place is None else self[place][1]

    def join(self, name: bytes) -> bytes | None:
        """Join all values of a field that is a list with commas."""
        place = self._places.get(name)
        if place is None:
            return None
        if not self.shape.has_repeated:
            return self[place][1]
        return b",".join(field[1] for field in self if field[0].lower() == name)

    def options(self, name: bytes) -> frozenset[bytes]:
        """Return the members of a field that is a list with commas, in lower case."""
        values = self.join(name) if name in self._places else None
        return _NONE if values is None else _split_options(values.lower())

    @property
    def is_encoded(self) -> bool:
        """Whether the body is compressed, so that it cannot be read here."""
        if b"content-encoding" not in self._places:
            return False
        return not self.options(b"content-encoding") <= {b"", b"identity"}

    def without(self, names: frozenset[bytes]) -> Head:
        """Return all fields except those with these names."""
        return Head(field for field in self if field[0].lower() not in names)

    def select(
        self, names: frozenset[bytes], prefixes: tuple[bytes, ...] = ()
    ) -> tuple[tuple[str, str], ...]:
        """Select fields, by names and beginnings of names, as Latin-1 text for a tap frame."""
        wanted, places = _find_places(self.shape, names, prefixes)
        values = map(_VALUE, map(self.__getitem__, places))
        return tuple(zip(wanted, map(_AS_TEXT, values), strict=True))


def request_headers(head: Head, changes: RequestChanges) -> list[tuple[bytes, bytes]]:
    """Return the head fields for the upstream, in the client's order.

    A client with HTTP/1.0 may have sent no ``Host``; then ours comes first.
    """
    replaced, length = changes.replaced, changes.content_length
    dropped = _dropped(head, _HOP_BY_HOP)
    order, host_name, length_name = _order_request(
        head.shape,
        dropped - _SWITCHES if changes.switches else dropped,
        tuple(replaced),
        tuple(map(bool, replaced.values())),
        length is not None,
    )
    fields: list[Any] = [*head, (host_name, changes.host), *replaced.values()]
    if length is not None:
        fields.append((length_name, b"%d" % length))
    return list(map(fields.__getitem__, order))


def response_headers(
    head: Head, *, keeps_length: bool, keeps_chunked: bool
) -> list[tuple[bytes, bytes]]:
    """Return the head fields for the client, in the upstream's order.

    Without `keeps_length` there is no length and no digest, because they are no longer right;
    without `keeps_chunked` there is no ``Transfer-Encoding``.
    """
    dropped = _dropped(head, _NOT_FOR_CLIENTS[keeps_length, keeps_chunked])
    return list(map(head.__getitem__, _find_kept(head.shape, dropped)))


def switching_headers(head: Head) -> list[tuple[bytes, bytes]]:
    """Return the head fields of a 101 for the client, in the upstream's order."""
    dropped = _dropped(head, _HOP_BY_HOP | FRAMING) - _SWITCHES
    return list(map(head.__getitem__, _find_kept(head.shape, dropped)))


def _dropped(head: Head, always: frozenset[bytes]) -> frozenset[bytes]:
    """Return the fields of this hop: the fixed ones, and those that ``Connection`` names."""
    options = head.join(b"connection")
    return always if options is None else _drop_options(always, options.lower())


# Clients and upstreams send the same names with each call, so results are kept by names.


@functools.lru_cache(MAX_SHAPES)
def _split_options(values: bytes) -> frozenset[bytes]:
    return frozenset(option.strip() for option in values.split(b","))


@functools.lru_cache(MAX_SHAPES)
def _drop_options(always: frozenset[bytes], options: bytes) -> frozenset[bytes]:
    return always | (_split_options(options) - _NEVER_AN_OPTION)


@functools.lru_cache(MAX_SHAPES)
def _shape_of(raw_names: tuple[bytes, ...]) -> Shape:
    return Shape(raw_names)


@functools.lru_cache(MAX_SHAPES)
def _find_places(
    shape: Shape, wanted: frozenset[bytes], prefixes: tuple[bytes, ...]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the names of the wanted fields as text, and their places."""
    places = tuple(
        place
        for place, name in enumerate(shape.names)
        if name in wanted or name.startswith(prefixes)
    )
    return tuple(shape.names[place].decode("latin-1") for place in places), places


@functools.lru_cache(MAX_SHAPES)
def _order_request(
    shape: Shape,
    dropped: frozenset[bytes],
    replaced: tuple[bytes, ...],
    stays: tuple[bool, ...],
    has_new_length: bool,  # noqa: FBT001 - a cache's keyword arguments cost
) -> tuple[tuple[int, ...], bytes, bytes]:
    """Return which fields are relayed in which order, and the names of ``Host`` and of the length.

    The order is given by numbers, which count the client's fields first, then the new ``Host``,
    then the replacements (also a ``None``, which is not used), then the new length.
    """
    host = len(shape.names)
    waiting = {
        name: (host + 1 + place,) if stays[place] else () for place, name in enumerate(replaced)
    }
    order: list[int] = []
    for place, name in enumerate(shape.names):
        if name in replaced:
            # The new value takes the first place; a second field would contradict it.
            order.extend(waiting.pop(name, ()))
        elif name == b"host":
            order.append(host)
        elif name == b"content-length":
            order.append(host + 1 + len(replaced) if has_new_length else place)
        elif name not in dropped and not name.startswith(_OURS):
            order.append(place)
    if b"host" not in shape.places:
        order.insert(0, host)
    order.extend(itertools.chain(*waiting.values()))
    host_name, length_name = (
        shape.raw_names[shape.places[name]] if name in shape.places else default
        for name, default in ((b"host", b"Host"), (b"content-length", b"Content-Length"))
    )
    return tuple(order), host_name, length_name


@functools.lru_cache(MAX_SHAPES)
def _find_kept(shape: Shape, dropped: frozenset[bytes]) -> tuple[int, ...]:
    return tuple(place for place, name in enumerate(shape.names) if name not in dropped)
