"""Base64 in the members of JSON that carry images, and what stands for it where it is long.

A picture of a few megabytes tells the reader of a span nothing, and costs as much as a thousand
answers.

Rules:

1. Known members alone are looked at (:data:`_MEMBERS`): a text that looks like base64 is one. Of
   Gemini's ``inlineData`` it is ``data``, which elsewhere may be anything.
2. Up to :data:`MAX_KEPT_CHARS` stay as they are. Longer ones become ``<N base64 characters,
   image/png>``, the type told by the first bytes, where they tell it.
3. What arrives in pieces may be shortened before its end is there: the next piece is counted in.
4. Either alphabet is read (RFC 4648, sections 4 and 5): Google's SDK sends the one for URLs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.text.jsontext import JsonObject

__all__ = (
    "MAX_KEPT_CHARS",
    "find_image_type",
    "shorten_base64",
    "shorten_base64_text",
    "use_plain_alphabet",
)

MAX_KEPT_CHARS = 32_000
"""The longest image that a span shows by default (``docs/contract/spans.md#privacy``)."""

_MEMBERS = ("result", "b64_json", "partial_image_b64")

_TYPES = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "_9j_": "image/jpeg",
    "UklGR": "image/webp",
    "R0lGOD": "image/gif",
}
"""How base64 of pictures begins."""

_FIRST_CHARS = max(map(len, _TYPES))

_VALUE = rb"(?:<(\d{1,15}) base64 characters(, image/[a-z]{3,4})?>)?([A-Za-z0-9+/=_-]*+)"
"""Base64, or what stands for it, and more of it."""

_INLINE = (
    rb'inlineData"\s{0,64}:\s{0,64}\{\s{0,64}'
    rb'(?:"mimeType"\s{0,4}:\s{0,4}"[^"\\]{0,99}",\s{0,64})?"data'
)
"""The name of the member within its object, behind the type or before it."""

_NAMES = "|".join(_MEMBERS).encode() + b"|" + _INLINE
_PLAIN = str.maketrans("-_", "+/")

_IN_TEXT = re.compile(rb'("(?:%b)" {0,4}: {0,4}")' % _NAMES + _VALUE)
_ALONE = re.compile(rb"()" + _VALUE)


def find_image_type(text: str) -> str | None:
    """The MIME type of a picture in base64, by its first bytes; ``None`` where they tell none.

    >>> find_image_type("/9j/4AAQSkZJRg")
    'image/jpeg'
    """
    return next((kind for first, kind in _TYPES.items() if text.startswith(first)), None)


def use_plain_alphabet(data: str) -> str:
    """Rewrite base64 in the alphabet of ``data:`` URLs: browsers show nothing of the other one.

    >>> use_plain_alphabet("_9j_4AAQ-A==")
    '/9j/4AAQ+A=='
    """
    return data.translate(_PLAIN) if "_" in data or "-" in data else data


def shorten_base64_text(piece: bytes) -> bytes:
    """A piece of JSON text, cut anywhere, without what is too long in it.

    >>> shorten_base64_text(b'{"result": "iVBORw0KGgo' + b"A" * 40_000)
    b'{"result": "<40011 base64 characters, image/png>'
    """
    return _IN_TEXT.sub(_shorten_match, piece)


def shorten_base64(members: JsonObject, names: Sequence[str] = _MEMBERS) -> None:
    """Shorten what is too long among these members of an object, in place."""
    for name in names:
        value = members.get(name)
        if not isinstance(value, str) or not value.isascii():
            continue
        if len(value) > MAX_KEPT_CHARS or value.startswith("<"):
            found = _ALONE.fullmatch(value.encode())
            members[name] = value if found is None else _shorten_match(found).decode()


def _shorten_match(found: re.Match[bytes]) -> bytes:
    before, count, named, more = found.groups()
    if count is None and len(more) <= MAX_KEPT_CHARS:
        return found[0]
    if count is None:
        kind = find_image_type(more[:_FIRST_CHARS].decode())
        count, named = b"0", b"" if kind is None else b", " + kind.encode()
    return bytes(before) + b"<%d base64 characters%b>" % (int(count) + len(more), named or b"")
