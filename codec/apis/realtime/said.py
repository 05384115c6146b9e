"""The answer of a Realtime session: a response of the Responses API, spoken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.apis.responses.said import ResponseAnswer
from codec.members import object_of, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.text.jsontext import JsonObject

__all__ = ("RealtimeAnswer",)


class RealtimeAnswer(ResponseAnswer, frozen=True, kw_only=True):
    """Answer of the Realtime API.

    Attributes:
        transcriptions: transcripts of what the user said that came while the answer was under way,
            each with its item, and what it cost.
    """

    transcriptions: Sequence[JsonObject] = ()

    @property
    def transcription_usage(self) -> Sequence[JsonObject]:
        """The usage of each transcript that came while the answer was under way."""
        return [usage for it in self.transcriptions if (usage := object_of(it.get("usage")))]

    @property
    def details(self) -> JsonObject:
        """What the provider says about the status; xAI writes a word there."""
        return object_of(self.body.get("status_details"))

    @property
    def is_interrupted(self) -> bool:
        """Whether the user spoke, so that the answer was broken off."""
        return self.status == "cancelled" and self.details.get("reason") == "turn_detected"

    @property
    def _finish_reason(self) -> str | None:
        if self.is_cut:
            return None
        reason: Any = self.details.get("reason")
        return text_of(reason) or self.status
