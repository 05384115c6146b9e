"""A body in several objects, with access to its parts as if it were one.

A copy of 20 MB blocks a worker's loop for many milliseconds, and so does freeing it. So a large
body stays in the blocks in which it was read: no object in a worker ever holds the whole.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ("Blocks",)


class Blocks:
    """Bytes in their order, in blocks that are not empty."""

    __slots__ = ("_ends", "blocks")

    def __init__(self, blocks: Sequence[bytes]) -> None:
        self.blocks = tuple(blocks)
        self._ends = tuple(accumulate(map(len, self.blocks)))

    def __len__(self) -> int:
        """The number of bytes."""
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, part: slice) -> bytes:
        """The bytes from one offset to another; neither is negative."""
        return b"".join(self.cut(*part.indices(len(self))[:2]))

    def cut(self, start: int, end: int) -> Iterator[bytes | memoryview]:
        """Yield the bytes between two offsets as blocks and views of blocks; nothing is copied."""
        at = bisect_right(self._ends, start)
        begin = self._ends[at - 1] if at else 0
        while begin < end:
            block = self.blocks[at]
            first, last = max(start - begin, 0), min(end - begin, len(block))
            yield block if last - first == len(block) else memoryview(block)[first:last]
            begin += len(block)
            at += 1
