"""A request body, of a chat or of a legacy completion, as a read-only view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from codec.errors import MalformedRequest
from codec.jsontext import JsonObject, decode_json_object

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ("ChatRequest", "decode_request")

_NOT_PARAMETERS = frozenset({"messages", "prompt", "functions", "tools"})


class ChatRequest(msgspec.Struct, frozen=True, gc=False):
    """What a client asked for.

    Attributes:
        body: the whole request as a JSON object; treat it as read-only.
    """

    body: JsonObject

    @property
    def model(self) -> str | None:
        """The model asked for, ``None`` where it is absent or no string."""
        model = self.body.get("model")
        return model if isinstance(model, str) and model else None

    @property
    def stream(self) -> bool:
        """Whether a stream was asked for: the JSON value ``true`` and nothing else."""
        return self.body.get("stream") is True

    @property
    def messages(self) -> Sequence[Any]:
        """The messages as sent; an entry need not be an object."""
        messages = self.body.get("messages")
        return messages if isinstance(messages, list) else ()

    @property
    def prompts(self) -> Sequence[Any]:
        """The prompts of a legacy completion: texts, lists of token ids, or neither.

        A list of integers is one prompt, of token ids (OpenAI's reference for completions).
        """
        prompt = self.body.get("prompt")
        if isinstance(prompt, list) and not all(type(token) is int for token in prompt):
            return prompt
        return () if prompt is None or prompt == [] else (prompt,)

    @property
    def tools(self) -> Sequence[Any]:
        """The tool definitions as sent."""
        tools = self.body.get("tools")
        return tools if isinstance(tools, list) else ()

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Everything but messages, prompt, functions and tools (``span-contract.md`` 1.1)."""
        return {key: value for key, value in self.body.items() if key not in _NOT_PARAMETERS}


def decode_request(body: bytes) -> ChatRequest:
    """Decode a request body.

    Raises:
        MalformedRequest: it is not UTF-8 JSON, or no object.
    """
    try:
        return ChatRequest(decode_json_object(body))
    except ValueError as error:
        raise MalformedRequest(f"request body: {error}") from error
