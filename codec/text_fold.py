"""What the folds of events share: texts that come in pieces, kept within a budget."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from codec.budget import most_bytes
from codec.error_objects import fit_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.budget import Budget
    from codec.growing_text import GrowingText
    from codec.said import ErrorObject

__all__ = ("OpenText", "TextFold")

_PIECES_AT_ONCE: Final = 64
"""Pieces whose room is reserved together; if they do not fit, they are taken one by one."""


class OpenText:
    """A text that takes more pieces; without arguments, a closed one, which no event is about.

    Attributes:
        kind: the type of the events that bring pieces; empty if the text is closed.
        index: the index of its item; negative if the text is closed.
        part: its place in the item.
        pieces: the pieces so far.
        settled: how many of the pieces have their room reserved.
        room_bytes: how many bytes further pieces may need before room must be reserved.
    """

    __slots__ = ("index", "kind", "part", "pieces", "room_bytes", "settled")

    def __init__(
        self, kind: str = "", index: int = -1, part: int = 0, pieces: list[str] | None = None
    ) -> None:
        self.kind = kind
        self.index = index
        self.part = part
        self.pieces = [] if pieces is None else pieces
        self.settled = len(self.pieces)
        self.room_bytes = 0

    def close(self) -> None:
        """Add no more pieces, and drop the reference to those that came; the item keeps them."""
        self.kind, self.index, self.part = "", -1, 0
        self.pieces = []
        self.settled = self.room_bytes = 0


class TextFold(ABC):
    """Folds the texts of one stream. Not safe for concurrent calls.

    Each API's fold knows which texts there are: :meth:`_find_pieces`.

    Attributes:
        budget: the room for all that is kept.
        has_content: something was said.
    """

    __slots__ = ("_anomalies", "_error", "_text", "budget", "has_content")

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.has_content = False
        self._text = OpenText()
        self._error: ErrorObject | None = None
        self._anomalies: dict[str, None] = {}  # a set that keeps its order

    @abstractmethod
    def _find_pieces(self, kind: str, index: int, part: int) -> list[str] | None:
        """The pieces so far of a text of an item; ``None`` if none can be added."""

    @abstractmethod
    def _is_piece(self, kind: str) -> bool:
        """Tell whether events of such a type bring pieces of a text."""

    @abstractmethod
    def look(self) -> Sequence[GrowingText]:
        """Look at the texts that have come so far (:mod:`codec.growing_text`)."""

    def note(self, anomaly: str) -> None:
        """Note an anomaly by its name in ``docs/contract/spans.md#anomalies``."""
        self._anomalies[anomaly] = None

    def note_error(self, error: ErrorObject) -> None:
        """Note an error; the first one is kept, as far as there is room."""
        if self._error is None:
            self._error = fit_error(error, self.budget)

    def open_text(self, kind: str, index: int, part: int, piece: str) -> OpenText | None:
        """Add a piece to a text of an item, and open that text for more.

        Returns:
            The text; a closed one if its item is whole, or if nothing grows any more; ``None`` if
            the event is about no text.
        """
        if not self._is_piece(kind):
            return None
        self.settle()
        text = self._text
        if (text.kind, text.index, text.part) != (kind, index, part):
            self._close_text()
            pieces = self._find_pieces(kind, index, part)
            if pieces is None:
                return text
            text = self._text = OpenText(kind, index, part, pieces)
        self._add_piece(text, piece)
        self._make_room()
        return text

    def add_pieces(self, pieces: Sequence[str]) -> None:
        """Add pieces to the open text: as many as :meth:`open_text` would add one by one."""
        self.settle()
        text = self._text
        for start in range(0, len(pieces), _PIECES_AT_ONCE):
            some = [piece for piece in pieces[start : start + _PIECES_AT_ONCE] if piece]
            if most_bytes(some) <= self.budget.free_bytes and self.budget.reserve_texts(some):
                text.pieces += some
                text.settled += len(some)
                self.has_content = self.has_content or bool(some)
            else:
                for piece in some:
                    self._add_piece(text, piece)
        self._make_room()

    def settle(self) -> None:
        """Reserve the room of the pieces that were added since the last time; there is room."""
        text = self._text
        text.room_bytes = 0
        if pieces := text.pieces[text.settled :]:
            self.budget.reserve_texts(pieces)
            text.settled += len(pieces)

    def _add_piece(self, text: OpenText, piece: str) -> None:
        if piece and self.budget.reserve_text(piece):
            text.pieces.append(piece)
            text.settled += 1
            self.has_content = True

    def _make_room(self) -> None:
        """Find out how many bytes further pieces of the open text may take without a loan."""
        self._text.room_bytes = self.budget.free_bytes if self.has_content else 0

    def _close_text(self) -> None:
        self.settle()
        self._text.close()
