"""A request body, of a chat or of a legacy completion, as a read-only view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from codec.asked import Asked, ReadList
from codec.bodies import decode_request_object
from codec.chat.messages import read_message
from codec.members import list_of
from codec.tools import read_tool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.asked import Tool
    from codec.parts import Message

__all__ = (
    "MAX_ASKED_CHOICES",
    "ChatRequest",
    "decode_request",
    "list_inputs",
)

MAX_ASKED_CHOICES = 128
"""The largest ``n`` that OpenAI accepts. A larger one does not mean that so many choices come."""


class ChatRequest(Asked, frozen=True, gc=False):
    """A request for a chat completion."""

    content_members: ClassVar[frozenset[str]] = frozenset(
        {"messages", "prompt", "functions", "tools"}
    )
    tool_members: ClassVar[frozenset[str]] = frozenset(
        {"tools", "functions", "tool_choice", "function_call"}
    )
    server_members: ClassVar[frozenset[str]] = frozenset(
        {"data_sources", "dataSources"}  # Azure OpenAI, "on your data"
    )
    function_members: ClassVar[frozenset[str]] = frozenset({"function"})

    @property
    def messages(self) -> Sequence[Any]:
        """The messages as sent; an entry need not be an object."""
        return list_of(self.body.get("messages"))

    @property
    def prompts(self) -> Sequence[Any]:
        """The prompts of a legacy completion (:func:`list_inputs`)."""
        return list_inputs(self.body.get("prompt"))

    @property
    def tools(self) -> Sequence[Any]:
        """The tool definitions as sent."""
        return list_of(self.body.get("tools"))

    @property
    def choice_count(self) -> int:
        """The number of choices asked for, ``n``; 1 if that is not a number."""
        count = self.body.get("n")
        return count if type(count) is int and 0 < count <= MAX_ASKED_CHOICES else 1

    @property
    def fault(self) -> str | None:
        """The reason why this is not a chat request (``docs/contract/sources.md#s4-10``).

        The request stays readable: a member of the wrong type reads as absent.
        """
        for name in ("messages", "tools"):
            if not isinstance(self.body.get(name), list | None):
                return f"{name} is not a list"
        if not isinstance(self.body.get("tool_choice"), str | dict | None):
            return "tool_choice is neither a word nor an object"
        return None

    @property
    def offered_names(self) -> frozenset[str] | None:
        """The names of the tools on offer, including the deprecated ``functions``."""
        functions = self.body.get("functions")
        names = super().offered_names
        if names is None or not isinstance(functions, list):
            return names
        named = [function.get("name") for function in functions if isinstance(function, dict)]
        return names | {name for name in named if isinstance(name, str)}

    def read_messages(self) -> Sequence[Message]:
        """Read the conversation."""
        return ReadList(self.messages, read_message)

    def read_tools(self) -> Sequence[Tool]:
        """Read the tools on offer."""
        return ReadList(self.tools, read_tool)


def list_inputs(value: Any) -> Sequence[Any]:
    """List prompts, or texts to embed: texts, lists of token ids, or neither.

    A list of integers is one input, of token ids (OpenAI's reference).
    """
    if isinstance(value, list) and not all(type(token) is int for token in value):
        return value
    return () if value is None or value == [] else (value,)


def decode_request(body: bytes) -> ChatRequest:
    """Decode a request body.

    Raises:
        MalformedRequest: it is not a JSON object in UTF-8.
    """
    return ChatRequest(decode_request_object(body))
