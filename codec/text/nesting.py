"""The brackets that are open in a JSON value, followed a piece of text at a time.

To look at each bracket by itself costs up to a microsecond a byte, and a hostile body has nothing
else. So a piece is passed over as a whole: what bytes can do in a few calls.

Rules:

1. A piece is passed over where it is beyond doubt that the value neither ends in it nor breaks:
   outside its strings are but scalars, punctuation and brackets, each closed by its partner, at
   most :data:`MAX_DEPTH` of them open. Nothing is changed by a piece that is not.
2. The work is linear in the piece, whatever it holds. Pairs without anything between them are
   taken out while that makes the rest much shorter; then few runs of brackets are left, for each
   pair that is taken out in one round had another in it in the round before.
"""

from __future__ import annotations

import re
from enum import Enum
from itertools import accumulate

__all__ = ("CLOSERS", "MAX_DEPTH", "Ending", "has_many_brackets", "is_shallow", "pass_over")

MAX_DEPTH = 512
"""Brackets open at once in a value: deeper values are neither decoded nor followed. Tool schemas
take a dozen. The interpreter's own limit, a thousand at least, is another in each version, and
nearer the deeper its caller is."""

CLOSERS = {ord("{"): ord("}"), ord("["): ord("]")}
"""A bracket's partner."""

_FILL = b" \t\n\r,:+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""All that may stand outside strings, but for brackets."""

_TO_CLOSERS = bytes.maketrans(b"[{", b"]}")
_TO_STEPS = bytes.maketrans(b"[]{}", b"\x01\xff\x01\xff")  # 1 and -1
_find_runs = re.compile(rb"[\[{]+|[\]}]+|.", re.DOTALL).findall

_WORTHWHILE = 7 / 8
"""The share that a round leaves at most for another to follow: rule 2."""


class Ending(Enum):
    """The place where a piece ends."""

    OUTSIDE = 0
    IN_STRING = 1
    BEHIND_BACKSLASH = 2
    """In a string, whose next byte that escapes."""


def pass_over(piece: bytes, closers: bytearray) -> Ending | None:
    """Follow a piece that begins in a container, outside its strings.

    Args:
        piece: not empty.
        closers: the partners of the brackets that are open, at least of one; brought up to date.

    Returns:
        Where it ends; ``None`` where nothing can be said of it (rule 1).
    """
    if b"\\" in piece:  # outside strings, too, what takes its place is a fault
        piece = piece.replace(rb"\\", b"\0\0").replace(rb"\"", b"\0\0")
    # Two quotes with nothing but fill between them are a string, or stand between two strings: what
    # is outside of strings without them is as it was.
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
    """Tell whether a text may be too deep: a count tells that most are not."""
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
    # As its own brackets are the first to be open, and the last, they have it to themselves.
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
    # What was taken out were pairs in one another, of each kind one in a round.
    if deepest + 2 * rounds > MAX_DEPTH and _measure_depth(brackets, len(closers)) > MAX_DEPTH:
        return False
    closers[:] = opened
    return True


def _remove_pairs(brackets: bytes) -> tuple[bytes, int]:
    """The brackets without most of the pairs, and in how many rounds they were taken out."""
    rounds, left = 0, brackets
    while True:
        size = len(left)
        left = left.replace(b"{}", b"").replace(b"[]", b"")
        rounds += 1
        if not left or len(left) > size * _WORTHWHILE:
            return left, rounds


def _measure_depth(brackets: bytes, depth: int) -> int:
    """Return the most brackets open at once, of those with partners and those before them."""
    steps = memoryview(brackets.translate(_TO_STEPS)).cast("b")
    return max(accumulate(steps, initial=depth))
