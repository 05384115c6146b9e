"""Requests for a transcription: which recording, and how it is to be written down.

OpenAI and most others take a form with a ``file``; OpenRouter also takes JSON with
``input_audio``, Mistral a ``file_url`` or a ``file_id``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from codec.call import Message
from codec.form_request import FormRequest
from codec.media import read_audio
from codec.members import object_of, text_of
from codec.parts import Media

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ("TranscriptionRequest",)

_SOUNDS: Final = ("file", "input_audio", "file_url", "file_id")
"""Members that are the recording, or say where it is."""

_TEXT_FORMS: Final = frozenset({"text", "srt", "vtt"})
"""Forms of an answer that are no JSON."""


class TranscriptionRequest(FormRequest, frozen=True, gc=False):
    """A request to write a recording down."""

    content_members: ClassVar[frozenset[str]] = frozenset({*_SOUNDS, "prompt"})
    server_members: ClassVar[frozenset[str]] = frozenset({"file_url"})  # which may be signed

    @property
    def fault(self) -> str | None:
        """The reason why this is not a request for a transcription; ``None`` if it is one."""
        return None if any(map(self.body.get, _SOUNDS)) else "there is no recording"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """All members but sound: the prompt, too, and what is known of the file.

        See ``docs/contract/apis.md#sound``.
        """
        return {name: value for name, value in self.body.items() if name != "input_audio"}

    @property
    def wants_text(self) -> bool:
        """Whether a form of text was asked for; that of silence is empty."""
        return text_of(self.body.get("response_format")) in _TEXT_FORMS

    def read_messages(self) -> Sequence[Message]:
        """Read one message with the recording, of which no more than its type is shown."""
        name = next((name for name in _SOUNDS if name in self.body), None)
        if name is None:
            return ()
        value = self.body[name]
        file = object_of(value[0] if isinstance(value, list) and value else value)
        mime_type = text_of(file.get("content_type"))
        if name == "input_audio":
            mime_type = read_audio(file).mime_type
        return (Message("user", (Media(kind="audio", mime_type=mime_type),)),)
