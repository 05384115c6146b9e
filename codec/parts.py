"""Messages of requests and answers, and the parts that they are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

__all__ = (
    "MAX_READ_PARTS",
    "Media",
    "Message",
    "Other",
    "Part",
    "Reasoning",
    "Refusal",
    "Text",
    "ToolCall",
    "ToolResult",
)

MAX_READ_PARTS = 1_024
"""The most parts of one message that are read, and the most calls: OpenAI accepts 500 images."""


_CLIENT_TYPES = frozenset(
    {
        *("function", "custom", "function_call", "custom_tool_call"),
        *("computer_call", "local_shell_call", "shell_call", "apply_patch_call"),
    }
)
"""Types of calls that a client answers (``docs/contract/apis.md#responses-request``, items with an
``_output``)."""


class Text(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """A part of a content list that is text.

    Attributes:
        signature: proves to the provider that it wrote the text (Gemini).
    """

    text: str
    signature: str | None = None


class Reasoning(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The thoughts of a model before it answers.

    Attributes:
        text: the reasoning or its summary; ``None`` if only the encrypted form came.
        id: the provider's id for it.
        encrypted: its opaque form, to be sent back.
        signature: proves to the provider that it wrote the text (Anthropic, Gemini).
        data: all of it in an opaque form, if nobody may read it (Anthropic).
    """

    text: str | None
    id: str | None = None
    encrypted: str | None = None
    signature: str | None = None
    data: str | None = None


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """The words in which a model declined to answer, beside its content."""

    text: str


class Media(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An image, a sound, a video or a document.

    Attributes:
        kind: ``image``, ``audio``, ``video`` or ``document``.
        url: its address, or the ``data:`` URL that holds it (RFC 2397).
        data: the bytes in base64, if they did not come as a URL.
        mime_type: the type of the bytes; ``None`` if it is not known.
        file_id: the provider's id of an uploaded file, or of a sound that it made.
        transcript: the words of a sound.
        shortened: the words that stand for base64 which was too long for the answer
            (:class:`codec.text.base64_text.TakenPictures`).
        is_beside_content: the model made it, and clients may leave it out when they repeat the
            message.
        is_of_session: its data were kept of a session's sound, and later requests do not have them.
    """

    kind: str
    url: str | None = None
    data: str | None = None
    mime_type: str | None = None
    name: str | None = None
    file_id: str | None = None
    transcript: str | None = None
    shortened: str | None = None
    is_beside_content: bool = False
    is_of_session: bool = False

    @property
    def words(self) -> str | None:
        """The words of a sound of which later requests have nothing else, as in a session."""
        has_data = self.data and not self.is_of_session
        is_known = self.url or has_data or self.is_beside_content
        return None if is_known else self.transcript


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call of a tool.

    Attributes:
        id: the id that the result refers to.
        arguments: the argument text exactly as sent (concatenated), JSON or not.
        type: ``function`` unless the provider said otherwise; ``custom`` if the arguments are free
            text; ``function_call`` for OpenAI's deprecated single call; empty for a value that is
            not a call but stands in the place of one.
        reasoning_signature: proves to the provider that the model thought before it called
            (Gemini).
    """

    id: str | None = None
    name: str | None = None
    arguments: str = ""
    type: str = "function"
    reasoning_signature: str | None = None

    @property
    def is_clients(self) -> bool:
        """Whether the client runs it; if not, the provider did so while it answered."""
        return self.type in _CLIENT_TYPES


class ToolResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer of a tool to a call, as the client sends it to the model.

    Attributes:
        content: text or parts, for readers.
        value: the content as it came.
        is_error: the client says that the tool failed.
        name: the name of the tool, if the result itself names it.
        pictures: images in the content, if the content is a text of it all.
    """

    id: str | None
    content: str | tuple[Part, ...] | None
    value: Any
    is_error: bool = False
    name: str | None = None
    pictures: tuple[Media, ...] = ()


class Other(msgspec.Struct, frozen=True, gc=False):
    """A part of a kind that the record has no name for, as it came."""

    value: Any


Part = str | Text | Reasoning | Refusal | Media | ToolCall | ToolResult | Other
"""A part of a message; a string is text that did not come in a list of parts."""


class Message(msgspec.Struct, frozen=True, gc=False):
    """A message of a conversation.

    Attributes:
        role: as sent; a missing role is not assumed.
        content: the text, if the message is nothing else; else its parts in order; ``None`` if it
            says nothing.
        name: the name of the participant or tool.
        part_count: how many parts came, if not all of them were read, else 0.
    """

    role: str | None
    content: str | tuple[Part, ...] | None = None
    name: str | None = None
    part_count: int = 0

    @property
    def parts(self) -> tuple[Part, ...]:
        """The content as parts."""
        content = self.content
        if isinstance(content, str):
            return (content,) if content else ()
        return content or ()

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls among the parts, in their order."""
        if not isinstance(self.content, tuple):
            return ()
        return tuple([part for part in self.content if isinstance(part, ToolCall)])
