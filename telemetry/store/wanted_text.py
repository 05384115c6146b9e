r"""A text to be found in the bytes of a span (``docs/contract/page.md#texts``).

A span holds a text as it is, and in bodies of JSON as JSON writes it, once or several times over
(the arguments of a tool are JSON in JSON). Each form is found, however its writer escapes: PHP
writes ``\/``, Go ``\u003c``, .NET ``\u0027``, Python ``\u00e9``. ASCII letters are found in either
case: bytes are made lower case at 2.6 GB/s. Other letters are found only as they are.

Most spans are excluded by a search for plain bytes, at 1 GB/s and more; a few are searched with a
pattern, whose time is linear in the span.
"""

from __future__ import annotations

import re

_MAY_BE_ESCAPED = frozenset("\"'&+<>=`/")
"""ASCII characters that some writers of JSON escape, besides ``\\`` and controls."""

_SHORT: dict[str, str] = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}

_MAX_BACKSLASHES = 16
"""The most backslashes before one escape, if a text is searched for in pieces: JSON in JSON in JSON
in JSON has seven."""

_ESCAPE_BYTES = _MAX_BACKSLASHES + len("u0000")

_UNIT = re.compile(r"\\+|.", re.DOTALL)

_OUTSIDE = re.compile(r"[^\0-\x7f]")

_PLAIN_RUN = re.compile(r"[^\0-\x1f\x7f-\U0010ffff\"'&+<>=`/\\]+")

_OTHER = re.compile(r"[\0-\x1f\x7f-\U0010ffff\"'&+<>=`/\\]")

_MANY_BACKSLASHES = b"\\" * (_MAX_BACKSLASHES // 2)
"""If a row has more than the limit, any cut through it leaves at least as many on one side."""


class WantedText:
    """One text, prepared for the search.

    Args:
        text: not empty, and without lone surrogates.

    Attributes:
        reach: the most bytes that the text takes in any of its spellings, unless there are as many
            backslashes in a row as :meth:`may_reach_further` searches for.
    """

    def __init__(self, text: str) -> None:
        text = "".join(char.lower() if char.isascii() else char for char in text)
        self._plain = text.encode()
        self.reach = len(self._plain)
        run = max(_PLAIN_RUN.findall(text), key=len, default="")
        self._pattern = None if run == text else re.compile(_build_pattern(text))
        if self._pattern is not None:
            units = [1 + (char > "\uffff") for char in _OTHER.findall(text)]
            self.reach += _ESCAPE_BYTES * sum(units)
        # A span that holds the text in any spelling has these bytes ...
        self._run = run.encode() if len(run) > 1 else b""
        # ... and one character outside of ASCII as it is, or its first code unit as an escape.
        outside = _OUTSIDE.search(text)
        self._raw = outside[0].encode() if outside else b""
        self._escaped = _code_units(outside[0])[0] if outside else b""
        self._lead = self._raw[:1]  # a single byte is found ten times as fast as two

    def is_in(self, lowered: bytes) -> bool:
        """Tell whether the text is in the bytes of a span, after ``bytes.lower``."""
        if self._plain in lowered:
            return True
        if self._pattern is None or self._run not in lowered:
            return False
        if self._raw and not (
            (self._lead in lowered and self._raw in lowered) or self._escaped in lowered
        ):
            return False
        return self._pattern.search(lowered) is not None

    def may_reach_further(self, data: bytes) -> bool:
        """Tell whether the text may take more than :attr:`reach` in these bytes."""
        return self._pattern is not None and _MANY_BACKSLASHES in data


def _build_pattern(text: str) -> bytes:
    """Write a pattern for a text in all its spellings.

    No unit begins with backslashes if the one before it may end with some, and the first begins
    with no more than it must. So none is read twice, and the time is linear.
    """
    pattern = b""
    escape = rb"\\"  # the backslashes before an escape
    optional = b""  # the backslashes before a sign that may have some
    for unit in _UNIT.findall(text):
        if unit[0] == "\\":
            count = len(unit)
            pattern += rb"\\{%d,}+" % count if pattern else rb"\\{%d}" % count
            escape = optional = b""
            continue
        pattern += _spell(unit, escape, optional)
        escape, optional = rb"\\++", rb"\\*+"
    return pattern


def _spell(char: str, escape: bytes, optional: bytes) -> bytes:
    """Write a pattern for one character that is not a backslash."""
    raw = re.escape(char.encode())
    is_outside = char > "\x7e" or char < " "
    if not (is_outside or char in _MAY_BE_ESCAPED):
        return raw
    if not is_outside:
        raw = optional + raw
    first, *others = _code_units(char)
    spellings = [raw, escape + b"".join((first, *(rb"\\++" + other for other in others)))]
    if char in _SHORT:
        spellings.append(escape + _SHORT[char].encode())
    return b"(?:%b)" % b"|".join(spellings)


def _code_units(char: str) -> list[bytes]:
    """Write the code units of UTF-16 as in escapes, after the backslash."""
    encoded = char.encode("utf-16-be")
    return [b"u%b" % encoded[at : at + 2].hex().encode() for at in range(0, len(encoded), 2)]
