"""Texts of an answer under way, as its fold has them, for readers that show them growing.

To look changes nothing, and parses nothing a second time: the pieces are the fold's. A text has the
same key at every look, and its beginning never changes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

__all__ = ("GrowingText", "TextKind")


class TextKind(StrEnum):
    """The kinds of texts in an answer."""

    TEXT = "text"
    REASONING = "reasoning"
    ARGUMENTS = "arguments"


class GrowingText(NamedTuple):
    """A text as far as it has come.

    Attributes:
        key: distinguishes it from all other texts of the answer.
        kind: the kind of text.
        pieces: the pieces of the text, except for those that are `pending`.
        name: the name of the tool, if the text is the arguments of a call and the name is known.
        pending: pieces that follow, and are not among the others yet.
        grows: the pieces are those of the last look and perhaps more, so a reader continues behind
            as many pieces as it had; else they are the text so far in pieces of any size, and a
            reader continues behind as many characters as it had.
    """

    key: Hashable
    kind: TextKind
    pieces: Sequence[str]
    name: str | None = None
    pending: Sequence[str] = ()
    grows: bool = True
