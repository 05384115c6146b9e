r"""Speech in events: bytes in, an answer that says how much was spoken out.

It keeps the rules of :mod:`codec.typed_stream`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from codec.apis.speech.said import count_sound, make_speech
from codec.budget import Budget, size_bytes
from codec.members import string_of
from codec.typed_stream import MAX_ANSWER_BYTES, TypedFold, TypedStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.apis.speech.said import SpeechAnswer
    from codec.text.jsontext import JsonObject

__all__ = ("SpeechStream",)

_DELTA: Final = "speech.audio.delta"
_END: Final = "speech.audio.done"
_MIME_TYPE: Final = "text/event-stream"


class _SpeechFold(TypedFold):
    """Folds the events of one stream."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget)
        self._size_bytes = 0
        self._end: JsonObject = {}

    def _fold_event(self, kind: str, event: JsonObject) -> None:
        if kind == _DELTA:
            sound = string_of(event.get("audio")) or string_of(event.get("audio_data"))  # Mistral
            self._size_bytes += count_sound(sound or "")
            self.has_content = self.has_content or bool(sound)
        elif kind == _END:
            self.is_complete = True
            if self.budget.reserve(size_bytes(event)):
                self._end = event

    def answer(self) -> SpeechAnswer:
        """The answer as it stands."""
        answer = make_speech(
            self._end, error=self.error, anomalies=self.anomalies, has_end=self.is_complete
        )
        is_known = "observer_limit" not in answer.anomalies
        return msgspec.structs.replace(
            answer, mime_type=_MIME_TYPE, output_bytes=self._size_bytes if is_known else None
        )


class SpeechStream(TypedStream[_SpeechFold]):
    r"""Reads one stream. Not safe for concurrent calls.

    Args:
        lend: whether that many more bytes may be reserved beside all others (:mod:`codec.budget`).

    >>> stream = SpeechStream()
    >>> stream.feed(b'data: {"type": "speech.audio.delta", "audio": "aGVsbG8="}\n\n')
    >>> stream.finish().output_bytes
    5
    """

    __slots__ = ()

    def __init__(
        self, *, lend: Callable[[int], bool] | None = None, **_of_other_apis: object
    ) -> None:
        super().__init__(_SpeechFold(Budget(MAX_ANSWER_BYTES, lend)))
