"""Other APIs of the same providers: Anthropic's messages and OpenAI's responses.

A body's shape shows its API (``docs/contract/sources.md#s4-21``). Stop reasons, usage and calls are
read to the codec's words and values (``docs/contract/sources.md#s4-22``,
``docs/contract/sources.md#s4-23``).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from codec.compat.tool_progress import ParsedCall, parse_call
from codec.members import list_of, object_of, string_of
from codec.text.integers import count_of
from codec.text.jsontext import compact_text
from codec.usage import Usage

__all__ = (
    "ApiShape",
    "decode_anthropic_usage",
    "find_request_shape",
    "find_response_calls",
    "find_response_shape",
    "normalise_response_status",
    "normalise_stop_reason",
)


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
        hint: an API that is known otherwise, such as by the path. It decides only between a chat
            and Anthropic's messages without a system prompt, because these look alike.
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
    """Tell the API of an answer; ``None`` unless exactly one shape matches."""
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


_FINISHES = {"end_turn": "complete", "max_tokens": "length", "tool_use": "tool_use"}


def normalise_stop_reason(stop_reason: str | None) -> str | None:
    """Return the normalised finish of a ``stop_reason``; others are ``unknown``."""
    return None if stop_reason is None else _FINISHES.get(stop_reason, "unknown")


def decode_anthropic_usage(raw: Any) -> Usage | None:
    """Read a usage object of the Messages API.

    Input tokens exclude cached ones there (``docs/contract/wire.md#counts``): the prompt is all
    three together, and the total, which that API does not report, is the prompt and the output.
    """
    if not isinstance(raw, dict) or all(value is None for value in raw.values()):
        return None
    uncached, read, written, completion = (
        count_of(raw.get(name))
        for name in (
            "input_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
            "output_tokens",
        )
    )
    prompt = None if uncached is None else count_of(uncached + (read or 0) + (written or 0))
    total = None if prompt is None or completion is None else count_of(prompt + completion)
    return Usage(
        prompt=prompt,
        completion=completion,
        total=total,
        cache_read=read,
        cache_write=written,
        raw=raw,
    )


_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}


def normalise_response_status(body: Any) -> str | None:
    """Return the normalised finish of a response object.

    A ``function_call`` item alone does not make it ``tool_use``: the response's status decides.
    """
    status = object_of(body).get("status")
    if status == "completed":
        return "complete"
    if status == "incomplete":
        reason = string_of(object_of(body.get("incomplete_details")).get("reason"))
        return _REASONS.get(reason or "", "unknown")
    return None if status is None else "unknown"


def find_response_calls(body: Any) -> tuple[ParsedCall, ...]:
    """Return the function calls of a response object; ``call_id`` is what a result names."""
    return tuple(
        parse_call(
            string_of(item.get("call_id")),
            string_of(item.get("name")),
            _arguments(item.get("arguments")),
        )
        for item in list_of(object_of(body).get("output"))
        if object_of(item).get("type") == "function_call"
    )


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else compact_text(value)
