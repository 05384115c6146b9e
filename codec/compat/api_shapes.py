"""The API of a request or an answer, by its shape (``docs/contract/sources.md#s4-21``)."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

__all__ = ("ApiShape", "find_request_shape", "find_response_shape")


class ApiShape(StrEnum):
    """An API that generates text."""

    CHAT = "chat"
    """OpenAI's chat completions."""
    RESPONSES = "responses"
    """OpenAI's responses."""
    ANTHROPIC = "anthropic"
    """Anthropic's messages."""


def find_request_shape(body: Any, *, hint: ApiShape | None = None) -> ApiShape | None:
    """Tell the API of a request: the first that applies.

    Args:
        body: the decoded body, of any JSON type.
        hint: what is known otherwise, such as by the path. It may make a chat of messages an
            Anthropic one, for without a system prompt they look alike; nothing else.
    """
    if not isinstance(body, dict):
        return None
    members = {name for name, value in body.items() if value is not None}
    if members & {"input", "instructions"}:
        return ApiShape.RESPONSES
    if "system" in members:
        return ApiShape.ANTHROPIC
    if "messages" in members:
        return ApiShape.ANTHROPIC if hint is ApiShape.ANTHROPIC else ApiShape.CHAT
    return None


def find_response_shape(body: Any) -> ApiShape | None:
    """Tell the API of an answer: exactly one shape must match, else it is nobody's."""
    if not isinstance(body, dict):
        return None
    shapes = []
    if "choices" in body:
        shapes.append(ApiShape.CHAT)
    if "output" in body or "output_text" in body:
        shapes.append(ApiShape.RESPONSES)
    if body.get("type") == "message" and "content" in body:
        shapes.append(ApiShape.ANTHROPIC)
    return shapes[0] if len(shapes) == 1 else None
