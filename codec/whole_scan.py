"""Find the members of a JSON object that is there as a whole: the parser says where they are.

Rules:

1. A body of up to :data:`MAX_WHOLE_BYTES` is given to the parser, which says what its members are,
   and their texts tell their places.
2. Whatever leaves a doubt about the places or the limits, and whatever the parser refuses, is
   followed as all other bodies are (:class:`codec.scan.RequestScanner`, the oracle).
"""

from __future__ import annotations

import re

from codec.jsontext import split_object
from codec.nesting import CLOSERS, MAX_DEPTH, pass_over
from codec.scan import MAX_MEMBERS, REQUEST_MEMBERS, BodyScan, Member, RequestScanner

__all__ = ("MAX_WHOLE_BYTES", "scan_request")

MAX_WHOLE_BYTES = 64 * 1024
"""Of a body that is looked at in one turn of the loop, for 0.2 ms as a rule, and some milliseconds
where it is made to cost: most chats without images have less."""

_LEVEL_BYTES = len("[]")
"""The fewest that one level of a value takes: what has no more of them is not too deep."""

_TO_VALUE = re.compile(rb'[ \t\n\r]*[{,][ \t\n\r]*"([^"\\]*)"[ \t\n\r]*:[ \t\n\r]*').match
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
        if len(text) > _LEVEL_BYTES * MAX_DEPTH and not _is_shallow(body, start, end):
            return None
        if name in names:
            members[name] = Member(start=start, end=end)
    return members if _TO_END(body, end) else None


def _is_shallow(body: bytes, start: int, end: int) -> bool:
    """Whether a long value, which the parser took, has :data:`MAX_DEPTH` brackets open at most."""
    if body.count(b"[", start, end) + body.count(b"{", start, end) <= MAX_DEPTH:
        return True  # those of strings included: nearly always
    if body[start] not in CLOSERS:
        return True
    # As its own brackets are the first to be open, and the last, they have it to themselves.
    return pass_over(body[start + 1 : end - 1], bytearray(body[end - 1 : end])) is not None
