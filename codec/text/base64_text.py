"""Replaces long base64 in the members of JSON that carry images by its length.

A picture of a few megabytes says nothing to the reader of a span, and costs as much as a thousand
answers. Up to :data:`MAX_KEPT_CHARS` characters stay as they are; more become ``<N base64
characters, image/png>``, with the type if the first bytes tell it. Only known members
(:data:`_MEMBERS`) are read, because other texts may look like base64. Of Gemini's ``inlineData``
the member is ``data``, which may be anything elsewhere.

A text that arrives in pieces may be shortened before its end is there; the next piece is added to
the number. Both alphabets are read (RFC 4648, sections 4 and 5), because Google's SDK sends the one
for URLs.

:class:`TakenPictures` keeps what it takes out of one answer, if it begins like a picture. The
answer is the same as without it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codec.text.jsontext import JsonObject

__all__ = (
    "MAX_KEPT_CHARS",
    "MAX_TAKEN_CHARS",
    "TakenPictures",
    "find_image_type",
    "shorten_base64",
    "shorten_base64_text",
    "use_plain_alphabet",
)

MAX_KEPT_CHARS = 32_000
"""The longest image that a span shows by default (``docs/contract/spans.md#privacy``)."""

MAX_TAKEN_CHARS = 8 * 1024 * 1024 * 4 // 3 + 1_024
"""The longest picture that is kept when it is taken out: 8 MiB."""

_MEMBERS = ("result", "b64_json", "partial_image_b64")

_TYPES = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "_9j_": "image/jpeg",
    "UklGR": "image/webp",
    "R0lGOD": "image/gif",
}
"""The beginnings of pictures in base64, with their types."""

_FIRST_CHARS = max(map(len, _TYPES))

_VALUE = rb"(?:<(\d{1,15}) base64 characters(, image/[a-z]{3,4})?>)?([A-Za-z0-9+/=_-]*+)"
"""Base64, perhaps behind the number that replaces an earlier piece of it."""

_INLINE = (
    rb'inlineData"\s{0,64}:\s{0,64}\{\s{0,64}'
    rb'(?:"mimeType"\s{0,4}:\s{0,4}"[^"\\]{0,99}",\s{0,64})?"data'
)
"""The name of Gemini's member within its object, before the type or behind it."""

_NAMES = "|".join(_MEMBERS).encode() + b"|" + _INLINE
_PARTIAL = b"partial_image_b64"
_PLAIN = str.maketrans("-_", "+/")

_IN_TEXT = re.compile(rb'("(?:%b)" {0,4}: {0,4}")' % _NAMES + _VALUE)
_ALONE = re.compile(rb"()" + _VALUE)


def find_image_type(text: str) -> str | None:
    """The MIME type of a picture in base64, by its first bytes; ``None`` if they are unknown.

    >>> find_image_type("/9j/4AAQSkZJRg")
    'image/jpeg'
    """
    return next((kind for first, kind in _TYPES.items() if text.startswith(first)), None)


def use_plain_alphabet(data: str) -> str:
    """Rewrite base64 in the alphabet of ``data:`` URLs; browsers do not show the other one.

    >>> use_plain_alphabet("_9j_4AAQ-A==")
    '/9j/4AAQ+A=='
    """
    return data.translate(_PLAIN) if "_" in data or "-" in data else data


def shorten_base64_text(piece: bytes) -> bytes:
    """Shorten long base64 in a piece of JSON text that is cut anywhere.

    >>> shorten_base64_text(b'{"result": "iVBORw0KGgo' + b"A" * 40_000)
    b'{"result": "<40011 base64 characters, image/png>'
    """
    return _IN_TEXT.sub(_shorten_match, piece)


def shorten_base64(members: JsonObject, names: Sequence[str] = _MEMBERS) -> None:
    """Shorten long base64 in these members of an object, in place."""
    for name in names:
        value = members.get(name)
        if not isinstance(value, str) or not value.isascii():
            continue
        if len(value) > MAX_KEPT_CHARS or value.startswith("<"):
            found = _ALONE.fullmatch(value.encode())
            members[name] = value if found is None else _shorten_match(found).decode()


class TakenPictures:
    """The pictures that are taken out of one answer while it is read.

    Not safe for concurrent calls. The text of an answer says only how long a picture is. These
    words lead from there to the picture. If several pictures have the same words, they are in the
    order of the answer.

    Args:
        lend: whether that many more bytes may be kept; without it nothing is kept.

    Attributes:
        kept: the words for each picture, and its base64.
    """

    def __init__(self, lend: Callable[[int], bool] | None = None) -> None:
        self._lend = lend
        self._open: dict[bytes, list[bytearray]] = {}  # by the words that stand for it by now
        self.kept: list[tuple[str, str]] = []

    def forget(self) -> None:
        """Forget all pictures, and keep no more."""
        self._lend = None
        self._open.clear()
        self.kept.clear()

    def shorten_text(self, piece: bytes) -> bytes:
        """Shorten a piece of JSON text (:func:`shorten_base64_text`)."""
        return _IN_TEXT.sub(_shorten_match if self._lend is None else self._take, piece)

    def shorten(self, members: JsonObject, names: Sequence[str] = _MEMBERS) -> None:
        """Shorten members of an object (:func:`shorten_base64`), and keep their pictures."""
        for name in names:
            whole = members.get(name)
            shorten_base64(members, (name,))
            words = members.get(name)
            if self._lend is None or not (isinstance(words, str) and isinstance(whole, str)):
                continue
            if words[:1] == "<":
                self._keep(words, whole)

    def drop(self, members: JsonObject, names: Sequence[str] = _MEMBERS) -> None:
        """Forget what was taken out of members that are not a part of the answer."""
        for name in names:
            if isinstance(words := members.get(name), str):
                self._pop(words)

    def _take(self, found: re.Match[bytes]) -> bytes:
        """Shorten a match, and keep its characters with those that came before."""
        short = _shorten_match(found)
        before, count, named, more = found.groups()
        if short == found[0] or _PARTIAL in before:
            return short
        taken = bytearray()
        if count is not None:
            known = self._open.get(b"<%b base64 characters%b>" % (count, named or b""))
            if not known:
                return short
            taken = known.pop()
        elif find_image_type(more[:_FIRST_CHARS].decode()) is None:
            return short
        if len(taken) + len(more) <= MAX_TAKEN_CHARS and self._reserve(len(more)):
            taken += more
            self._open.setdefault(short[len(before or b"") :], []).append(taken)
        return short

    def _pop(self, words: str) -> str | None:
        known = self._open.get(words.encode("ascii", "replace"))
        return known.pop(0).decode("ascii") if known else None

    def _keep(self, words: str, whole: str) -> None:
        """Keep a picture, but once if the answer is repeated at its end.

        Args:
            words: stand for it now.
            whole: the picture itself, or what is left of it behind the words that stood for it.
        """
        taken, new = "", whole
        if whole[:1] == "<":
            before, mark, new = whole.partition(">")
            if (popped := self._pop(before + mark)) is None:
                return
            taken = popped
        text = taken + new
        if len(text) > MAX_TAKEN_CHARS or find_image_type(text[:_FIRST_CHARS]) is None:
            return
        if (words, text) not in self.kept and self._reserve(len(new)):
            self.kept.append((words, text))

    def _reserve(self, size_bytes: int) -> bool:
        return self._lend is not None and self._lend(size_bytes)


def _shorten_match(found: re.Match[bytes]) -> bytes:
    before, count, named, more = found.groups()
    if count is None and len(more) <= MAX_KEPT_CHARS:
        return found[0]
    if count is None:
        kind = find_image_type(more[:_FIRST_CHARS].decode())
        count, named = b"0", b"" if kind is None else b", " + kind.encode()
    return bytes(before) + b"<%d base64 characters%b>" % (int(count) + len(more), named or b"")
