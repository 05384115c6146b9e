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
3. Chunks of one event of one line, as most providers send them, have four lines each. Many in a row
   are told by their lines, all at once; what does not fit is told chunk by chunk, which says the
   same.
"""

from __future__ import annotations

import io
import re

__all__ = ("WholeChunks",)

_LINE_END = b"\r\n"
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n").match

_ROW_LINES = 4
"""Of such a chunk: its size, the event, a blank line, and the chunk's end."""

_ROW_BYTES = 1_024
"""Less is one or two chunks."""

_MAX_KNOWN_SIZES = 2_048
"""Those of a provider's streams are some hundred different ones; forgotten together."""

_known_sizes: dict[bytes, int] = {}
"""The first line of a chunk, of ten bytes at most, to how long an event's line in it is."""


class WholeChunks:
    """Follows one chunked body from its first byte on."""

    __slots__ = ("_has_rows", "_left")

    def __init__(self) -> None:
        self._has_rows = True  # as far as is known
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
        bodies: list[bytes] = []
        begin = left
        if self._has_rows and len(data) > _ROW_BYTES:
            bodies, begin = self._take_row(data, left)
        while size := _SIZE(data, begin):
            first = size.end()
            last = first + int(size[1], 16)
            if last == first or not data.startswith(_LINE_END, last):
                break
            bodies.append(data[first:last])
            begin = last + len(_LINE_END)
        self._left = _count_left(data, begin)
        return left, b"".join(bodies), begin

    def _take_row(self, data: bytes, begin: int) -> tuple[list[bytes], int]:
        """Take chunks of four lines from ``begin`` on (rule 3): their lines, and where they end."""
        reader = io.BytesIO(data)
        reader.seek(begin)
        lines = reader.readlines()
        count = len(lines) // _ROW_LINES
        del lines[count * _ROW_LINES :]
        sizes, events, blanks, ends = (lines[at::_ROW_LINES] for at in range(_ROW_LINES))
        said = list(map(_known_sizes.get, sizes))
        if None in said:
            said = list(map(_read_size, sizes))
        found = list(map(len, events))
        if said != found or blanks.count(b"\n") < count or ends.count(_LINE_END) < count:
            fits = zip(said, found, blanks, ends, strict=True)
            count = next(
                at
                for at, (size, event_bytes, blank, end) in enumerate(fits)
                if size != event_bytes or blank != b"\n" or end != _LINE_END
            )
            self._has_rows = count > 0
            del lines[count * _ROW_LINES :], sizes[count:], found[count:]
        stop = begin + sum(map(len, sizes)) + sum(found) + count * len(b"\n\r\n")
        del lines[_ROW_LINES - 1 :: _ROW_LINES]
        del lines[:: _ROW_LINES - 1]
        return lines, stop


def _read_size(line: bytes) -> int | None:
    """How long an event's line is in a chunk that begins so; ``None`` where that is not sure."""
    size = _SIZE(line)
    if size is None or size.end() < len(line):
        return None
    if len(_known_sizes) >= _MAX_KNOWN_SIZES:
        _known_sizes.clear()
    return _known_sizes.setdefault(line, int(size[1], 16) - len(b"\n"))


def _count_left(data: bytes, begin: int) -> int | None:
    """How much is missing of the chunk that begins there: rule 2."""
    if begin == len(data):
        return 0
    size = _SIZE(data, begin)
    if size is None or not int(size[1], 16):
        return None
    missing = size.end() + int(size[1], 16) + len(_LINE_END) - len(data)
    return missing if missing > 0 else None
