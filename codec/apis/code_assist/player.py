"""The player of Code Assist: what Gemini's player plays, each answer and chunk in an envelope."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.apis.code_assist.peeling import peel_request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.apis.player import Performance, Player, Script
    from codec.asked import Asked
    from codec.dialects import Dialect
    from codec.text.jsontext import JsonObject

__all__ = ("EnclosedPlayer",)


class EnclosedPlayer:
    """Puts the answers of a player into envelopes.

    Args:
        player: plays answers without an envelope.
    """

    def __init__(self, player: Player) -> None:
        self._player = player

    def find_fault(self, body: JsonObject) -> JsonObject | None:
        """The first thing wrong with a request, ``None`` for a good one."""
        return self._player.find_fault(peel_request(body))

    def write_error(self, error: JsonObject, dialect: Dialect) -> bytes:
        """Write the body of an error, which has no envelope."""
        return self._player.write_error(error, dialect)

    def play(self, asked: Asked, script: Script, dialect: Dialect) -> Performance:
        """Begin an answer."""
        return _Enclosed(self._player.play(asked, script, dialect), script.answer_id)


class _Enclosed:
    """Plays one answer."""

    def __init__(self, performance: Performance, answer_id: str) -> None:
        self._performance = performance
        self._trace = f',"traceId":"{answer_id[:16]}"}}'.encode()
        self.content_type = performance.content_type

    def whole(self) -> bytes:
        """The body of the plain answer."""
        return self._enclose(self._performance.whole())

    def stream(self) -> Iterator[Sequence[bytes]]:
        """The chunks, each by itself."""
        for pieces in self._performance.stream():
            yield [self._enclose(piece) for piece in pieces]

    def _enclose(self, piece: bytes) -> bytes:
        """Enclose the object in a piece of the stream; an error, or none, stays as it is."""
        start, end = piece.find(b"{"), piece.rfind(b"}") + 1
        if start < 0 or piece.startswith(b'{"error"', start):
            return piece
        return piece[:start] + b'{"response":' + piece[start:end] + self._trace + piece[end:]
