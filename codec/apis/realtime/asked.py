"""The request of a response in a Realtime session, as the session puts it together.

On the wire a client says at most "answer now". The session adds its settings, and the conversation
so far as ``input``, so that the body has the shape of a request of the Responses API. Members that
the session adds besides: ``session_id``, and ``input_audio``, which says how much sound the client
sent since the request before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from codec.apis.responses.asked import ResponseRequest
from codec.members import list_of, object_of, text_of
from codec.text.integers import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("RealtimeRequest",)


class RealtimeRequest(ResponseRequest, frozen=True, gc=False):
    """A request for a response in a session."""

    content_members: ClassVar[frozenset[str]] = ResponseRequest.content_members | {"input_audio"}
    context_members: ClassVar[frozenset[str]] = ResponseRequest.context_members | {"session_id"}
    names_answers: ClassVar[bool] = False

    @property
    def stream(self) -> bool:
        """Whether the answer comes in pieces: always."""
        return True

    @property
    def options(self) -> Mapping[str, Any]:
        """The parameters under the names that chat completions give them."""
        body = self.body
        named = dict(super().options)
        limits = (body.get("max_output_tokens"), body.get("max_response_output_tokens"))
        named["max_tokens"] = next(filter(None, map(count_of, limits)), None)  # "inf" is no limit
        modalities = list_of(body.get("output_modalities")) or list_of(body.get("modalities"))
        named |= {"modalities": modalities or None, "stream": True}
        return {name: value for name, value in named.items() if value is not None}

    @property
    def input_audio(self) -> Mapping[str, Any]:
        """How much sound the client sent since the request before."""
        return object_of(self.body.get("input_audio"))

    @property
    def session_id(self) -> str | None:
        """The session at the provider."""
        return text_of(self.body.get("session_id"))

    @property
    def conversation_id(self) -> str | None:
        """Always ``None``: the session is the conversation, and the request has all of it."""
        return None
