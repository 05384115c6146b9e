r"""A streamed transcription: bytes in, an answer as a plain one has it out.

Rules, beside those of :mod:`codec.typed_stream`:

1. The last event tells all of the text, and wins over the pieces that came. Where neither came,
   the text so far is that of the segments.
2. OpenAI's events and Mistral's differ in names alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codec.apis.transcriptions.said import make_transcription
from codec.budget import Budget, size_bytes
from codec.growing_text import GrowingText, TextKind
from codec.members import object_of, string_of
from codec.text.jsontext import join_text
from codec.typed_stream import MAX_ANSWER_BYTES, TypedFold, TypedStream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codec.apis.transcriptions.said import TranscriptionAnswer
    from codec.text.jsontext import JsonObject

__all__ = ("TranscriptionStream",)

_DELTAS: Final = {"transcript.text.delta": "delta", "transcription.text.delta": "text"}
_SEGMENTS: Final = frozenset({"transcript.text.segment", "transcription.segment"})
_ENDS: Final = frozenset({"transcript.text.done", "transcription.done"})
_LANGUAGE: Final = "transcription.language"


class _TranscriptionFold(TypedFold):
    """Folds the events of one stream."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget)
        self._pieces: list[str] = []
        self._segments: list[JsonObject] = []
        self._end: JsonObject = {}

    def _fold_event(self, kind: str, event: JsonObject) -> None:
        if (member := _DELTAS.get(kind)) is not None:
            piece = event.get(member)
            if isinstance(piece, str) and piece and self.budget.reserve_text(piece):
                self._pieces.append(piece)
                self.has_content = True
        elif kind in _SEGMENTS:
            event.pop("type", None)
            if self.budget.reserve(size_bytes(event)):
                self._segments.append(event)
                self.has_content = True
        elif kind in _ENDS:
            event.pop("type", None)
            self.is_complete = True
            self.has_content = self.has_content or bool(event.get("text"))
            if not self.budget.reserve(size_bytes(event)):
                event = {"usage": object_of(event.get("usage"))}
            self._end |= event
        elif kind == _LANGUAGE:
            language = event.get("audio_language")
            if isinstance(language, str) and self.budget.reserve_text(language):
                self._end = {"language": language}

    def look(self) -> Sequence[GrowingText]:
        """Look at the text that has come so far."""
        if self._segments and not self._pieces:
            return (GrowingText("text", TextKind.TEXT, self._list_spoken(), grows=False),)
        return (GrowingText("text", TextKind.TEXT, self._pieces),)

    def _list_spoken(self) -> list[str]:
        """List the texts of the segments, with a space between two."""
        texts = [text for one in self._segments if (text := string_of(one.get("text")))]
        return [f"{' ' if at else ''}{text.strip()}" for at, text in enumerate(texts)]

    def answer(self) -> TranscriptionAnswer:
        """The answer as it stands (rule 1)."""
        body: JsonObject = {}
        if pieces := self._pieces or self._list_spoken():
            body["text"] = join_text(pieces)
        if self._segments:
            body["segments"] = self._segments
        body |= self._end
        return make_transcription(
            body, error=self.error, anomalies=self.anomalies, is_cut=not self.is_complete
        )


class TranscriptionStream(TypedStream[_TranscriptionFold]):
    r"""Reads one stream. Not safe for concurrent calls.

    Args:
        lend: whether that many more bytes may be reserved beside all others (:mod:`codec.budget`).

    >>> stream = TranscriptionStream()
    >>> stream.feed(b'data: {"type": "transcript.text.delta", "delta": "Hel')
    >>> stream.feed(b'lo"}\n\n')
    >>> stream.finish().answers[0].message.content
    'Hello'
    """

    __slots__ = ()

    def __init__(
        self, *, lend: Callable[[int], bool] | None = None, **_of_other_apis: object
    ) -> None:
        super().__init__(_TranscriptionFold(Budget(MAX_ANSWER_BYTES, lend)))
