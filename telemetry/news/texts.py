"""The texts of an open call, as they grow: how much there is, and what is new.

Nothing is shown that the span would hide. The caller asks for no text of a call of which anything
is hidden. Here the texts are searched for credentials, also where two looks cut one. Once a text
has one, or an image in base64, no text of the call is shown any more. What may be the beginning of
a credential waits until more of the text has come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from codec.text.jsontext import join_text

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from codec.growing_text import GrowingText, TextKind
    from telemetry.privacy.credentials import Credentials

MAX_TOLD_CHARS: Final = 64 * 1024
"""The most of one text in one look: far more than a model says in that time. In JSON it is at most
six times as long, and a feed has room for that. The rest comes with the next looks."""

MAX_TEXTS: Final = 128
"""The most texts of one call that are shown: real answers have a few dozen tool calls at most."""

_IMAGE: Final = ";base64,"


class NewText(NamedTuple):
    """What is new in a text; see :class:`telemetry.news.messages.Said`."""

    kind: TextKind
    part: int
    name: str | None
    at: int
    text: str


class _Count:
    """How much of a text was counted.

    Attributes:
        pieces: how many of its pieces were counted.
        chars: the characters of these.
        pending: how many of its pending pieces were counted.
        pending_chars: the characters of these.
    """

    __slots__ = ("chars", "pending", "pending_chars", "pieces")

    def __init__(self) -> None:
        self.pieces = self.chars = self.pending = self.pending_chars = 0

    def count(self, text: GrowingText) -> int:
        """Count what is new; return all characters so far."""
        pieces, pending = text.pieces, text.pending
        if len(pieces) != self.pieces:
            self.chars += sum(map(len, pieces[self.pieces :]))
            self.pieces = len(pieces)
            self.pending = self.pending_chars = 0  # they are among the pieces now
        if len(pending) != self.pending:
            self.pending_chars += sum(map(len, pending[self.pending :]))
            self.pending = len(pending)
        return self.chars + self.pending_chars


class TextCount:
    """Counts the characters of the texts of one call, each piece of a growing text once."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[Hashable, _Count] = {}  # by key

    def count(self, texts: Sequence[GrowingText]) -> int:
        """Count all characters so far."""
        total = 0
        for text in texts:
            if not text.grows:
                total += sum(map(len, text.pieces))
            elif (known := self._counts.get(text.key)) is not None:
                total += known.count(text)
            else:
                known = self._counts[text.key] = _Count()
                total += known.count(text)
        return total


class _Place:
    """How far a text was read.

    Attributes:
        pieces: how many of its pieces were read.
        read_chars: the characters of these.
        chars: the characters of all that was read, pending pieces included.
        unshown: what was read, and is not shown yet.
        shown: how many characters were shown.
        tail: the last ones of them, in which a credential may have begun.
    """

    __slots__ = ("chars", "part", "pieces", "read_chars", "shown", "tail", "unshown")

    def __init__(self, part: int) -> None:
        self.part = part
        self.pieces = self.read_chars = self.chars = self.shown = 0
        self.unshown = self.tail = ""

    def read(self, text: GrowingText) -> None:
        """Read what is new in the text, unless enough of it waits to be shown."""
        if len(self.unshown) >= MAX_TOLD_CHARS:
            return
        if not text.grows:
            new = "".join((*text.pieces, *text.pending))[self.chars :][:MAX_TOLD_CHARS]
        else:
            pieces: list[str] = []
            chars = 0
            for piece in text.pieces[self.pieces :]:
                if chars >= MAX_TOLD_CHARS:
                    break
                pieces.append(piece)
                chars += len(piece)
            self.pieces += len(pieces)
            if self.pieces == len(text.pieces):
                pieces += text.pending
            new = "".join(pieces)[self.chars - self.read_chars :]
            self.read_chars += chars
        self.chars += len(new)
        self.unshown += new


class TextReader:
    """Reads what is new in the texts of one call.

    Attributes:
        is_withheld: no more of the call is shown.
    """

    __slots__ = ("_places", "is_withheld")

    def __init__(self) -> None:
        self._places: dict[Hashable, _Place] = {}
        self.is_withheld = False

    def read(self, texts: Sequence[GrowingText], credentials: Credentials) -> Iterator[NewText]:
        """Yield what has come since the last look, as far as it may be shown."""
        for text in texts:
            place = self._places.get(text.key)
            if place is None:
                if len(self._places) == MAX_TEXTS:
                    continue
                place = self._places[text.key] = _Place(len(self._places))
            place.read(text)
            if not place.unshown or self.is_withheld:
                continue
            at = place.shown
            if new := self._show(place, credentials):
                yield NewText(text.kind, place.part, text.name, at, new)

    def _show(self, place: _Place, credentials: Credentials) -> str:
        """Take as much as may be shown of what was read."""
        tail = place.tail
        seen = tail + place.unshown[:MAX_TOLD_CHARS]
        shown_chars = None if _IMAGE in seen else credentials.measure_shown(seen)
        if shown_chars is None:
            self.is_withheld = True
            self._places.clear()
            return ""
        shown = seen[len(tail) : shown_chars]
        if shown and "\ud800" <= shown[-1] <= "\udbff":  # the other half comes with the next piece
            shown = shown[:-1]
        place.unshown = place.unshown[len(shown) :]
        place.tail = (tail + shown)[-max(credentials.reach, len(_IMAGE)) :]
        text = _without_halves(shown)
        place.shown += len(text)
        return text


def _without_halves(text: str) -> str:
    """Join the two halves of characters, and replace a half that stands alone."""
    if text.isascii():
        return text
    return join_text((text,)).encode("utf-8", "replace").decode()
