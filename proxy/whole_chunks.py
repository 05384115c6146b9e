"""Chunks that lie whole in a read, taken past the parser, sans-IO.

An event stream comes in chunks of a few hundred bytes, and many of them in one read where the relay
is busy. aiohttp's parser hands out each by itself, which costs more than all else that is done with
them; found here, they cost a tenth of that, and go on in one piece.

Rules:

1. Only what is beyond doubt is taken: a size in up to eight hexadecimal digits, CRLF, so many
   bytes, CRLF (RFC 9112 section 7.1), all of it in one read. Sizes of nothing, extensions, trailers
   and whatever is no chunk are the parser's, which judges them.
2. The parser is always between two chunks where one is taken past it: how much it still has to see
   of the chunk that it is in is known, or nothing more is taken until the end of the body.
"""

from __future__ import annotations

import re

__all__ = ("WholeChunks",)

_LINE_END = b"\r\n"
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n").match


class WholeChunks:
    """Follows one chunked body from its first byte on."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        # What the parser has to see before it is between two chunks; None where nobody knows.
        self._left: int | None = 0

    def split(self, data: bytes) -> tuple[int, bytes, int]:
        """What is whose of the next read.

        Returns:
            Where the first part ends, which is the parser's; what is in the chunks that follow it,
            empty where none is taken; and where the last part begins, which is the parser's, too.
        """
        left = self._left
        if left == 0 and (size := _SIZE(data)) is not None:
            # The read of a paced stream: one chunk, and the end of both.
            first, end = size.end(), len(data) - len(_LINE_END)
            if first + int(size[1], 16) == end > first and data.endswith(_LINE_END):
                return 0, data[first:end], len(data)
        if left is None or left > len(data):
            self._left = None if left is None else left - len(data)
            return len(data), b"", len(data)
        begin = left
        bodies: list[bytes] = []
        while size := _SIZE(data, begin):
            first = size.end()
            last = first + int(size[1], 16)
            if last == first or not data.startswith(_LINE_END, last):
                break
            bodies.append(data[first:last])
            begin = last + len(_LINE_END)
        self._left = _count_left(data, begin)
        return left, b"".join(bodies), begin


def _count_left(data: bytes, begin: int) -> int | None:
    """How much is missing of the chunk that begins there: rule 2."""
    if begin == len(data):
        return 0
    size = _SIZE(data, begin)
    if size is None or not int(size[1], 16):
        return None
    missing = size.end() + int(size[1], 16) + len(_LINE_END) - len(data)
    return missing if missing > 0 else None
