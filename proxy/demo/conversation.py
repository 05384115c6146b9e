"""Messages of a conversation, as the script asks for them: whose one is, and its text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.parts import Text, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.call import Message
    from codec.parts import Part

_ANSWERING = frozenset({"assistant", "model"})
"""Roles of the model; the latter is Gemini's word."""


def is_result(message: Message) -> bool:
    """Tell whether a message is what a tool answered: by its role, or as Gemini has it."""
    return message.role == "tool" or any(isinstance(it, ToolResult) for it in message.parts)


def is_answer(message: Message) -> bool:
    """Tell whether a message, or a part of one, is the model's."""
    return message.role in _ANSWERING


def text_of(message: Message) -> str:
    """Join the text of all parts of a message, of tools' results too."""
    return " ".join(filter(None, map(_text_of_part, message.parts)))


def texts_of(message: Message) -> Iterator[str]:
    """The texts of a message by themselves, without what tools answered."""
    for part in message.parts:
        if not isinstance(part, ToolResult):
            yield _text_of_part(part)


def _text_of_part(part: Part) -> str:
    if isinstance(part, ToolResult):
        content = part.content
        if content is None or isinstance(content, str):
            return content or ""
        return " ".join(filter(None, map(_text_of_part, content)))
    if isinstance(part, Text):
        return part.text
    return part if isinstance(part, str) else ""
