"""The request of a turn in Live, as the session puts it together.

It has the shape of a request for content: the setup of the session, and the conversation so far as
``contents``. Members that the session adds: ``session_id``, and ``input_audio``, which says how
much sound the client sent since the turn before.
"""

from __future__ import annotations

from typing import ClassVar

from codec.apis.gemini.asked import ContentRequest
from codec.members import text_of

__all__ = ("LiveRequest",)


class LiveRequest(ContentRequest, frozen=True, gc=False):
    """A request for the next turn of the model."""

    content_members: ClassVar[frozenset[str]] = ContentRequest.content_members | {"input_audio"}

    @property
    def model(self) -> str | None:
        """The model, which the setup names by its whole path."""
        model = text_of(self.body.get("model"))
        return None if model is None else model.rpartition("models/")[2] or None

    @property
    def stream(self) -> bool:
        """Whether the answer comes in pieces: always."""
        return True
