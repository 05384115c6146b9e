r"""A value with ``*`` in it, as SQL and as a predicate.

Rules:

1. ``*`` stands for any characters, none included. ``\*`` is a star, ``\\`` a backslash, ``\"`` a
   quote; before anything else a backslash stands for itself.
2. Letters compare as they are: SQLite would have to fold each row's.
3. What can be a comparison is one: of a million rows ``=`` and a range take 0.1 s, ``GLOB`` 0.5 s.
   SQLite compares the bytes of UTF-8, which is the order of code points.
4. ``NULL`` matches no pattern, not even ``*``.

``GLOB`` reads a text as far as its first NUL, of which only a hostile client sends any.
"""

from __future__ import annotations

import re

import msgspec

from telemetry.finding.words import quote

SqlValue = str | int | float
"""A parameter of a condition."""

Where = tuple[str, tuple[SqlValue, ...]]
"""A condition in SQL, and the values of its parameters in their order."""

_TOKEN = re.compile(r'\\([\\"*])|(\*)|([^\\*]+|\\)')
_ESCAPED = re.compile(r'[\\"*]')
_GLOB_SIGN = re.compile(r"[*?\[]")

_LAST_CODE = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


class Pattern(msgspec.Struct, frozen=True):
    """Pieces of text, in their order, with anything between two of them; at least one piece."""

    pieces: tuple[str, ...]

    def __str__(self) -> str:
        return quote("*".join(_ESCAPED.sub(r"\\\g<0>", piece) for piece in self.pieces))

    @property
    def literal(self) -> str | None:
        """The one text that is meant; ``None`` where there is a star."""
        return self.pieces[0] if len(self.pieces) == 1 else None

    @property
    def prefix(self) -> str | None:
        """The text before a star at the end, which is the only one; else ``None``."""
        return self.pieces[0] if len(self.pieces) == 2 and not self.pieces[1] else None

    def matches(self, value: str) -> bool:
        """Tell whether a value is all pieces, in their order. Its time is linear."""
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

    def where(self, column: str) -> Where:
        """Write the condition on an expression of type text (rule 3)."""
        if self.literal is not None:
            return f"{column} = ?", (self.literal,)
        if self.prefix is not None:
            return find_prefix(column, self.prefix)
        first, *between, last = self.pieces
        if len(between) == 1 and not first and not last:
            return f"instr({column}, ?) > 0", (between[0],)
        glob = "*".join(_GLOB_SIGN.sub(r"[\g<0>]", piece) for piece in self.pieces)
        return f"{column} GLOB ?", (glob,)


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


def find_prefix(column: str, prefix: str) -> Where:
    """Write the condition that a text begins with `prefix`, as a range of code points.

    >>> find_prefix("model", "gpt-5")
    ('model >= ? AND model < ?', ('gpt-5', 'gpt-6'))
    """
    end = prefix
    while end:
        code = ord(end[-1]) + 1
        if code in _SURROGATES:
            code = _SURROGATES.stop
        if code <= _LAST_CODE:
            return f"{column} >= ? AND {column} < ?", (prefix, end[:-1] + chr(code))
        end = end[:-1]  # nothing comes after the last code point
    if prefix:
        return f"{column} >= ?", (prefix,)
    return f"{column} IS NOT NULL", ()
