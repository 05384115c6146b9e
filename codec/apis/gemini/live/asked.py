"""The request of a turn in Live, as the session puts it together.

It has the shape of a request for content: the setup of the session, and the conversation so far as
``contents``. Members that the session adds: ``session_id``; ``input_audio``, which says how much
sound the client sent since the turn before; and what the server has said since then, under the
names that it has on the wire (:data:`NOTICES`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from codec.apis.gemini.asked import ContentRequest
from codec.members import object_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("NOTICES", "LiveRequest")

NOTICES: Final = ("goAway", "toolCallCancellation")
"""Members of messages about no turn: the session ends soon, or some tools are not needed."""


class LiveRequest(ContentRequest, frozen=True, gc=False):
    """A request for the next turn of the model."""

    content_members: ClassVar[frozenset[str]] = ContentRequest.content_members | {
        *("input_audio", *NOTICES),
    }

    @property
    def model(self) -> str | None:
        """The model, which the setup names by its whole path."""
        model = text_of(self.body.get("model"))
        return None if model is None else model.rpartition("models/")[2] or None

    @property
    def input_audio(self) -> Mapping[str, Any]:
        """How much sound the client sent since the turn before."""
        return object_of(self.body.get("input_audio"))

    @property
    def stream(self) -> bool:
        """Whether the answer comes in pieces: always."""
        return True
