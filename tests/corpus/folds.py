"""A decoded answer as a fold of :mod:`tests.corpus.oracle`, so that the two can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codec.chat.answer import ChatResponse, Choice
    from codec.usage import Usage

__all__ = ("describe_response",)

_COUNTS = (
    "prompt",
    "completion",
    "total",
    "cache_read",
    "cache_write",
    "prompt_audio",
    "reasoning",
    "completion_audio",
)


def describe_response(response: ChatResponse) -> dict[str, Any]:
    """The fold of what the codec understood."""
    return _said(
        id=response.id,
        model=response.model,
        created=response.created,
        done=response.done or None,
        error=response.error.message if response.error is not None else None,
        usage=_describe_usage(response.usage),
        choices={str(choice.index): _describe_choice(choice) for choice in response.choices},
    )


def _describe_usage(usage: Usage | None) -> dict[str, int]:
    counts = {name: getattr(usage, name, None) for name in _COUNTS}
    return {name: count for name, count in counts.items() if count is not None}


def _describe_choice(choice: Choice) -> dict[str, Any]:
    message = choice.message
    call = message.function_call
    tokens = (choice.logprobs or {}).get("content") or []
    return _said(
        role=message.role,
        content=message.content,
        reasoning=message.reasoning,
        refusal=message.refusal,
        tool_calls=[[call.id, call.name, call.arguments] for call in message.tool_calls],
        function_call=[call.name, call.arguments] if call is not None else None,
        finish_reason=choice.finish_reason,
        logprob_tokens=[token["token"] for token in tokens],
    )


def _said(**members: Any) -> dict[str, Any]:
    # An empty choice is one that was announced: only what cannot be told from absence goes.
    return {name: value for name, value in members.items() if value not in (None, [], {})}
