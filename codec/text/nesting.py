"""Follows the open brackets of a JSON value, a piece of text at a time.

Looking at each bracket separately costs up to a microsecond a byte, and a hostile body may consist
only of brackets. So a piece is passed over as a whole, with a few operations on bytes.

That is done only if the value certainly neither ends nor breaks in the piece: outside its strings
there are only scalars, punctuation and brackets, each closed by its partner, with at most
:data:`MAX_DEPTH` of them open. Otherwise nothing changes.

The work is linear in the piece, whatever it holds. Pairs with nothing between them are removed as
long as that makes the rest much shorter. After that only few runs of brackets are left, because
each pair that was removed in one round had another one inside it in the round before.
"""

from __future__ import annotations

import re
from enum import Enum
from itertools import accumulate

__all__ = ("CLOSERS", "MAX_DEPTH", "Ending", "has_many_brackets", "is_shallow", "pass_over")

MAX_DEPTH = 512
"""The most brackets open at once in a value: deeper values are neither decoded nor followed. Tool
schemas need a dozen. The interpreter's limit, at least a thousand, differs by version, and is
nearer the deeper its caller is."""

CLOSERS = {ord("{"): ord("}"), ord("["): ord("]")}
"""A bracket's partner."""

_FILL = b" \t\n\r,:+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""All bytes that may stand outside strings, except for brackets."""

_TO_CLOSERS = bytes.maketrans(b"[{", b"]}")
_TO_STEPS = bytes.maketrans(b"[]{}", b"\x01\xff\x01\xff")  # 1 and -1
_find_runs = re.compile(rb"[\[{]+|[\]}]+|.", re.DOTALL).findall

_WORTHWHILE = 7 / 8
"""Another round follows only if the last one left at most this share of the brackets."""


class Ending(Enum):
    """Where a piece ends."""

    OUTSIDE = 0
    IN_STRING = 1
    BEHIND_BACKSLASH = 2
    """In a string, behind a backslash, which escapes the next byte."""


def pass_over(piece: bytes, closers: bytearray) -> Ending | None:
    """Follow a piece that begins in a container, outside its strings.

    Args:
        piece: not empty.
        closers: the partners of the open brackets, at least one; updated in place.

    Returns:
        Where it ends; ``None`` if the piece cannot be passed over.
    """
    if b"\\" in piece:  # outside strings the replacement is a fault, too
        piece = piece.replace(rb"\\", b"\0\0").replace(rb"\"", b"\0\0")
    # Two quotes with only fill between them are a string, or stand between two strings: without
    # them, the brackets outside of strings are the same.
    brackets, ending = piece.translate(None, _FILL).replace(b'""', b""), Ending.OUTSIDE
    if b'"' in brackets:
        parts = brackets.split(b'"')
        brackets = b"".join(parts[::2])
        if len(parts) % 2 == 0:
            ending = Ending.BEHIND_BACKSLASH if piece.endswith(b"\\") else Ending.IN_STRING
    if brackets and not _follow_brackets(brackets, closers):
        return None
    return ending


def has_many_brackets(text: bytes | str) -> bool:
    """Tell whether a text may be too deep; a count shows that most texts are not."""
    if len(text) <= MAX_DEPTH:
        return False
    if isinstance(text, str):
        return text.count("[") + text.count("{") > MAX_DEPTH
    return text.count(b"[") + text.count(b"{") > MAX_DEPTH


def is_shallow(value: bytes) -> bool:
    """Tell whether a value is a container with at most :data:`MAX_DEPTH` brackets open.

    Args:
        value: valid JSON, with no space around it.
    """
    # Its own brackets are the first that open and the last that close.
    closer = CLOSERS.get(value[0]) if value else None
    return closer is not None and pass_over(value[1:-1], bytearray([closer])) is Ending.OUTSIDE


def _follow_brackets(brackets: bytes, closers: bytearray) -> bool:
    left, rounds = _remove_pairs(brackets)
    opened = closers[:]
    deepest = len(opened)
    for run in _find_runs(left):
        if run[0] in CLOSERS:
            opened += run.translate(_TO_CLOSERS)
            deepest = max(deepest, len(opened))
        elif len(run) < len(opened) and opened[: -len(run) - 1 : -1] == run:
            del opened[-len(run) :]
        else:
            return False
    # The removed pairs were inside each other, at most one of each kind for each round.
    if deepest + 2 * rounds > MAX_DEPTH and _measure_depth(brackets, len(closers)) > MAX_DEPTH:
        return False
    closers[:] = opened
    return True


def _remove_pairs(brackets: bytes) -> tuple[bytes, int]:
    """Return the brackets without most of the pairs, and the number of rounds that removed them."""
    rounds, left = 0, brackets
    while True:
        size = len(left)
        left = left.replace(b"{}", b"").replace(b"[]", b"")
        rounds += 1
        if not left or len(left) > size * _WORTHWHILE:
            return left, rounds


def _measure_depth(brackets: bytes, depth: int) -> int:
    """Return the most brackets open at once, with those that were open before."""
    steps = memoryview(brackets.translate(_TO_STEPS)).cast("b")
    return max(accumulate(steps, initial=depth))
