"""The memory that an answer may take, and estimates of what its pieces need (R5).

Everything that an upstream can make grow is reserved here first. The sizes are estimates, made so
that even a provider's wildest answer reaches a limit. Text is estimated by its characters: CPython
keeps one byte for each if all of a text is Latin-1, two for most other scripts, four with emoji.
Numbers, lists, objects and the strings in them are estimated as Python objects; tiny ones inside
each other take at most twice their estimate. Every JSON value has a size, however deep, large or
strange it is.

The size of an object is never more than the sizes that were reserved for its members, so that
giving it back gives back no more than was taken.

A budget does not know what all answers together may take. Beyond :data:`FREE_BYTES` it asks its
lender, if it has one, for :data:`LOAN_BYTES` at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = (
    "CHARACTER_BYTES",
    "CONTAINER_BYTES",
    "FRAGMENT_BYTES",
    "LOAN_BYTES",
    "MAX_ANSWER_BYTES",
    "MEMBER_BYTES",
    "Budget",
    "most_bytes",
    "size_bytes",
)

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""The most memory that one answer may take, whatever its API: some 240,000 deltas of one token
each, about twice as many as the longest answers of today have, or 16 million characters in large
deltas."""

FRAGMENT_BYTES = 64
"""The cost in CPython of a short string and its place in a list, besides its characters."""

CHARACTER_BYTES = 4
"""The most bytes that a character of a text takes."""

MEMBER_BYTES = 96
"""The cost of a member of an object besides the characters of its name and its value."""

CONTAINER_BYTES = 64
"""The least size of a list or an object, anywhere in a value."""

FREE_BYTES = 32 * 1024
"""The room that needs no loan. Most answers need less, and an open stream takes as much anyway."""

LOAN_BYTES = 64 * 1024
"""The size of a loan: some hundred deltas need one."""

_ITEM_BYTES = 8
_KEY_BYTES = 48  # besides its characters; most keys occur often and are shared
_STRING_BYTES = 48
_NUMBER_BYTES = 24
_WORD_BITS = 64
_CONTAINERS = frozenset({dict, list})


class Budget:
    """The memory that one answer may still take; once something did not fit, nothing grows.

    Args:
        limit_bytes: the limit of this answer.
        lend: reserves some more bytes beside all other answers, or returns false.

    Attributes:
        left_bytes: how many bytes are left, as an estimate of memory, not of bytes on the wire.
        exceeded: something did not fit.
        left_out: something was left out because it nests too deeply, although it might have fitted.
    """

    __slots__ = ("_lend", "_lent_bytes", "exceeded", "left_bytes", "left_out")

    def __init__(self, limit_bytes: int, lend: Callable[[int], bool] | None = None) -> None:
        self.left_bytes = limit_bytes
        self.exceeded = False
        self.left_out = False
        self._lend = lend
        self._lent_bytes = FREE_BYTES

    def reserve(self, size_bytes: int, besides_bytes: int = 0) -> bool:
        """Reserve ``size_bytes``, or return false if they do not fit.

        Zero always fits, and so does less than zero, which gives room back. So a value, such as a
        running count of tokens, can be replaced by one that is not larger even when nothing may
        grow any more. `besides_bytes` are reserved from the lender alone.
        """
        if size_bytes > 0 and (self.exceeded or size_bytes > self.left_bytes):
            self.exceeded = True
            return False
        lent_bytes = self._lent_bytes - size_bytes - besides_bytes
        if lent_bytes < 0 and self._lend is not None:
            loan_bytes = LOAN_BYTES * (-lent_bytes // LOAN_BYTES + 1)
            if not self._lend(loan_bytes):
                self.exceeded = True
                return False
            lent_bytes += loan_bytes
        self._lent_bytes = lent_bytes
        self.left_bytes -= size_bytes
        return True

    @property
    def free_bytes(self) -> int:
        """The bytes that can be reserved without asking the lender."""
        if self.exceeded:
            return 0
        return self.left_bytes if self._lend is None else min(self.left_bytes, self._lent_bytes)

    def reserve_text(self, text: str, pieces: int = 1) -> bool:
        """Reserve the room of a text that is kept in this many pieces.

        For the lender a text that is not ASCII takes four bytes for each character.
        """
        size = len(text)
        return self.reserve(size + FRAGMENT_BYTES * pieces, 0 if text.isascii() else 3 * size)

    def reserve_texts(self, texts: Sequence[str]) -> bool:
        """Reserve the room of texts that are kept separately: of all of them or of none."""
        size = sum(map(len, texts))
        wide = 0 if "".join(texts).isascii() else sum(len(it) for it in texts if not it.isascii())
        return self.reserve(size + FRAGMENT_BYTES * len(texts), 3 * wide)

    def spare(self, size_bytes: int) -> None:
        """Let reserved bytes that take no memory any more be used before the next loan."""
        self._lent_bytes += size_bytes


def most_bytes(texts: Sequence[str]) -> int:
    """The most memory that texts take if they are kept separately, whatever is in them."""
    return CHARACTER_BYTES * sum(map(len, texts)) + FRAGMENT_BYTES * len(texts)


def size_bytes(value: Any) -> int:
    """Estimate what a JSON value takes in memory."""
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
                size += _STRING_BYTES + len(item)
            elif kind is int:
                size += _NUMBER_BYTES
                if item.bit_length() > _WORD_BITS:
                    size += item.bit_length() // 8
            elif kind is float:
                size += _NUMBER_BYTES
            elif kind is dict:
                size += CONTAINER_BYTES + _KEY_BYTES * len(item) + sum(map(len, item))
                pending.append(item.values())
            elif kind is list:
                size += CONTAINER_BYTES + _ITEM_BYTES * len(item)
                pending.append(item)
    return size
