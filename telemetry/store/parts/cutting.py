r"""Where the bytes of a span may be cut, so that calls of one conversation are cut alike.

Rules:

1. Any cut is right: pieces end to end are the span. Where they are cut decides only how much of
   one call is found again in the next.
2. A piece ends at a place that the bytes around it tell, and nothing before: behind what differs
   between two calls their cuts soon are the same again.
3. A piece has :data:`MIN_PIECE_BYTES`, but for the last one of a span, and for one before a text
   without a place: that comes again whole, whatever is before it.
"""

from __future__ import annotations

import re
from typing import Final

MIN_PIECE_BYTES: Final = 256
"""With 512 a conversation takes a fifth more, for of each call the piece is new in which it ends;
and each piece costs a microsecond."""

LONG_PIECE_BYTES: Final = 2_048
"""A piece that is longer is worth to be parted from what is before it."""

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
"""In JSON or as it is; one in eight, or the next call would not soon come by the same ones."""

_END: Final = re.compile(b"|".join((_OBJECT_END, _ATTRIBUTE, _LINE_END)), re.DOTALL)

_BEGINNING: Final = re.compile(b"|".join((_OBJECT_END, _ATTRIBUTE, _TEXT)), re.DOTALL)

_WORD_END: Final = re.compile(rb" (?<=%b{6} )" % _EVEN, re.DOTALL)
"""The end of one word in 64, for a text that is one line; it takes thrice as long to find."""

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
