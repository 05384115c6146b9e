"""How much memory an answer may take, and what a piece of it is taken to need (R5).

Everything that an upstream can make grow is set aside here first. The sizes are estimates, made so
that a provider's wildest answer ends somewhere:

1. Text counts by the character. CPython keeps one to four bytes for each: one where all of a text
   is Latin-1, two for most other scripts, four with emoji.
2. Of numbers only integers beyond 64 bits count, lists and objects by what is in them. The most
   that tiny objects inside each other take is eight times their estimate.
3. The size of an object is never more than the sizes of its members as they were set aside, so
   that giving it back gives back no more than was taken.
4. No JSON value is too deep, too large or too strange to have a size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ("FRAGMENT_BYTES", "Budget", "size_bytes")

FRAGMENT_BYTES = 64
"""What a short string and its place in a list cost CPython besides its characters."""

_CONTAINER_BYTES = 16
_ITEM_BYTES = 8
_KEY_BYTES = 16  # besides its characters; most keys occur often and are shared
_WORD_BITS = 64
_CONTAINERS = frozenset({dict, list})


class Budget:
    """How much more may be kept. Once something did not fit, nothing grows any more.

    Attributes:
        left_bytes: what is left, an estimate of memory rather than of bytes on the wire.
        exceeded: something did not fit.
    """

    __slots__ = ("exceeded", "left_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.left_bytes = limit_bytes
        self.exceeded = False

    def take(self, size_bytes: int) -> bool:
        """Set ``size_bytes`` aside, or say that they do not fit.

        Zero always fits, and so does less than zero, which gives back: a value may be replaced by
        one that is no larger even when nothing grows any more, running token counts above all.
        """
        if size_bytes > 0 and (self.exceeded or size_bytes > self.left_bytes):
            self.exceeded = True
            return False
        self.left_bytes -= size_bytes
        return True


def size_bytes(value: Any) -> int:
    """Estimate what a JSON value takes in memory, by the rules above."""
    kind = type(value)
    if kind is str:
        return len(value)
    if kind is int:
        return value.bit_length() // 8 if value.bit_length() > _WORD_BITS else 0
    if kind not in _CONTAINERS:
        return 0
    size = 0
    pending: list[Iterable[Any]] = [(value,)]
    while pending:  # no recursion: a value may be as deep as its parser was willing to go
        for item in pending.pop():
            kind = type(item)
            if kind is str:
                size += len(item)
            elif kind is int:
                if item.bit_length() > _WORD_BITS:
                    size += item.bit_length() // 8
            elif kind is dict:
                size += _CONTAINER_BYTES + _KEY_BYTES * len(item) + sum(map(len, item))
                pending.append(item.values())
            elif kind is list:
                size += _CONTAINER_BYTES + _ITEM_BYTES * len(item)
                pending.append(item)
    return size
