r"""Finds where the bytes of a span may be cut, so that calls of one conversation are cut alike.

Any cut is correct: the joined pieces are the span. The cuts decide only how much of one call is
found again in the next. Whether a piece ends at a place depends only on the bytes around it, so
that two calls soon have the same cuts again after a difference.
"""

from __future__ import annotations

import re
from typing import Final

MIN_PIECE_BYTES: Final = 256
"""The least bytes of a piece. With 512 a conversation takes a fifth more, because the last piece of
each call is new; and each piece costs a microsecond. Only two kinds of pieces may be shorter: the
last one of a span, and one before a text without a place to cut. Such a text is then a piece by
itself, whatever is before it."""

LONG_PIECE_BYTES: Final = 2_048
"""A longer piece is separated from what is before it."""

_OBJECT_END: Final = rb"\}(?=[,\]])"
"""The end of an object in a list, such as a message in a body of JSON."""

_ATTRIBUTE: Final = rb"J(?=[\x80-\xff]{0,3}[\x00-\x7f]\n[\x01-\x7f][a-z])"
"""The beginning of an attribute: its tag, but not its length, which may differ; then the tag of its
key, and a letter."""

_TEXT: Final = rb':"|: "'
"""The beginning of a text in JSON."""

_EVEN: Final = b"[%b]" % b"".join(
    re.escape(bytes((byte,))) for byte in range(0, 256, 2) if bytes((byte,)) not in b" \n"
)

_LINE_END: Final = rb"\\n(?<=%b{3}\\n)|\n(?<=%b{3}\n)" % (_EVEN, _EVEN)
"""The end of one line in eight, in JSON or as it is. So the next call soon has the same cuts."""

_END: Final = re.compile(b"|".join((_OBJECT_END, _ATTRIBUTE, _LINE_END)), re.DOTALL)

_BEGINNING: Final = re.compile(b"|".join((_OBJECT_END, _ATTRIBUTE, _TEXT)), re.DOTALL)

_WORD_END: Final = re.compile(rb" (?<=%b{6} )" % _EVEN, re.DOTALL)
"""The end of one word in 64, for a text of one line. The search takes three times as long."""

_ANY_END: Final = re.compile(b"%b|%b" % (_END.pattern, _WORD_END.pattern), re.DOTALL)


def find_end(data: bytes, start: int) -> int:
    """Find where the piece ends that begins at `start`."""
    least, long = start + MIN_PIECE_BYTES, start + LONG_PIECE_BYTES
    found = _END.search(data, least, long)
    if found is None:
        for early in _BEGINNING.finditer(data, start, least):
            found = early
    if found is None:
        found = _WORD_END.search(data, least, long)
    if found is None:
        found = _ANY_END.search(data, long)
    return len(data) if found is None else found.end()
