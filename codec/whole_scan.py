"""Where the members of a JSON object lie that is there as a whole: the parser says it.

Rules:

1. A body of up to :data:`MAX_WHOLE_BYTES` is given to the parser, which says what its members are,
   and their texts tell their places.
2. Whatever leaves a doubt about the places or the limits, and whatever the parser refuses, is
   followed as all other bodies are (:class:`codec.scan.RequestScanner`, the oracle).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codec.jsontext import split_array, split_object
from codec.scan import (
    MAX_DEPTH,
    MAX_MEMBERS,
    REQUEST_MEMBERS,
    BodyScan,
    Member,
    RequestScanner,
)

if TYPE_CHECKING:
    import msgspec

__all__ = ("MAX_WHOLE_BYTES", "scan_request")

MAX_WHOLE_BYTES = 256 * 1024
"""Of a body that is parsed at once (rule 1), for some 0.6 ms: nearly all chats without images have
less, and whatever is longer must not keep the loop."""

_LEVEL_BYTES = len("[]")
"""The fewest that one level of a value takes: what has no more of them is not too deep."""

_TO_VALUE = re.compile(rb'[ \t\n\r]*[{,][ \t\n\r]*"([^"\\]*)"[ \t\n\r]*:[ \t\n\r]*').match
_IS_LIST_OF_OBJECTS = re.compile(rb"\[[ \t\n\r]*\{").match
_TO_END = re.compile(rb"[ \t\n\r]*}").match


def scan_request(body: bytes, names: frozenset[str] = REQUEST_MEMBERS) -> BodyScan:
    """Scan one JSON object that is there as a whole, as :class:`RequestScanner` does.

    Args:
        body: its text.
        names: of the members that are looked for.
    """
    members = _find_members(body, names)
    if members is not None:
        return BodyScan(empty=b'"' not in body, members=members)
    scanner = RequestScanner(names)
    scanner.feed(body)
    return scanner.finish()


def _find_members(body: bytes, names: frozenset[str]) -> dict[str, Member] | None:
    """Find members by the texts of all values (rule 1); ``None`` where the body must be followed.

    One after the other they stand behind their names, up to the end. A name that comes twice, with
    an escape in it or not, has one text, which leaves the place of the other unaccounted for.
    """
    if not (body.startswith(b"{") and body.endswith(b"}")) or len(body) > MAX_WHOLE_BYTES:
        return None
    try:
        _ = body.isascii() or body.decode()  # the parser does not look at that
        texts = split_object(body)
    except ValueError:
        return None
    if len(texts) > MAX_MEMBERS:
        return None
    members = {}
    end = 0
    for name, text in texts.items():
        value = _TO_VALUE(body, end)
        if value is None or value[1] != name.encode():
            return None
        start = value.end()
        if not body.startswith(text, start):
            return None
        end = start + len(text)
        if len(text) > _LEVEL_BYTES * MAX_DEPTH and not _is_shallow(text):
            return None
        if name in names:
            members[name] = Member(start=start, end=end)
    return members if _TO_END(body, end) else None


def _is_shallow(text: msgspec.Raw) -> bool:
    """Whether a long value surely has no more than :data:`MAX_DEPTH` brackets open at once."""
    if not _IS_LIST_OF_OBJECTS(text):
        return _count_opened(text) <= MAX_DEPTH
    # Of a thousand messages each has but a few.
    depth = MAX_DEPTH - 1
    long = [entry for entry in split_array(text) if len(entry) > _LEVEL_BYTES * depth]
    return all(_count_opened(entry) <= depth for entry in long)


def _count_opened(text: msgspec.Raw) -> int:
    """How many brackets a value opens, those in its strings left out."""
    data = bytes(text)
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = b"".join(data.split(b'"')[::2])
    return outside.count(b"[") + outside.count(b"{")
