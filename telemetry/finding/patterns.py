r"""A value with ``*`` in it, as a predicate.

Rules:

1. ``*`` stands for any characters, none included. ``\*`` is a star, ``\\`` a backslash, ``\"`` a
   quote; before anything else a backslash stands for itself.
2. Upper and lower case are different: otherwise SQLite would have to fold the text of each row.
"""

from __future__ import annotations

import re

import msgspec

from telemetry.finding.words import quote

_TOKEN = re.compile(r'\\([\\"*])|(\*)|([^\\*]+|\\)')
_ESCAPED = re.compile(r'[\\"*]')


class Pattern(msgspec.Struct, frozen=True):
    """Pieces of text in their order, with any characters between two of them; at least one."""

    pieces: tuple[str, ...]

    def __str__(self) -> str:
        return quote("*".join(_ESCAPED.sub(r"\\\g<0>", piece) for piece in self.pieces))

    @property
    def literal(self) -> str | None:
        """The one text that is meant; ``None`` if the pattern has a star."""
        return self.pieces[0] if len(self.pieces) == 1 else None

    @property
    def prefix(self) -> str | None:
        """The text before the star, if the pattern has one star, at its end; else ``None``."""
        return self.pieces[0] if len(self.pieces) == 2 and not self.pieces[1] else None

    def matches(self, value: str) -> bool:
        """Tell whether a value consists of all pieces, in their order. Takes linear time."""
        first, *others = self.pieces
        if not others:
            return value == first
        if not value.startswith(first):
            return False
        at = len(first)
        *between, last = others
        for piece in between:
            found = value.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        return value.endswith(last) and at + len(last) <= len(value)


def read_pattern(value: str) -> Pattern:
    """Read a value as it stands in a filter (rule 1).

    >>> read_pattern("gpt-5*").pieces
    ('gpt-5', '')
    """
    pieces = [""]
    for escaped, star, plain in _TOKEN.findall(value):
        if star:
            pieces.append("")
        else:
            pieces[-1] += escaped or plain
    first, *others = pieces
    if not others:
        return Pattern((first,))
    *between, last = others
    return Pattern((first, *filter(None, between), last))
