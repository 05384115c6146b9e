"""Requests of Ollama's own API (``docs/contract/apis.md#ollama``).

Other programs have paths such as ``/api/chat``, too. A body that is not one of Ollama's is marked
(:attr:`codec.asked.Asked.fault`), and is not read as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from codec.apis.ollama.turns import read_message
from codec.asked import Asked, ReadList
from codec.members import list_of, object_of
from codec.text.integers import count_of
from codec.tools import read_tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codec.asked import Tool
    from codec.parts import Message

__all__ = ("ChatAsked", "GenerateAsked", "OllamaAsked")

_OUTPUTS: Final = {"json": "json_object"}
"""Words for a form of the answer; a schema may stand in their place."""


class OllamaAsked(Asked, frozen=True, gc=False):
    """The members that all requests to Ollama have in common."""

    @property
    def stream(self) -> bool:
        """Whether a stream was asked for: only ``"stream": false`` asks for none."""
        is_ollamas = self.fault is None or not self.body
        return is_ollamas and self.body.get("stream") is not False

    @property
    def fault(self) -> str | None:
        """The reason why this is not a request to Ollama; ``None`` if it is one."""
        return None if isinstance(self.body.get("model"), str) else "model is not text"

    @property
    def options(self) -> Mapping[str, Any]:
        """The parameters under the names that chat completions give them.

        They stand in ``options``. The server ignores such members elsewhere, and so do we.
        """
        options = object_of(self.body.get("options"))
        thinks = self.body.get("think")
        named: dict[str, Any] = {
            "stream": self.stream,
            "max_tokens": count_of(options.get("num_predict")) or None,  # -1: no limit
            "response_format": _read_format(self.body.get("format")),
            "reasoning_effort": thinks if isinstance(thinks, str) else None,
        }
        return {**options, **{name: value for name, value in named.items() if value is not None}}


class ChatAsked(OllamaAsked, frozen=True, gc=False):
    """A request for the next message of a chat."""

    content_members: ClassVar[frozenset[str]] = frozenset({"messages", "tools"})
    tool_members: ClassVar[frozenset[str]] = frozenset({"tools"})

    @property
    def fault(self) -> str | None:
        """The reason why this is not a chat with Ollama; ``None`` if it is one."""
        if not isinstance(self.body.get("messages"), list):
            return "messages is not a list"
        return super().fault

    def read_messages(self) -> Sequence[Message]:
        """Read the messages in their order."""
        return ReadList(list_of(self.body.get("messages")), read_message)

    def read_tools(self) -> Sequence[Tool]:
        """Read the tools on offer."""
        return ReadList(list_of(self.body.get("tools")), read_tool)


class GenerateAsked(OllamaAsked, frozen=True, gc=False):
    """A request to continue a prompt; a system prompt and a suffix are parameters."""

    content_members: ClassVar[frozenset[str]] = frozenset({"prompt", "context", "images"})

    @property
    def fault(self) -> str | None:
        """The reason why this is not a request for a text; ``None`` if it is one."""
        if not isinstance(self.body.get("prompt"), str | None):
            return "prompt is not text"
        return super().fault

    def read_texts(self) -> Sequence[Any]:
        """Read the prompt; a request without one loads or unloads a model."""
        prompt = self.body.get("prompt")
        return () if prompt is None else (prompt,)


def _read_format(value: Any) -> Mapping[str, Any] | None:
    """The form of the answer, as a chat completion asks for it."""
    if isinstance(value, dict):
        return {"type": "json_schema", "json_schema": {"schema": value}}
    kind = _OUTPUTS.get(value) if isinstance(value, str) else None
    return None if kind is None else {"type": kind}
