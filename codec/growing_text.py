"""Texts of an answer under way, as its fold has them: for who wants to see them grow.

Rules:

1. To look changes nothing, and parses nothing a second time: pieces are those of the fold.
2. A text has the same key at every look, and what was said once is not taken back.
3. A fold keeps its pieces as it likes. Where they only become more (:attr:`GrowingText.grows`), who
   looks again goes on from their number, else from the number of characters.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

__all__ = ("GrowingText", "TextKind")


class TextKind(StrEnum):
    """What a text of an answer is."""

    TEXT = "text"
    REASONING = "reasoning"
    ARGUMENTS = "arguments"


class GrowingText(NamedTuple):
    """A text as far as it has come.

    Attributes:
        key: tells it from all others of the answer (rule 2).
        kind: what it is.
        pieces: joined they are the text, but for what is `pending`.
        name: of the tool, where it is the arguments of a call and its name is known.
        pending: pieces behind those, which are not among them yet.
        grows: the pieces are those of the last look and perhaps more; else they are the text so
            far in pieces of any size (rule 3).
    """

    key: Hashable
    kind: TextKind
    pieces: Sequence[str]
    name: str | None = None
    pending: Sequence[str] = ()
    grows: bool = True
