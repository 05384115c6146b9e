"""Requests for speech: the text, and how it is to be spoken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from codec.call import Asked, Message
from codec.members import string_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ("SpeechRequest",)


class SpeechRequest(Asked, frozen=True, gc=False):
    """A request for speech. Mistral's ``ref_audio`` is a voice, recorded."""

    content_members: ClassVar[frozenset[str]] = frozenset({"input", "ref_audio"})

    @property
    def stream(self) -> bool:
        """Whether a stream of events was asked for, in OpenAI's way or in Mistral's."""
        return self.body.get("stream_format") == "sse" or super().stream

    @property
    def options(self) -> Mapping[str, Any]:
        """The parameters; what comes is sound."""
        return {**self.body, "modalities": ["audio"], "stream": self.stream}

    @property
    def fault(self) -> str | None:
        """The reason why this is not a request for speech; ``None`` if it is one."""
        return None if isinstance(self.body.get("input"), str) else "input is not text"

    def read_messages(self) -> Sequence[Message]:
        """Read one message, with the text."""
        text = string_of(self.body.get("input"))
        return () if text is None else (Message("user", text),)
